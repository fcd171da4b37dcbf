"""The intensity law: measured FLOP/byte at L1 against the tile edge, on log-log axes, with the fitted slopes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from ladder.laws import c_stationary, tile_product
from ladder.report.draw import COLOURS, INK, MUTED, PAPER, Drawing, canvas, finish, plain_ticks, styled
from ladder.report.labels import spread
from ladder.report.text import listing, number, plural, short
from ladder.report.view import Row, Section
from ladder.stats import PowerLaw, fit_power_law

__all__ = ["FORMULA", "LawFit", "draw", "fits", "ragged"]

_WIDTH_IN, _HEIGHT_IN = 9.6, 4.7
_LEFT, _BOTTOM, _RIGHT, _TOP = 0.065, 0.115, 0.62, 0.975
_TEXT_X, _LINE_IN = 0.645, 0.165
_LISTED = 12
_COLOUR = {"tile_product": COLOURS["fp32"], "c_stationary": COLOURS["dram"]}
_MARKER = {"tile_product": "s", "c_stationary": "o"}
FORMULA = {"tile_product": "T/6", "c_stationary": "(T/4) / (1 + T/2K)"}
_WORDS = {
    "tile_product": "three tiles touched (tile_product)",
    "c_stationary": "C in registers (c_stationary)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LawFit:
    """One law's points at one shape.

    Attributes:
        law: its name.
        rows: the runs that declare it and were counted, by tile edge.
        slope: of log intensity over log T; None with fewer than two different T.
        corrected: the same after the store of C is divided out (measured / predicted x T/4), where a law has one.
        worst: the row farthest from its prediction.
    """

    law: str
    rows: tuple[Row, ...]
    slope: PowerLaw | None
    corrected: PowerLaw | None
    worst: Row

    @property
    def within(self) -> str:
        """How near to the law the farthest point is: ``exactly`` below half of the last digit shown."""
        away = 100 * abs(self.worst.law_error or 0.0)
        return "exactly" if away < 0.005 else f"within {number(away, 2)} %"

    @property
    def words(self) -> list[str]:
        """The slopes in words, one an item."""
        if self.slope is None:
            return ["one tile edge, so no slope"]
        text = f"slope {_slope(self.slope)} over {plural(self.slope.points, 'point')}"
        if self.corrected is None:
            return [text]
        return [text, f"slope {_slope(self.corrected)} with C's store divided out"]


def fits(section: Section) -> tuple[LawFit, ...]:
    """The laws that counted runs declare, each with its slope."""
    out = []
    for law in ("tile_product", "c_stationary"):
        chosen = [
            row for row in section.rows
            if row.run.law is not None and row.run.law.name == law and row.edge and row.law_error is not None
        ]  # fmt: skip
        if not chosen:
            continue
        rows = tuple(sorted(chosen, key=lambda row: row.edge or 0.0))
        corrected = None
        if law == "c_stationary":
            corrected = _fit(rows, [(1 + (row.law_error or 0)) * c_stationary(row.edge or 0) for row in rows])
        out.append(
            LawFit(
                law=law,
                rows=rows,
                slope=_fit(rows, [row.run.intensity["l1"] for row in rows]),
                corrected=corrected,
                worst=max(rows, key=lambda row: abs(row.law_error or 0)),
            )
        )
    return tuple(out)


def ragged(section: Section) -> str:
    """Why sectors outnumber the law's elements at this shape; empty where rows begin on sector boundaries.

    A row of A is K floats long and one of B and C is N; eight of them are a sector.
    """
    uneven = [f"{axis} = {size}" for axis, size in (("N", section.shape.n), ("K", section.shape.k)) if size % 8]
    if not uneven:
        return ""
    return (
        f"With {' and '.join(uneven)} rows do not begin on 32-byte sectors, so L1 moves more than the law's elements."
    )


def draw(section: Section) -> Drawing | None:
    """The figure, or None when no counted run declares a law."""
    found = fits(section)
    if not found:
        return None
    with styled("law"):
        figure = canvas(_WIDTH_IN, _HEIGHT_IN)
        axes = figure.add_axes((_LEFT, _BOTTOM, _RIGHT - _LEFT, _TOP - _BOTTOM))
        edges = sorted({row.edge for fit in found for row in fit.rows if row.edge})
        _curves(axes, edges, section.shape.k, [fit.law for fit in found])
        for fit in found:
            xs, ys = [row.edge or 0 for row in fit.rows], [row.run.intensity["l1"] for row in fit.rows]
            axes.plot(xs, ys, marker=_MARKER[fit.law], ls="none", ms=6.5, mfc=PAPER, mec=_COLOUR[fit.law], mew=1.7,
                      zorder=4)  # fmt: skip
        axes.set_xlabel("tile edge T (of a BM x BN tile: the harmonic mean)")
        axes.set_ylabel("FLOP/byte at L1")
        _text(axes, found)
        return finish(
            figure, kind="law", title="The intensity law", alt=_alt(section, found), caption=_caption(section)
        )


def _fit(rows: Sequence[Row], values: Sequence[float]) -> PowerLaw | None:
    edges = [row.edge or 0.0 for row in rows]
    return fit_power_law(edges, values) if len(set(edges)) > 1 else None


def _slope(fit: PowerLaw) -> str:
    error = "" if fit.standard_error is None else f" ± {fit.standard_error:.3f}"
    return f"{fit.exponent:.3f}{error}"


def _curves(axes: Axes, edges: list[float], k: int, laws: list[str]) -> None:
    low, high = min(edges) / 1.5, max(edges) * 1.5
    t = np.geomspace(low, high, 60)
    if "tile_product" in laws:
        axes.plot(t, [tile_product(x) for x in t], color=_COLOUR["tile_product"], lw=1.5)
    if "c_stationary" in laws:
        axes.plot(t, [c_stationary(x) for x in t], color=_COLOUR["c_stationary"], lw=1.0, ls=(0, (4, 2)), alpha=0.8)
        axes.plot(t, [c_stationary(x, k) for x in t], color=_COLOUR["c_stationary"], lw=1.5)
    axes.set(xscale="log", yscale="log", xlim=(low, high))
    apart = [edge for i, edge in enumerate(edges) if i == 0 or edge > 1.2 * edges[i - 1]]
    axes.set_xticks(apart, [number(edge, 3) if edge % 1 else f"{edge:g}" for edge in apart])
    bottom, top = axes.get_ylim()
    powers = [2.0**p for p in range(math.ceil(math.log2(bottom)), math.floor(math.log2(top)) + 1)]
    if len(powers) > 1:
        axes.set_yticks(powers, [f"{power:g}" for power in powers])
    else:
        plain_ticks(axes, "y")
    axes.minorticks_off()


def _text(axes: Axes, found: tuple[LawFit, ...]) -> None:
    """To the right, one block a law, each as near to its curve's end as the other allows."""
    figure = axes.figure
    blocks = []
    for fit in found:
        points = [f"{short(row.name)} {number(row.run.intensity['l1'])}" for row in fit.rows]
        more = [f"{len(points) - _LISTED} more"] if len(points) > _LISTED else []
        measured = _wrap(points[:_LISTED] + more, 44)
        lines = [
            (FORMULA[fit.law], "bold", _COLOUR[fit.law]),
            (_WORDS[fit.law], "normal", _COLOUR[fit.law]),
            *((words, "normal", INK) for words in fit.words),
            (_farthest(fit), "normal", INK),
            *((line, "normal", MUTED) for line in measured),
        ]
        last = fit.rows[-1].run.intensity["l1"]
        y_in = float(axes.transData.transform((1.0, last))[1]) / figure.dpi
        blocks.append((y_in, lines))
    tall = max(len(lines) for _, lines in blocks) * _LINE_IN + 0.18
    centres = spread([y for y, _ in blocks], tall, tall / 2 + 0.1, _HEIGHT_IN - tall / 2)
    for (_, lines), centre in zip(blocks, centres, strict=True):
        for index, (line, weight, colour) in enumerate(lines):
            y_in = centre + (len(lines) / 2 - index - 0.5) * _LINE_IN
            figure.text(_TEXT_X, y_in / _HEIGHT_IN, line, va="center", ha="left", fontsize=8.2, weight=weight,
                        color=colour)  # fmt: skip
    if any(fit.law == "c_stationary" for fit in found):
        axes.plot([], [], color=_COLOUR["c_stationary"], lw=1.0, ls=(0, (4, 2)), label="T/4, the limit of a long K")
        axes.legend(loc="upper left", borderaxespad=0.2)


def _farthest(fit: LawFit) -> str:
    if fit.within == "exactly":
        return "every point lies on the law"
    return f"farthest from the law: {short(fit.worst.name)}, {100 * (fit.worst.law_error or 0.0):+.1f} %"


def _wrap(items: list[str], width: int) -> list[str]:
    lines, line = [], ""
    for item in items:
        joined = f"{line}, {item}" if line else item
        if len(joined) > width and line:
            lines.append(f"{line},")
            line = item
        else:
            line = joined
    return [*lines, line]


def _alt(section: Section, found: tuple[LawFit, ...]) -> str:
    parts = [
        f"{listing([row.name for row in fit.rows])} follow {FORMULA[fit.law]} {fit.within}, {' and '.join(fit.words)}"
        for fit in found
    ]
    return f"L1 intensity against tile edge at {section.shape}, log-log: {'; '.join(parts)}. {ragged(section)}".strip()


def _caption(section: Section) -> str:
    return (
        f"Points are counted bytes at L1; lines are the laws, which know nothing of the counts. K is {section.shape.k} "
        "here: a finite K bends the C-stationary law below T/4, because the store of C is shared by fewer k-tiles. "
        "Dividing that store out gives back the straight line. The lines are for tiles that divide the shape; clipped "
        f"tiles lie below them. {ragged(section)}"
    ).strip()
