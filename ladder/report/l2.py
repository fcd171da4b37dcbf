"""DRAM intensity of cubic products over their size: where L2 stops holding the operands. No drawing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ladder.laws import compulsory
from ladder.model import Device, Origin, Shape
from ladder.report.text import listing, number
from ladder.report.view import Section

__all__ = ["Point", "Series", "compulsory_cube", "finding", "full_at", "series"]

_HELD = 0.5
"""Share of the compulsory intensity below which L2 no longer holds what the kernel comes back for."""

_ON_A_MULTIPLE = 0.05
"""Relative distance from a quarter or half of T at which a line counts as having settled there."""


@dataclass(frozen=True, slots=True)
class Point:
    """A cubic product of edge ``n``: FLOP/byte at DRAM and where the bytes come from."""

    n: int
    intensity: float
    origin: Origin

    @property
    def held(self) -> bool:
        """Whether it keeps at least half of the compulsory intensity."""
        return self.intensity >= _HELD * compulsory_cube(self.n)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One kernel's points, by n; ``edge`` is its tile's effective edge and ``law`` its law's name, if it has them."""

    name: str
    law: str
    edge: float | None
    points: tuple[Point, ...]

    @property
    def falls_at(self) -> int | None:
        """The first n at which the intensity is below half of the compulsory one; None when it never is."""
        return next((point.n for point in self.points if not point.held), None)

    @property
    def of_edge(self) -> float | None:
        """Intensity over T at the largest n, once it has fallen; None before that, or without a tile."""
        last = self.points[-1]
        return None if self.edge is None or last.held else last.intensity / self.edge

    @property
    def settled(self) -> int | None:
        """2 or 4 when the last point lies on T/2 or T/4, else None."""
        found = self.of_edge
        return next((d for d in (2, 4) if found is not None and abs(found * d - 1) <= _ON_A_MULTIPLE), None)


def series(sections: Sequence[Section]) -> tuple[Series, ...]:
    """The kernels with DRAM bytes at two cubic shapes or more, in the order of the rows."""
    points: dict[str, list[Point]] = {}
    described: dict[str, tuple[str, float | None]] = {}
    for section in sections:
        shape = section.shape
        if not shape.m == shape.n == shape.k:
            continue
        for row in section.rows:
            intensity = row.run.intensity.get("dram")
            if intensity and row.run.traffic is not None:
                origin = row.run.traffic.levels["dram"].origin
                points.setdefault(row.name, []).append(Point(shape.n, intensity, origin))
                described[row.name] = (row.run.law.name if row.run.law else "", row.edge)
    return tuple(
        Series(name=name, law=described[name][0], edge=described[name][1],
               points=tuple(sorted(found, key=lambda point: point.n)))
        for name, found in points.items() if len({point.n for point in found}) > 1
    )  # fmt: skip


def full_at(device: Device) -> float | None:
    """The n at which A, B and C, 12 n^2 bytes, fill the L2 of ``device``; None when its size is unknown."""
    return math.sqrt(device.l2_bytes / 12) if device.l2_bytes > 0 else None


def finding(found: Sequence[Series], device: Device) -> str:
    """What the lines show, in words: where A, B and C fill L2, which kernels fall at which n, and onto what."""
    sizes = sorted({point.n for each in found for point in each.points})
    parts = []
    for n in sizes:
        fallen = [each for each in found if each.falls_at == n]
        if fallen:
            parts.append(f"first at N = {n} for {_who(fallen, found)}")
    whole = [each for each in found if each.falls_at is None]
    if not parts:
        text = f"From N = {sizes[0]} to {sizes[-1]} no kernel falls below half of the compulsory N/6 FLOP/byte at DRAM."
    else:
        text = f"Intensity at DRAM falls below half of the compulsory N/6 {', '.join(parts)}"
        text += f"; up to N = {sizes[-1]} it never does for {_who(whole, found)}." if whole else "."
    for part in (2, 4):
        settled = [each for each in found if each.settled == part]
        if settled:
            verb = "lies" if len(settled) == 1 else "lie"
            text += f" At N = {sizes[-1]} {listing([each.name for each in settled])} {verb} at T/{part}."
    full = full_at(device)
    return text if full is None else f"{text} A, B and C fill L2 at N = {full:.0f}."


def compulsory_cube(n: float, *, c_moves: bool = True) -> float:
    """The compulsory FLOP/byte of a cubic product."""
    return compulsory(Shape(m=12, n=12, k=12), c_moves=c_moves) * n / 12


def _label(edge: float) -> str:
    return f"T = {edge:g}" if edge == round(edge) else f"T = {number(edge)}"


def _who(chosen: Sequence[Series], found: Sequence[Series]) -> str:
    """``chosen`` by tile edge where all kernels of that edge and law are in it, else by name."""
    names: dict[str, None] = {}
    for each in chosen:
        alike = [other for other in found if (other.law, other.edge) == (each.law, each.edge)]
        if each.edge is None or any(other not in chosen for other in alike):
            names[each.name] = None
        else:
            names[_label(each.edge)] = None
    return listing(list(names), 9)
