"""The machine code that ptxas made, disassembled without a GPU."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)")


@cache
def nvdisasm() -> Path:
    """The disassembler of the ``nvidia-cuda-nvdisasm`` wheel, which the ``test`` dependency group installs."""
    files = importlib.metadata.files("nvidia-cuda-nvdisasm") or ()
    (program,) = (file for file in files if file.stem == "nvdisasm" and file.parent.name == "bin")
    return Path(str(program.locate()))


@cache
def opcodes(cubin: bytes) -> Counter[str]:
    """How often each opcode, with its modifiers (``LDS.U.128``), stands in the code."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        text = subprocess.run([nvdisasm(), "-c", path], capture_output=True, text=True, check=True).stdout
    return Counter(INSTRUCTION.findall(text))


def shared_load_bits(cubin: bytes) -> Counter[int]:
    """Static count of shared-memory loads by width: ``{32: 16, 128: 4}``."""
    widths: Counter[int] = Counter()
    for opcode, count in opcodes(cubin).items():
        parts = opcode.split(".")
        if parts[0] == "LDS":
            widths[next((int(part) for part in parts[1:] if part in ("64", "128")), 32)] += count
    return widths
