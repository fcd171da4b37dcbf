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
        conflicts: FFMAs that read three registers of one bank, and so wait for it.
    """

    ffmas: int
    reads: int
    conflicts: int


def bank_use(instructions: Iterable[Instruction]) -> BankUse:
    """Register reads and bank conflicts of the FFMAs, by the rules found on Volta and later.

    A register's bank is its parity. An operand marked ``.reuse`` stays at hand, for its slot and bank, until the next
    read of that slot and bank, and needs no read if it is the same register. Three reads from one bank take a cycle
    longer on Volta, and two on Ampere. It is an estimate: the cache is lost when another warp issues in between.

    Source: Z. Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", 2018 (banks); R. Huerta
    et al., "Dissecting and Modeling the Architecture of Modern GPU Cores", MICRO 2025, 5.3 (cache, and Ampere's cost).
    """
    kept: dict[tuple[int, int], int | None] = {}
    ffmas = reads = conflicts = 0
    for each in instructions:
        sources = each.sources
        read = {register for slot, register, _ in sources if kept.get((slot, register % 2)) != register}
        for slot, register, keep in sources:
            kept[slot, register % 2] = register if keep else None
        if each.name == "FFMA":
            ffmas += 1
            reads += len(read)
            conflicts += len(read) == 3 and len({register % 2 for register in read}) == 1
    return BankUse(ffmas=ffmas, reads=reads, conflicts=conflicts)
