"""Machine code as nvdisasm prints it: instructions, loops, widths, and what the register banks make of the FFMAs.

Text in, numbers out; :func:`disassemble` alone starts a program. Nothing here knows a rung.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from ladder.errors import DisassemblerMissingError
from ladder.sass.banks import BankUse, bank_use
from ladder.sass.code import Code, Instruction, kernels, widths
from ladder.sass.loops import hottest_loop, loops

__all__ = [
    "BankUse",
    "Code",
    "Instruction",
    "bank_use",
    "disassemble",
    "hottest_loop",
    "kernels",
    "loops",
    "widths",
]


@cache
def disassemble(cubin: bytes) -> str:
    """What ``nvdisasm -c`` prints of a cubin. Needs no GPU.

    Raises:
        DisassemblerMissingError: nvdisasm is neither installed as a package nor on the PATH.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        return subprocess.run([_nvdisasm(), "-c", path], capture_output=True, text=True, check=True).stdout


@cache
def _nvdisasm() -> str:
    try:
        files = importlib.metadata.files("nvidia-cuda-nvdisasm") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    packaged = [str(file.locate()) for file in files if file.stem == "nvdisasm" and file.parent.name == "bin"]
    found = packaged[0] if packaged else shutil.which("nvdisasm")
    if found is None:
        raise DisassemblerMissingError(
            "nvdisasm is not installed, so machine code cannot be read; pip install nvidia-cuda-nvdisasm, or put the "
            "CUDA toolkit's bin folder on the PATH"
        )
    return found
