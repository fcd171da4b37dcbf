"""What FFMAs ask of the register file: how many reads, and how many that wait for one another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ladder.sass.code import Instruction

__all__ = ["BankUse", "bank_use"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BankUse:
    """What the FFMAs of a piece of code ask of the register banks.

    Attributes:
        ffmas: how many there are.
        reads: registers that they read from the banks, those left out that the reuse cache still holds.
        conflicts: FFMAs that read three registers of one bank.
        cycles: what the banks need for all of them at one read a cycle each: at least one cycle an FFMA.
    """

    ffmas: int
    reads: int
    conflicts: int
    cycles: int


def bank_use(instructions: Iterable[Instruction]) -> BankUse:
    """Register reads and bank conflicts of the FFMAs, by the rules found on Volta and later.

    A register's bank is its parity. An operand marked ``.reuse`` stays at hand, for its slot and bank, until the next
    read of that slot and bank, and needs no read if it is the same register. Where an SM has 64 FP32 lanes (7.x, 8.0)
    an FFMA takes two cycles, and waits only if it reads three registers of one bank. Where it has 128 (8.6 and later)
    an FFMA takes one, and waits if it reads two of one bank: on an H200 the issue slots that FP32 mainloops leave empty
    follow ``cycles``. It is an estimate, since the cache is lost when another warp issues in between: it tells layouts
    apart, but not which of two kernels a few percent apart is the faster.

    Source: Z. Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", 2018 (banks); R. Huerta
    et al., "Dissecting and Modeling the Architecture of Modern GPU Cores", MICRO 2025, 5.3 (cache, and Ampere's cost).
    """
    kept: dict[tuple[int, int], int | None] = {}
    ffmas = reads = conflicts = cycles = 0
    for each in instructions:
        sources = each.sources
        read = {register for slot, register, _ in sources if kept.get((slot, register % 2)) != register}
        for slot, register, keep in sources:
            kept[slot, register % 2] = register if keep else None
        if each.name == "FFMA":
            ffmas += 1
            reads += len(read)
            odd = sum(register % 2 for register in read)
            conflicts += len(read) == 3 and odd in {0, 3}
            cycles += max(1, odd, len(read) - odd)
    return BankUse(ffmas=ffmas, reads=reads, conflicts=conflicts, cycles=cycles)
