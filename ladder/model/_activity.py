"""What a product's warps executed, and what they waited for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from ladder.model._basics import ORIGINS, Origin

__all__ = ["Activity", "all_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Instructions and idle issue slots of one product, all its launches together. What nobody counted is None.

    Attributes:
        origin: ``"counted"`` by a GPU, or ``"emulated"``: instructions only.
        fadd, fmul, ffma: FP32 instructions times the lanes whose predicate was on.
        tensor_instructions: warp instructions of the tensor pipe, of any shape. A kernel without tensor cores has some,
            too: ptxas may load constants with HFMA2.MMA, which runs there.
        occupancy: resident warps over an SM's maximum, 0..1, averaged over the cycles in which it had any.
        busy: part of the SMs' cycles in which they had a warp, 0..1: what few threadblocks and a ragged end leave.
        issue_active: part of those cycles in which a scheduler issued an instruction, 0..1.
        stalls: part of the resident warps' time, 0..1, by what they waited for; the words are Nsight Compute's.

    Raises:
        ValueError: a count is negative, or a share is not in 0..1.
    """

    origin: Origin
    fadd: int | None = None
    fmul: int | None = None
    ffma: int | None = None
    tensor_instructions: int | None = None
    occupancy: float | None = None
    busy: float | None = None
    issue_active: float | None = None
    stalls: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.origin not in ORIGINS:
            raise ValueError(f"origin {self.origin!r} is none of {', '.join(ORIGINS)}")
        for name in ("fadd", "fmul", "ffma", "tensor_instructions"):
            count = getattr(self, name)
            if count is not None and count < 0:
                raise ValueError(f"{name} {count} < 0")
        shares = {name: getattr(self, name) for name in ("occupancy", "busy", "issue_active")}
        for name, share in (shares | dict(self.stalls)).items():
            if share is not None and not (math.isfinite(share) and 0 <= share <= 1):
                raise ValueError(f"{name} {share} is no share of 0..1")
        object.__setattr__(self, "stalls", MappingProxyType(dict(self.stalls)))

    @property
    def flop(self) -> int | None:
        """FP32 work that was really executed, ``fadd + fmul + 2 ffma``; None unless all three were counted."""
        if self.fadd is None or self.fmul is None or self.ffma is None:
            return None
        return self.fadd + self.fmul + 2 * self.ffma

    @property
    def leading_stalls(self) -> tuple[tuple[str, float], ...]:
        """Reasons by their share, the largest first."""
        return tuple(sorted(self.stalls.items(), key=lambda item: (-item[1], item[0])))


def all_of(parts: Sequence[Activity | None]) -> Activity | None:
    """The instructions of several launches together; None when one has not been counted. Shares are left out.

    Raises:
        ValueError: there is no launch.
    """
    if not parts:
        raise ValueError("no launch to add up")
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None

    def total(name: str) -> int | None:
        counts = [getattr(part, name) for part in known]
        return None if None in counts else sum(counts)

    return Activity(
        origin=known[0].origin,
        fadd=total("fadd"),
        fmul=total("fmul"),
        ffma=total("ffma"),
        tensor_instructions=total("tensor_instructions"),
    )
