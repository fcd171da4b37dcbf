"""FP32 instructions in PTX: what a GPU counts as FADD, FMUL and FFMA, lane by lane.

What NVRTC writes as ``fma`` stays one FFMA, so a kernel's multiply-adds are counted exactly. An ``add`` or ``mul``
without a rounding mode may still be joined by ptxas, and a division becomes several of each: those are counted as
they stand in the PTX, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable

from ladder.ptx.syntax import Instruction

__all__ = ["Fp32", "fp32_of"]

Fp32 = tuple[int, int, int]
"""FADD, FMUL and FFMA instructions."""

_PLACES = {"add": 0, "sub": 0, "mul": 1, "fma": 2, "mad": 2}


def fp32_of(instructions: Iterable[Instruction]) -> Fp32 | None:
    """How many of each every lane executes that comes by; None when a predicate decides which lanes do."""
    counts = [0, 0, 0]
    for instruction in instructions:
        parts = instruction.parts
        place = _PLACES.get(parts[0])
        if place is None or parts[-1] != "f32":
            continue
        if instruction.guard is not None:
            return None
        counts[place] += 1
    return counts[0], counts[1], counts[2]
