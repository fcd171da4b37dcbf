"""A chart as plain data: axes, lines and points, which matplotlib draws on paper and plotly on the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Axis", "Chart", "Line", "Panel", "Points", "Tone", "edges_axis", "log_axis", "rows_axis"]

Tone = Literal["dram", "l2", "sm", "fp32", "ink", "muted"]
Symbol = Literal["square", "circle", "diamond", "triangle-up", "line-ns", "line-ew"]
Dash = Literal["solid", "dash", "dot"]

_GLYPHS: dict[tuple[str, bool], str] = {
    ("square", True): "■",
    ("square", False): "□",
    ("circle", True): "●",
    ("circle", False): "○",
    ("diamond", True): "◆",
    ("diamond", False): "◇",
    ("triangle-up", True): "▲",
    ("triangle-up", False): "△",
    ("line-ew", True): "–",
    ("line-ew", False): "–",
    ("line-ns", True): "|",
    ("line-ns", False): "|",
}
_STROKES: dict[Dash, str] = {"solid": "—", "dash": "– –", "dot": "· ·"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis from ``low`` to ``high``, the other way round where ``low`` is the larger."""

    title: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line through points; ``name`` puts it into the legend."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    tone: Tone
    dash: Dash = "solid"
    width: float = 1.5
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Points of one kind; ``hover`` has a text for each, ``name`` puts them into the legend."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    hover: tuple[str, ...]
    tone: Tone
    symbol: Symbol
    filled: bool = True
    size: float = 9.0
    name: str = ""

    def __post_init__(self) -> None:
        if not len(self.x) == len(self.y) == len(self.hover):
            raise ValueError(f"{len(self.x)} x, {len(self.y)} y, {len(self.hover)} texts: give one of each a point")


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One pair of axes and what they hold; ``notes`` are words at the right end of a row: (y, text, tone)."""

    title: str
    x: Axis
    y: Axis
    lines: tuple[Line, ...] = ()
    points: tuple[Points, ...] = ()
    notes: tuple[tuple[float, str, Tone], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Panels side by side, under one title.

    Attributes:
        kind: for file names and anchors.
        finding: what it shows, in words: the text for those who do not see it.
        caption: how to read it.
        height_in: of the drawing on paper, with title and axes.
        left_in: room for the labels of the first panel's y axis.
    """

    kind: str
    title: str
    finding: str
    caption: str
    panels: tuple[Panel, ...]
    height_in: float = 4.2
    left_in: float = 0.62
    right_in: float = 0.12

    @property
    def legend(self) -> tuple[tuple[str, Tone, str], ...]:
        """(glyph, tone, name) of every named line and kind of points, each name once."""
        found: dict[str, tuple[str, Tone, str]] = {}
        for panel in self.panels:
            for points in panel.points:
                if points.name:
                    found.setdefault(points.name, (_GLYPHS[points.symbol, points.filled], points.tone, points.name))
            for line in panel.lines:
                if line.name:
                    found.setdefault(line.name, (_STROKES[line.dash], line.tone, line.name))
        return tuple(found.values())

    def to_json(self) -> dict[str, Any]:
        """For the page's script."""
        return {"kind": self.kind, "height": round(96 * self.height_in), "left": round(96 * self.left_in),
                "right": round(96 * self.right_in), "panels": [_panel(panel) for panel in self.panels]}  # fmt: skip


def _panel(panel: Panel) -> dict[str, Any]:
    def axis(each: Axis) -> dict[str, Any]:
        return {"title": each.title, "low": each.low, "high": each.high, "log": each.log,
                "values": [value for value, _ in each.ticks], "texts": [text for _, text in each.ticks]}  # fmt: skip

    return {
        "title": panel.title,
        "x": axis(panel.x),
        "y": axis(panel.y),
        "lines": [{"x": line.x, "y": line.y, "tone": line.tone, "dash": line.dash, "width": line.width}
                  for line in panel.lines],
        "points": [{"x": p.x, "y": p.y, "hover": p.hover, "tone": p.tone, "symbol": p.symbol, "filled": p.filled,
                    "size": p.size} for p in panel.points],
        "notes": panel.notes,
    }  # fmt: skip


def log_axis(title: str, values: Iterable[float], *, room: float = 1.6) -> Axis:
    """A logarithmic axis around ``values``, with plain numbers at its ticks."""
    known = [value for value in values if value > 0]
    low, high = min(known) / room, max(known) * room
    decades = math.log10(high / low)
    steps = (1.0,) if decades > 2.2 else (1.0, 2.0, 5.0) if decades > 0.8 else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = tuple((t, f"{t:g}") for power in powers for step in steps if low <= (t := step * 10.0**power) <= high)
    return Axis(title=title, low=low, high=high, ticks=ticks)


def edges_axis(edges: Sequence[int]) -> Axis:
    """The tile edges as an axis."""
    return Axis(title="tile edge T", low=min(edges) / 1.4, high=max(edges) * 1.4,
                ticks=tuple((float(edge), str(edge)) for edge in edges))  # fmt: skip


def rows_axis(names: Sequence[str]) -> Axis:
    """One row a name, from the top down."""
    return Axis(title="", low=len(names) - 0.4, high=-0.6, log=False,
                ticks=tuple((float(index), name) for index, name in enumerate(names)))  # fmt: skip


@dataclass(slots=True)
class Collected:
    """Points of one kind while they are being found."""

    x: list[float] = field(default_factory=list)
    y: list[float] = field(default_factory=list)
    hover: list[str] = field(default_factory=list)

    def add(self, x: float, y: float, hover: str) -> None:
        """One more."""
        self.x.append(x)
        self.y.append(y)
        self.hover.append(hover)

    def points(self, *, tone: Tone, symbol: Symbol, filled: bool = True, size: float = 9.0, name: str = "") -> Points:
        """All of them."""
        return Points(x=tuple(self.x), y=tuple(self.y), hover=tuple(self.hover), tone=tone, symbol=symbol,
                      filled=filled, size=size, name=name)  # fmt: skip
