"""A chart on paper: SVG and PNG by matplotlib, in the report's style."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ladder.report.draw import COLOURS, INK, MUTED, PAPER, Drawing, canvas, finish, styled
from ladder.report.experiments.chart import Axis, Chart, Panel, Points, Tone

__all__ = ["drawn"]

_WIDTH_IN, _GAP_IN, _BOTTOM_IN, _TOP_IN, _LEGEND_IN = 9.6, 0.62, 0.50, 0.34, 0.20
_LEGEND_COLUMNS = 4
_TONES: dict[Tone, str] = {
    "dram": COLOURS["dram"],
    "l2": COLOURS["l2"],
    "sm": COLOURS["sm"],
    "fp32": COLOURS["fp32"],
    "ink": INK,
    "muted": MUTED,
}
_MARKERS = {"square": "s", "circle": "o", "diamond": "D", "triangle-up": "^", "line-ns": "|", "line-ew": "_"}
_DASHES: dict[str, str | tuple[int, tuple[float, ...]]] = {"solid": "-", "dash": (0, (4, 2)), "dot": (0, (1, 2))}


def drawn(chart: Chart) -> Drawing:
    """The chart as files."""
    with styled(chart.kind):
        handles = _handles(chart)
        rows = -(-len(handles) // _LEGEND_COLUMNS)
        height = chart.height_in + rows * _LEGEND_IN
        figure = canvas(_WIDTH_IN, height)
        top = height - _TOP_IN - rows * _LEGEND_IN
        width = _WIDTH_IN - chart.left_in - len(chart.panels) * chart.right_in - _GAP_IN * (len(chart.panels) - 1)
        each = width / len(chart.panels)
        left = chart.left_in
        for panel in chart.panels:
            box = (left / _WIDTH_IN, _BOTTOM_IN / height, each / _WIDTH_IN, (top - _BOTTOM_IN) / height)
            _draw(figure.add_axes(box), panel)
            left += each + chart.right_in + _GAP_IN
        _legend(figure, handles, height)
        return finish(figure, kind=chart.kind, title=chart.title, alt=chart.finding, caption=chart.caption)


def _draw(axes: Axes, panel: Panel) -> None:
    _axis(axes, "x", panel.x)
    _axis(axes, "y", panel.y)
    axes.minorticks_off()
    axes.set_title(panel.title)
    for line in panel.lines:
        axes.plot(line.x, line.y, color=_TONES[line.tone], ls=_DASHES[line.dash], lw=line.width, zorder=2)
    for points in panel.points:
        axes.plot(points.x, points.y, zorder=3, **_marker(points))
    for y, text, tone in panel.notes:
        axes.annotate(text, (1.01, y), xycoords=("axes fraction", "data"), va="center", ha="left", fontsize=8.2,
                      color=_TONES[tone], annotation_clip=False)  # fmt: skip


def _axis(axes: Axes, name: str, axis: Axis) -> None:
    along = axes.xaxis if name == "x" else axes.yaxis
    if axis.log:
        axes.set(**{f"{name}scale": "log"})
    axes.set(**{f"{name}lim": (axis.low, axis.high), f"{name}label": axis.title})
    along.set_ticks([value for value, _ in axis.ticks], [text for _, text in axis.ticks])
    if not axis.log and name == "y":
        axes.tick_params(axis="y", length=0, labelsize=8.2)


def _marker(points: Points) -> dict[str, Any]:
    colour = _TONES[points.tone]
    line = points.symbol in ("line-ns", "line-ew")
    return {
        "marker": _MARKERS[points.symbol], "ls": "none", "ms": points.size * (1.4 if line else 0.72),
        "mfc": colour if points.filled else PAPER, "mec": colour, "mew": 2.0 if line else 1.4,
    }  # fmt: skip


def _handles(chart: Chart) -> list[Line2D]:
    named: dict[str, Line2D] = {}
    for panel in chart.panels:
        for points in panel.points:
            if points.name and points.name not in named:
                named[points.name] = Line2D([], [], label=points.name, **_marker(replace(points, size=9)))
        for line in panel.lines:
            if line.name and line.name not in named:
                named[line.name] = Line2D([], [], color=_TONES[line.tone], ls=_DASHES[line.dash], lw=line.width,
                                          label=line.name)  # fmt: skip
    return list(named.values())


def _legend(figure: Figure, handles: list[Line2D], height: float) -> None:
    if handles:
        figure.legend(handles=handles, loc="upper left", bbox_to_anchor=(0.005, 1 - 0.02 / height),
                      ncols=min(_LEGEND_COLUMNS, len(handles)), handletextpad=0.5, columnspacing=1.6,
                      borderaxespad=0.0, labelspacing=0.3)  # fmt: skip
