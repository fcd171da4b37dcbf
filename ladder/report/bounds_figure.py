"""What each level allows: one row a run, its bound at every level, and the measured rate if there is one."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.transforms import blended_transform_factory

from ladder.report.draw import COLOURS, GRID, INK, MARKERS, MUTED, PAPER, Drawing, canvas, finish, plain_ticks, styled
from ladder.report.text import ROOF_NAMES, number, percent, short, tflops
from ladder.report.view import Row, Section

__all__ = ["draw"]

_WIDTH_IN, _ROW_IN, _BOTTOM_IN, _TOP_IN = 9.6, 0.255, 0.50, 0.55
_LEFT, _RIGHT = 0.185, 0.775
_KIND_GAP = 0.5
_TERA = 1e12
_SIZES = {"dram": 6.8, "l2": 4.6, "sm": 5.0, "shared": 8.0}  # so that equal bounds do not hide each other
_SHOWN = ("dram", "l2", "sm", "shared")


def draw(section: Section) -> Drawing | None:
    """The figure, or None when no run has a place."""
    rows = section.placed
    if not rows:
        return None
    heights = _heights(rows)
    height_in = _ROW_IN * (max(heights) + 1.2) + _BOTTOM_IN + _TOP_IN
    with styled("bounds"):
        figure = canvas(_WIDTH_IN, height_in)
        bottom, top = _BOTTOM_IN / height_in, 1 - _TOP_IN / height_in
        axes = figure.add_axes((_LEFT, bottom, _RIGHT - _LEFT, top - bottom))
        _frame(axes, rows, heights)
        peak = section.results.roofs.flop_per_s["fp32"] / _TERA
        axes.axvline(peak, color=COLOURS["fp32"], lw=1.8, zorder=2)
        over = blended_transform_factory(axes.transData, axes.transAxes)
        axes.text(peak, 1.0, f"FP32 {number(peak)}", transform=over, ha="center", va="bottom", fontsize=8.5,
                  color=COLOURS["fp32"])  # fmt: skip
        for row, y in zip(rows, heights, strict=True):
            _row(axes, row, y)
        _legend(axes, section, height_in)
        return finish(
            figure, kind="bounds", title="What each level allows", alt=_alt(section), caption=_caption(section)
        )


def _heights(rows: tuple[Row, ...]) -> list[float]:
    """Rows from the top down, with a gap where rungs end and laws begin."""
    heights, y, last = [], -1.0, rows[0].run.kind
    for row in rows:
        y += 1.0 + (_KIND_GAP if row.run.kind != last else 0.0)
        last = row.run.kind
        heights.append(y)
    return heights


def _bounds(row: Row) -> dict[str, float]:
    """TFLOP/s by level; shared memory alone only where no count of the whole pipe exists."""
    placement = row.run.placement
    if placement is None:
        return {}
    bounds = placement.bounds_flop_per_s
    found = {level: bounds[level] / _TERA for level in _SHOWN if level in bounds}
    if "sm" in found:
        found.pop("shared", None)
    return found


def _frame(axes: Axes, rows: tuple[Row, ...], heights: list[float]) -> None:
    values = [value for row in rows for value in _bounds(row).values()]
    values += [row.run.flop_per_s / _TERA for row in rows if row.run.flop_per_s]
    values += [row.run.placement.roof_flop_per_s / _TERA for row in rows if row.run.placement]
    values += [pipe for row in rows if (pipe := _other_pipe(row)) is not None]
    axes.set(xscale="log", xlim=(min(values) / 1.6, max(values) * 1.5), ylim=(max(heights) + 0.7, -0.7))
    axes.set_yticks(heights, [short(row.name) for row in rows])
    axes.tick_params(axis="y", length=0, labelsize=8.5)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("TFLOP/s that the level allows: its FLOP/byte times its roof")
    plain_ticks(axes, "x")


def _row(axes: Axes, row: Row, y: float) -> None:
    placement = row.run.placement
    if placement is None:
        return
    bounds = _bounds(row)
    roof = placement.roof_flop_per_s / _TERA
    span = [*bounds.values(), roof]
    axes.plot([min(span), max(span)], [y, y], color=GRID, lw=2.2, zorder=1, solid_capstyle="round")
    binding = "sm" if placement.bound_by == "shared" and "sm" in bounds else placement.bound_by
    for level, value in bounds.items():
        strong = level == binding
        axes.plot([value], [y], marker=MARKERS[level], ls="none", ms=7.0 if strong else _SIZES[level],
                  mec=COLOURS[level], mew=2.0 if strong else 1.2, mfc=PAPER, zorder=4 if strong else 3)  # fmt: skip
    pipe = _other_pipe(row)
    if pipe is not None:
        axes.plot([pipe], [y], marker="*", ls="none", ms=9.0, mec=COLOURS["fp32"], mfc=COLOURS["fp32"], zorder=4)
    if row.run.flop_per_s is not None:
        rate = row.run.flop_per_s / _TERA
        left = axes.get_xlim()[0]
        axes.plot([left, rate], [y, y], color=INK, lw=4.2, alpha=0.28, zorder=2, solid_capstyle="butt")
        axes.plot([rate, rate], [y - 0.32, y + 0.32], color=INK, lw=1.8, zorder=5)
    name = ROOF_NAMES.get(placement.bound_by, placement.bound_by)
    words = f"{name} ≤ {number(roof)}"
    if placement.fraction is not None:
        words = f"{percent(placement.fraction)} of {name} {number(roof)}"
    axes.annotate(words, (1.015, y), xycoords=("axes fraction", "data"), va="center", ha="left", fontsize=8.5,
                  color=COLOURS.get(placement.bound_by, COLOURS["fp32"]), annotation_clip=False)  # fmt: skip


def _other_pipe(row: Row) -> float | None:
    """TFLOP/s of the pipe that a row is placed under, if that is not FP32, whose line everything has in common."""
    bounds = row.run.placement.bounds_flop_per_s if row.run.placement is not None else {}
    return next((bounds[name] / _TERA for name in ("tf32", "bf16") if name in bounds), None)


def _legend(axes: Axes, section: Section, height_in: float) -> None:
    shown = {level for row in section.placed for level in _bounds(row)}
    names = {"sm": "SM data pipe (shared and global)", "shared": "shared memory", "l2": "L2", "dram": "DRAM"}
    handles = [
        Line2D([], [], marker=MARKERS[level], ls="none", ms=5.5, mec=COLOURS[level], mew=1.3, mfc=PAPER, label=name)
        for level, name in names.items()
        if level in shown
    ]
    if any(_other_pipe(row) is not None for row in section.placed):
        own = COLOURS["fp32"]
        handles.append(Line2D([], [], marker="*", ls="none", ms=8, mec=own, mfc=own, label="tensor cores"))
    if section.timed:
        handles.append(Line2D([], [], marker="|", ls="none", ms=9, mec=INK, mew=1.8, label="measured rate"))
    axes.figure.legend(handles=handles, loc="upper left", bbox_to_anchor=(0.01, 1 - 0.02 / height_in),
                       ncols=len(handles), handletextpad=0.3, columnspacing=1.6, borderaxespad=0.0)  # fmt: skip
    axes.text(1.015, 1.0, "lowest roof, TFLOP/s", transform=axes.transAxes, ha="left", va="bottom", fontsize=8.0,
              color=MUTED)  # fmt: skip


def _alt(section: Section) -> str:
    parts = []
    for row in section.placed:
        placement = row.run.placement
        if placement is None or row.run.kind == "law":
            continue
        name = ROOF_NAMES.get(placement.bound_by, placement.bound_by)
        text = f"{row.name} {name} {tflops(placement.roof_flop_per_s)}"
        parts.append(text if placement.fraction is None else f"{text}, {percent(placement.fraction)} reached")
    head = f"Bounds of each kernel on {section.results.device.name} at {section.shape}, level by level. Lowest: "
    return f"{head}{'; '.join(parts)}." if parts else f"{head}only law kernels were placed."


def _caption(section: Section) -> str:
    text = (
        "Each row holds one kernel's bounds: its intensity at a level times that level's roof. The leftmost one binds, "
        "and the distance to the next is what removing it can gain at most."
    )
    return f"{text} The bar ends at the measured rate." if section.timed else f"{text} Nothing here was timed."
