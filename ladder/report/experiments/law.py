"""The law of the tile edge: intensity at L1, L2 and DRAM against T, its fits, and what they say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ladder.experiments.fits import LEVELS, Fit, deviation, edge_of, family_of, fits, law_at_l1, ragged
from ladder.experiments.intervals import Interval
from ladder.laws import c_stationary, compulsory, tile_product
from ladder.model import Level
from ladder.report.experiments.chart import (
    Axis,
    Chart,
    Collected,
    Line,
    Panel,
    Points,
    Symbol,
    Tone,
    edges_axis,
    log_axis,
)
from ladder.report.table import Cell, Table
from ladder.report.text import LEVEL_NAMES, listing, number
from ladder.store import Run

__all__ = ["chart", "finding", "fit_table", "sizes", "table"]

_TONES: dict[Level, Tone] = {"l1": "ink", "l2": "l2", "dram": "dram"}
_SYMBOLS: dict[str, Symbol] = {"tile_product": "square", "tiled": "circle"}
_SIZES: dict[Level, float] = {"l1": 12.0, "l2": 6.5, "dram": 9.0}
_WHERE = {"l1": "at L1", "l2": "at L2", "dram": "at DRAM"}
_FLAT = 0.25
_WITHIN_LAW = 0.05


def sizes(runs: Sequence[Run]) -> dict[int, list[Run]]:
    """Counted runs by the largest edge of their shape, the smaller first."""
    found: dict[int, list[Run]] = {}
    for run in sorted(runs, key=lambda run: max(run.shape.m, run.shape.n, run.shape.k)):
        if run.intensity:
            found.setdefault(max(run.shape.m, run.shape.n, run.shape.k), []).append(run)
    return found


def chart(runs: Sequence[Run]) -> Chart | None:
    """Intensity against T, a panel a size; None when nothing was counted."""
    by_size = sizes(runs)
    if not by_size:
        return None
    limits = [compulsory(run.shape) for run in runs if run.intensity]
    y = log_axis("FLOP/byte", [*(v for run in runs for v in _shown(run).values()), *limits], room=1.5)
    return Chart(
        kind="experiment-law",
        title="The law of the tile edge",
        finding=finding(runs),
        caption="Work over the bytes that each level moved, against the tile's edge, both logarithmic. The lines are "
        "the laws at L1, which know nothing of the counts; the dashed one is the compulsory limit, every matrix once "
        "(beyond it C was still in L2 as the kernel ended). Below T = 8 a row of a tile is less than a 32-byte sector, "
        "and all of it moves: half of the law at T = 4.",
        panels=tuple(_panel(n, group, y) for n, group in by_size.items()),
        height_in=4.6,
    )


def _panel(n: int, runs: Sequence[Run], y: Axis) -> Panel:
    edges = sorted({edge_of(run) for run in runs})
    axis = edges_axis(edges)
    t = np.geomspace(axis.low, axis.high, 24)
    k = max(run.shape.k for run in runs)
    lines = [
        _curve(t, [tile_product(x) for x in t], "fp32", "T/6: three tiles touched"),
        _curve(t, [c_stationary(x, k) for x in t], "sm", "(T/4) / (1 + T/2K): C in registers"),
    ]
    limits = sorted({compulsory(run.shape) for run in runs})
    lines += [
        Line(x=(axis.low, axis.high), y=(limit, limit), tone="muted", dash="dash", width=1.1, name="compulsory limit")
        for limit in limits[-1:]
    ]
    points: list[Points] = []
    for kernel in dict.fromkeys(family_of(run) for run in runs):
        for level in LEVELS:
            found = Collected()
            for run in runs:
                if family_of(run) == kernel and level in run.intensity:
                    found.add(edge_of(run), run.intensity[level], _hover(run, level))
            points.append(
                found.points(
                    tone=_TONES[level], symbol=_SYMBOLS.get(kernel, "diamond"), filled=level != "l1",
                    size=_SIZES[level], name=f"{kernel} {_WHERE[level]}",
                )
            )  # fmt: skip
    return Panel(title=f"N = {n}", x=axis, y=y, lines=tuple(lines), points=tuple(p for p in points if p.x))


def _curve(x: Sequence[float] | np.ndarray, y: Sequence[float], tone: Tone, name: str) -> Line:
    return Line(x=tuple(float(v) for v in x), y=tuple(float(v) for v in y), tone=tone, name=name)


def _shown(run: Run) -> dict[Level, float]:
    return {level: run.intensity[level] for level in LEVELS if level in run.intensity}


def _hover(run: Run, level: Level) -> str:
    law = law_at_l1(run)
    found = f"{LEVEL_NAMES[level]}: {number(run.intensity[level])} FLOP/byte"
    text = f"<b>{family_of(run)}</b>, T = {edge_of(run)}, {run.shape}<br>{found}"
    return f"{text}<br>law {number(law)}, {_off(run)}" if level == "l1" and law else text


def finding(runs: Sequence[Run]) -> str:
    """What the counts and the fits say."""
    counted = [run for run in runs if run.intensity]
    if not counted:
        return "No product was counted."
    found = fits(runs)
    at_dram = [_at_dram(n, [e for e in found if e.n == n and e.level == "dram"]) for n in sizes(runs)]
    parts = [_at_l1(counted), ragged(counted), *at_dram]
    left_out = [run for run in runs if not run.intensity]
    if left_out:
        names = listing([f"{run.rung} at {run.shape}" for run in left_out])
        parts.append(f"Not counted: {names}.")
    return " ".join(part for part in parts if part)


def _at_l1(runs: Sequence[Run]) -> str:
    away = max((abs(off) for run in runs if (off := deviation(run)) is not None), default=None)
    if away is None:
        return ""
    exact = "exactly on" if away < 5e-5 else f"within {number(100 * away, 2)} % of"
    slopes = [each for each in fits(runs) if each.level == "l1"]
    words = [f"{_interval(each.slope)} for {each.kernel} at N = {each.n}" for each in slopes]
    laws = {each.kernel: f"{_law(each.law)} for {each.kernel}" for each in slopes}
    text = f"At L1 all {len(runs)} products lie {exact} the law"
    return f"{text}. Slopes: {listing(words, 9)}; the law has {listing(list(laws.values()))}." if slopes else f"{text}."


def _law(slope: float) -> str:
    return f"1/{round(1 / slope)}"


def _at_dram(n: int, found: Sequence[Fit]) -> str:
    flat = [each.kernel for each in found if abs(each.exponent.value) < _FLAT]
    growing = [each for each in found if each.grows]
    parts = []
    if flat:
        parts.append(f"does not grow with T for {listing(flat)}: L2 holds the operands")
    if growing:
        words = [f"{_interval(each.slope)} T for {each.kernel}{_multiple(each)}" for each in growing]
        parts.append(f"grows as {listing(words)}")
    return f"At N = {n} the intensity at DRAM {'; it '.join(parts)}." if parts else ""


def _multiple(each: Fit) -> str:
    for divisor, why in ((2, "T/2"), (4, "T/4"), (6, "T/6")):
        if abs(each.slope.value * divisor - 1) < _WITHIN_LAW:
            return f" ({why})"
    return ""


def table(runs: Sequence[Run]) -> Table:
    """Every product: law and counts."""
    head = (
        ("kernel", "with its tile edge"),
        ("shape", "M x N x K; on a GPU a part of a product that would take too long"),
        ("L1 law", "FLOP/byte, in whole sectors"),
        ("L1", "FLOP/byte"),
        ("off", "counted over predicted, less 1"),
        ("L2", "FLOP/byte"),
        ("DRAM", "FLOP/byte"),
        ("compulsory", "FLOP/byte if every matrix crossed once"),
    )
    return Table(
        head=head,
        rows=tuple(
            (
                Cell(run.rung),
                Cell(str(run.shape)),
                _number(law_at_l1(run)),
                _number(run.intensity.get("l1")),
                Cell(_off(run)),
                _number(run.intensity.get("l2")),
                _number(run.intensity.get("dram")),
                _number(compulsory(run.shape)),
            )
            for run in runs
            if run.intensity
        ),
    )


def fit_table(runs: Sequence[Run]) -> Table:
    """The fits: slope and exponent with their intervals."""
    head = (
        ("kernel", "fitted over the edges T >= 8, whose rows are whole sectors"),
        ("N", "largest edge of the products"),
        ("level", "of the memory"),
        ("slope", "b of I = b T, through the origin, with its 95 % interval"),
        ("law", "b of the law at L1"),
        ("exponent", "p of I = c T^p, with its 95 % interval"),
        ("points", "edges"),
    )
    return Table(
        head=head,
        rows=tuple(
            (
                Cell(each.kernel),
                Cell(str(each.n)),
                Cell(LEVEL_NAMES[each.level]),
                Cell(_interval(each.slope) if each.grows else "–"),
                Cell(number(each.law, 4)),
                Cell(f"{each.exponent.value:.3f} ± {each.exponent.half:.3f}"),
                Cell(str(each.points)),
            )
            for each in fits(runs)
        ),
    )


def _interval(found: Interval) -> str:
    return f"{found.value:.4f} ± {found.half:.4f}"


def _off(run: Run) -> str:
    away = deviation(run)
    return "–" if away is None else f"{100 * away:+.2f} %"


def _number(value: float | None) -> Cell:
    return Cell(number(value), value=value)
