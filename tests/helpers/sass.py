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
    return Counter(INSTRUCTION.findall(_disassembled(cubin)))


@cache
def opcodes_by_kernel(cubin: bytes) -> dict[str, Counter[str]]:
    """:func:`opcodes` of each kernel of a cubin, by its mangled name."""
    _, *parts = re.split(r"^//-+ \.text\.(\S+)\s+-+$", _disassembled(cubin), flags=re.M)
    return {name: Counter(INSTRUCTION.findall(text)) for name, text in zip(parts[::2], parts[1::2], strict=True)}


@cache
def _disassembled(cubin: bytes) -> str:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        return subprocess.run([nvdisasm(), "-c", path], capture_output=True, text=True, check=True).stdout


def shared_accesses(found: Counter[str]) -> Counter[str]:
    """Static count of shared loads and stores by width in bits: ``{"LDS 128": 4, "STS 32": 2}``."""
    widths: Counter[str] = Counter()
    for opcode, count in found.items():
        kind, *modifiers = opcode.split(".")
        if kind in {"LDS", "STS"}:
            bits = next((m.lstrip("US") for m in modifiers if m.lstrip("US") in {"8", "16", "64", "128"}), "32")
            widths[f"{kind} {bits}"] += count
    return widths


def shared_load_bits(cubin: bytes) -> Counter[int]:
    """Static count of shared-memory loads by width: ``{32: 16, 128: 4}``."""
    widths: Counter[int] = Counter()
    for opcode, count in opcodes(cubin).items():
        parts = opcode.split(".")
        if parts[0] == "LDS":
            widths[next((int(part) for part in parts[1:] if part in ("64", "128")), 32)] += count
    return widths
