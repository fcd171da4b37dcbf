"""The nested roofline: one row a run, one point a level, every roof drawn."""

from __future__ import annotations

from collections import Counter
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ladder.model import Level, Roofs
from ladder.report.draw import (
    COLOURS,
    INK,
    MARKERS,
    MUTED,
    PAPER,
    Drawing,
    canvas,
    finish,
    plain_ticks,
    slope_degrees,
    styled,
)
from ladder.report.labels import spread
from ladder.report.signals import peakless, roofs_in_use
from ladder.report.text import LEVEL_NAMES, ROOF_NAMES, listing, number, percent, plural, short, si, tflops
from ladder.report.view import Row, Section
from ladder.roofline import ROOFED_LEVELS

__all__ = ["draw"]

_WIDTH_IN = 9.6
_LEFT, _RIGHT, _BOTTOM_IN, _TOP_IN = 0.065, 0.715, 0.50, 0.40
_LABEL_GAP_IN = 0.165
_NAME_X, _VALUE_X = 0.748, 0.992
_NAME_PT = 8.5
_TERA = 1e12
_SLOPES: tuple[Level, ...] = ("sm", "l2", "dram")


def draw(section: Section) -> Drawing | None:
    """The figure, or None when no run has a place, or no memory a roof to place one under."""
    rows = [row for row in section.rows if row.height_flop_per_s is not None]
    roofs = roofs_in_use([row.run for row in rows], section.results.roofs)
    if not any(row.placed for row in rows) or all(roofs.bandwidth(level) is None for level in ROOFED_LEVELS):
        return None
    height_in = max(5.4, _LABEL_GAP_IN * (len(rows) + 2) + _BOTTOM_IN + _TOP_IN)
    with styled("roofline"):
        figure = canvas(_WIDTH_IN, height_in)
        bottom, top = _BOTTOM_IN / height_in, 1 - _TOP_IN / height_in
        axes = figure.add_axes((_LEFT, bottom, _RIGHT - _LEFT, top - bottom))
        _limits(axes, rows, roofs)
        _roofs(axes, rows, roofs)
        for row in rows:
            _row(axes, row, roofs)
        _labels(axes, rows, height_in)
        _legend(axes, section, roofs)
        axes.set_xlabel("intensity at the level, FLOP/byte")
        axes.set_ylabel("TFLOP/s")
        return finish(figure, kind="roofline", title="Nested roofline", alt=_alt(section), caption=_caption(section))


def _top(rows: list[Row], roofs: Roofs) -> float:
    """How high the slopes reach, FLOP/s: to the highest peak, and on to the roofs of kernels without one."""
    unknown = [row.run.placement for row in rows if peakless(row.run, roofs)]
    return max([*roofs.flop_per_s.values(), *(placement.roof_flop_per_s for placement in unknown if placement)])


def _limits(axes: Axes, rows: list[Row], roofs: Roofs) -> None:
    peak = _top(rows, roofs) / _TERA
    heights = [row.height_flop_per_s / _TERA for row in rows if row.height_flop_per_s]
    drawn = [row.run.intensity[level] for row in rows for level in _levels(row, roofs)]
    # Below the lowest row stays a band without points, where the roofs' names stand.
    low, high = min([*heights, peak / 20]) / 6, max([*heights, peak]) * 1.9
    bandwidths = [b for level in ROOFED_LEVELS if (b := roofs.bandwidth(level)) is not None]
    left = min([*drawn, *(low * _TERA / b for b in bandwidths)]) * 0.75
    # The names of the flat roofs end at the right edge: beyond every point there is a part of the width for them.
    longest = max((len(_name(pipe, height)) for pipe, height in roofs.flop_per_s.items()), default=0)
    part = (0.62 * _NAME_PT / 72 * longest + 0.1) / ((_RIGHT - _LEFT) * _WIDTH_IN)
    furthest = max([*drawn, left])
    right = max(furthest * (furthest / left) ** (part / (1 - part)), 8 * peak * _TERA / min(bandwidths))
    axes.set(xscale="log", yscale="log", xlim=(left, right))
    axes.set_ylim(low, high)
    plain_ticks(axes)


def _name(pipe: str, peak: float) -> str:
    """A flat roof's, with its height in the unit of the axis it stands by."""
    return f"{ROOF_NAMES.get(pipe, pipe)}  {number(peak / _TERA)}"


def _roofs(axes: Axes, rows: list[Row], roofs: Roofs) -> None:
    left, right = axes.get_xlim()
    low, _ = axes.get_ylim()
    top = _top(rows, roofs)
    bandwidths = {level: b for level in _SLOPES if (b := roofs.bandwidth(level)) is not None}
    for pipe, peak in roofs.flop_per_s.items():
        first = peak / max(bandwidths.values())
        axes.plot([first, right], [peak / _TERA] * 2, color=COLOURS["fp32"], lw=1.8, zorder=2)
        axes.annotate(
            _name(pipe, peak), (right, peak / _TERA), xytext=(0, 4), textcoords="offset points", ha="right",
            va="bottom", color=COLOURS["fp32"], fontsize=_NAME_PT, zorder=3.5,
            bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.8},
        )  # fmt: skip
    for level, bandwidth in bandwidths.items():
        corner = top / bandwidth
        start = min(left, corner)
        axes.plot([start, corner], [start * bandwidth / _TERA, top / _TERA], color=COLOURS[level], lw=1.8, zorder=2)
        y = low * 1.12
        axes.annotate(
            f"{LEVEL_NAMES[level]}  {si(bandwidth, 'B/s')}", (y * _TERA / bandwidth, y), xytext=(-3, 3),
            textcoords="offset points", rotation=slope_degrees(axes), rotation_mode="anchor", ha="left", va="bottom",
            color=COLOURS[level], fontsize=8.5, zorder=6,
        )  # fmt: skip


def _levels(row: Row, roofs: Roofs) -> list[Level]:
    if not row.placed:
        return []
    return [level for level in ROOFED_LEVELS if level in row.run.intensity and roofs.bandwidth(level) is not None]


def _binding_level(row: Row) -> str | None:
    """The level whose point is emphasised: the pipe's own when it is called by shared memory's name."""
    if row.run.placement is None:
        return None
    name = row.run.placement.bound_by
    return "sm" if name == "shared" and "sm" in row.run.placement.bounds_flop_per_s else name


def _row(axes: Axes, row: Row, roofs: Roofs) -> None:
    if row.height_flop_per_s is None:
        return
    y = row.height_flop_per_s / _TERA
    right = axes.get_xlim()[1]
    levels = _levels(row, roofs)
    points = {level: row.run.intensity[level] for level in levels}
    start = min(points.values(), default=right / 6)
    dashes = {"rung": "-", "law": (0, (4, 2)), "peer": (0, (1, 1.5))}[row.run.kind]
    axes.plot([start, right], [y, y], color=MUTED, lw=0.7, ls=dashes, alpha=0.75, zorder=3)
    timed = row.run.time is not None
    binding = _binding_level(row)
    for level, x in points.items():
        strong = level == binding
        if strong and timed and row.run.placement is not None:
            roof = row.run.placement.roof_flop_per_s / _TERA
            axes.plot([x, x], [y, roof], color=COLOURS[level], lw=0.8, ls=":", zorder=3)
        axes.plot(
            [x], [y], marker=MARKERS[level], ls="none",
            zorder=5 if strong else 4, **_face(level, timed=timed, strong=strong),
        )  # fmt: skip


def _face(level: Level, *, timed: bool, strong: bool) -> dict[str, Any]:
    """Filled with a rim of paper, so that neighbours stay apart, or hollow; a bar has no face."""
    if timed and level != "shared":
        return {"mfc": COLOURS[level], "mec": PAPER, "mew": 0.7, "ms": 8.2 if strong else 5.8}
    return {
        "mfc": PAPER, "mec": COLOURS[level], "mew": 1.9 if strong else 1.1,
        "ms": 9.0 if level == "shared" else 6.6 if strong else 5.0,
    }  # fmt: skip


def _labels(axes: Axes, rows: list[Row], height_in: float) -> None:
    figure = axes.figure
    low_in, high_in = _BOTTOM_IN, height_in - _TOP_IN - 0.06
    wanted = [
        float(axes.transData.transform((1.0, (row.height_flop_per_s or 0) / _TERA))[1]) / figure.dpi for row in rows
    ]
    head = 1 - 0.30 / height_in
    figure.text(_NAME_X, head, "kernel, in its roof's colour", ha="left", va="bottom", fontsize=8.0, color=MUTED)
    figure.text(_VALUE_X, head, "TFLOP/s", ha="right", va="bottom", fontsize=8.0, color=MUTED)
    for row, y_in, at_in in zip(rows, wanted, spread(wanted, _LABEL_GAP_IN, low_in, high_in), strict=True):
        y, at = y_in / height_in, at_in / height_in
        across = [_RIGHT, _RIGHT + 0.012, _NAME_X - 0.012, _NAME_X - 0.004]
        figure.add_artist(Line2D(across, [y, y, at, at], color=MUTED, lw=0.7, alpha=0.75))
        colour = COLOURS.get(row.run.placement.bound_by, COLOURS["fp32"]) if row.run.placement else MUTED
        weight = "bold" if row.run.kind == "rung" else "normal"
        figure.text(_NAME_X, at, short(row.name), va="center", ha="left", fontsize=8.5, color=colour, weight=weight)
        figure.text(_VALUE_X, at, _value(row), va="center", ha="right", fontsize=8.5, color=INK)


def _value(row: Row) -> str:
    value = number((row.height_flop_per_s or 0) / _TERA)
    if row.run.time is None:
        return f"≤ {value}"
    fraction = row.run.placement.fraction if row.run.placement else None
    return value if fraction is None else f"{value} ({percent(fraction)})"


def _legend(axes: Axes, section: Section, roofs: Roofs) -> None:
    shown = {level for row in section.rows for level in _levels(row, roofs)}
    names = {"sm": "SM data pipe", "shared": "its shared-memory part", "l2": "L2", "dram": "DRAM"}
    handles = [
        Line2D([], [], marker=MARKERS[level], ls="none", ms=9.0 if level == "shared" else 5.5, mec=COLOURS[level],
               mew=1.2, mfc=COLOURS[level] if section.timed else PAPER, label=name)
        for level, name in names.items() if level in shown
    ]  # fmt: skip
    meaning = "filled: measured rate" if section.timed else "hollow: bound, not measured"
    handles.append(Line2D([], [], ls="none", label=meaning))
    axes.legend(handles=handles, loc="upper left", handletextpad=0.5, labelspacing=0.35, borderaxespad=0.2)


def _alt(section: Section) -> str:
    placed = section.placed
    binding = Counter(row.run.placement.bound_by for row in placed if row.run.placement)
    counted = listing([f"{ROOF_NAMES.get(name, name)} for {count}" for name, count in binding.most_common()])
    heights = [(row.height_flop_per_s or 0.0, row.name) for row in placed]
    low, high = min(heights), max(heights)
    kind = "measured rates" if section.timed else "bounds, no times"
    text = (
        f"Nested roofline of {section.results.device.name} at {section.shape}, {kind}: "
        f"of {plural(len(placed), 'kernel')} the lowest roof is {counted}. "
        f"From {low[1]} at {tflops(low[0])} to {high[1]} at {tflops(high[0])}"
    )
    if low[0] > 0 and high[0] > low[0]:
        text += f", a factor of {number(high[0] / low[0], 2)}"
    return f"{text}."


def _caption(section: Section) -> str:
    if section.timed:
        text = (
            "Each kernel is a horizontal line at its measured rate, with one filled point for each level at the "
            "FLOP per byte which that level moved. The emphasised point belongs to the level that binds; the dotted "
            "line above it is what is left to its roof. The column gives TFLOP/s and the share of the roof reached."
        )
    else:
        text = (
            "No clock ran, so these are bounds and not times. Each kernel is a horizontal line at the height that its "
            "lowest roof allows, with one hollow point for each level at the FLOP per byte which that level moved. The "
            "emphasised point, the one that touches its own roof, belongs to the level that binds. The column gives "
            "the bound in TFLOP/s. A kernel which FP32 binds touches the flat roof instead."
        )
    names = [row.name for row in section.placed if peakless(row.run, section.results.roofs)]
    return f"{text} Not known here: the peak of the pipe on which {listing(names)} multiply." if names else text
