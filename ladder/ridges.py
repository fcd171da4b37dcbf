"""Where memories and pipes meet: ridge points, and what moves them from one card or number format to another.

A ridge is P / B, the FLOP per byte from which a pipe and no longer that memory is the limit (Williams, Waterman and
Patterson, CACM 52(4), 2009). A faster pipe moves it right, a faster memory left: code that a memory did not hold back
may be held back by it on the next card, or on tensor cores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ladder.model import Device, Level, Roofs
from ladder.profiles import available, load_profile
from ladder.roofline import ridge

__all__ = ["LEVELS", "Ridges", "known_cards", "moves", "ridges"]

LEVELS: tuple[Level, ...] = ("dram", "l2", "sm")
"""Memories with a roof, outermost first; shared memory's is that of the SM's data pipe."""

_PIPES = ("fp32", "tf32", "fp16", "bf16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ridges:
    """The ridge points of one pipe of one card.

    Attributes:
        card: the GPU's name.
        pipe: such as ``"fp32"``.
        flop_per_s: its peak.
        flop_per_byte: by level, for those that have a roof.
        factor: by level, how far right of the first row of the comparison that has this level.
    """

    card: str
    pipe: str
    flop_per_s: float
    flop_per_byte: Mapping[Level, float]
    factor: Mapping[Level, float]

    def __post_init__(self) -> None:
        for name in ("flop_per_byte", "factor"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))


def ridges(card: str, roofs: Roofs) -> tuple[Ridges, ...]:
    """A row for each pipe, FP32 first; factors are against that."""
    return moves([(card, roofs)])


def moves(cards: list[tuple[str, Roofs]]) -> tuple[Ridges, ...]:
    """A row for each pipe of each card, in the order given; factors are against the first that has the level."""
    rows = [(card, pipe, roofs) for card, roofs in cards for pipe in _in_order(roofs)]
    found = [{level: at for level in LEVELS if (at := ridge(roofs, level, pipe=pipe))} for _, pipe, roofs in rows]
    first = {level: next((points[level] for points in found if level in points), 0.0) for level in LEVELS}
    return tuple(
        Ridges(
            card=card,
            pipe=pipe,
            flop_per_s=roofs.flop_per_s[pipe],
            flop_per_byte=points,
            factor={level: at / first[level] for level, at in points.items()},
        )
        for (card, pipe, roofs), points in zip(rows, found, strict=True)
    )


def _in_order(roofs: Roofs) -> list[str]:
    return sorted(roofs.flop_per_s, key=lambda pipe: (_PIPES.index(pipe) if pipe in _PIPES else len(_PIPES), pipe))


def known_cards(device: Device, roofs: Roofs) -> list[tuple[str, Roofs]]:
    """The packaged profiles by generation; ``device`` with its ``roofs`` in the place of its own profile, or last."""
    profiles = sorted(
        (load_profile(name) for name in available()),
        key=lambda profile: (profile.device.compute_capability, profile.device.sm_count),
    )
    out = [(each.device.name, roofs if each.device.name == device.name else each.roofs) for each in profiles]
    if device.name not in dict(out):
        out.append((device.name, roofs))
    return out
