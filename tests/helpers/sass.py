"""What tests ask of the machine code that ptxas made; it is read by :mod:`ladder.sass`, without a GPU."""

from __future__ import annotations

from collections import Counter
from functools import cache

from ladder.sass import Code, Instruction, disassemble, hottest_loop, kernels, widths

_WAITS = ("BAR.SYNC", "SYNCS.PHASECHK")


@cache
def _code(cubin: bytes) -> dict[str, Code]:
    return kernels(disassemble(cubin))


def opcodes(cubin: bytes) -> Counter[str]:
    """How often each opcode, with its modifiers (``LDS.U.128``), stands in the code."""
    return Counter(each.opcode for code in _code(cubin).values() for each in code.instructions)


def opcodes_by_kernel(cubin: bytes) -> dict[str, Counter[str]]:
    """:func:`opcodes` of each kernel of a cubin, by its mangled name."""
    return {name: code.opcodes for name, code in _code(cubin).items()}


def shared_accesses(found: Counter[str]) -> Counter[str]:
    """Static count of shared loads and stores by width in bits: ``{"LDS 128": 4, "STS 32": 2}``."""
    count: Counter[str] = Counter()
    for opcode, number in found.items():
        each = Instruction(opcode)
        if each.name in {"LDS", "STS"}:
            count[f"{each.name} {each.width_bits}"] += number
    return count


def shared_load_bits(cubin: bytes) -> Counter[int]:
    """Static count of shared-memory loads by width: ``{32: 16, 128: 4}``."""
    return widths((each for code in _code(cubin).values() for each in code.instructions), "LDS")


def waits_in_the_mainloop(cubin: bytes, kernel: str) -> list[str]:
    """Opcodes that wait for other threads or for copies, in the loop that multiplies; ``kernel`` is a mangled name.

    They wait at a barrier of the block, or at one in shared memory, which counts bytes too.
    """
    return [each.opcode for each in hottest_loop(_code(cubin)[kernel]) if each.opcode.startswith(_WAITS)]
