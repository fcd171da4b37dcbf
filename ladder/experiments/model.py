"""What the experiments found: rows of tile edges and of padding, and kernels placed by asked and by DRAM bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ladder.model import Device, Level, Roofs, Timing, Traffic
from ladder.store import Run

__all__ = ["EXPERIMENTS", "AskedRow", "Experiments"]

EXPERIMENTS = ("law", "transition", "asked")
"""The law of the tile edge, the transition to shared memory and its banks, and bytes asked for against bytes moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRow:
    """One kernel, to be placed by the bytes that its lanes ask for and by those that DRAM moved.

    Attributes:
        name, title: the kernel's.
        kind: a rung, a law's matrix product, or a stream kernel, which is no matrix product.
        size: ``"4096x4096x4096"`` or ``"n = 1048576"``.
        flop: work.
        traffic: bytes by level, ``asked`` among them where somebody counted it.
        time: seconds per launch, None without a clock.
        problem: why there is nothing, or only a part of it.
    """

    name: str
    title: str
    kind: Literal["rung", "law", "stream"]
    size: str
    flop: int
    traffic: Traffic | None = None
    time: Timing | None = None
    problem: str | None = None

    def bytes_at(self, level: Level) -> int | None:
        """Bytes of a level; None where nobody counted them."""
        found = self.traffic.levels.get(level) if self.traffic else None
        return None if found is None else found.bytes

    @property
    def dram_over_asked(self) -> float | None:
        """DRAM's bytes over those asked for: below 1 where caches serve the rest, above 1 where bytes are wasted."""
        asked, moved = self.bytes_at("asked"), self.bytes_at("dram")
        return moved / asked if asked and moved is not None else None

    def share(self, level: Level, roofs: Roofs) -> float | None:
        """The rate of ``level``'s bytes over what DRAM sustains in a copy; above 1 they cannot have come from there."""
        moved, copy = self.bytes_at(level), roofs.bytes_per_s.get("dram")
        return moved / self.time.median / copy if moved and self.time and copy else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiments:
    """One session of experiments on one device against one set of roofs; those that were not asked for have no rows.

    Attributes:
        edges: matrix products at T = 4 ... 64, of the law and of the transition.
        padding: rung 04 and rung 05 with more padding, of the transition.
        asked: of asked against counted.
    """

    created: str
    command: str
    device: Device
    roofs: Roofs
    edges: tuple[Run, ...] = ()
    padding: tuple[Run, ...] = ()
    asked: tuple[AskedRow, ...] = ()
