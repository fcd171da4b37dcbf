"""The bank transition: wavefronts a request, and the shared-level point that a conflict moves left."""

from __future__ import annotations

from matplotlib.axes import Axes

from ladder.report.draw import COLOURS, GRID, MUTED, PAPER, Drawing, canvas, finish, plain_ticks, styled
from ladder.report.signals import CONFLICTING, WIDEST_WAVEFRONTS
from ladder.report.text import number, plural, short, si, tflops
from ladder.report.view import Row, Section

__all__ = ["draw", "family"]

_WIDTH_IN, _ROW_IN, _BOTTOM_IN, _TOP_IN = 9.6, 0.27, 0.52, 0.62
_LEFT, _SPLIT, _GAP, _RIGHT = 0.185, 0.50, 0.045, 0.90
_CLEAN, _HIT = COLOURS["dram"], COLOURS["sm"]
_LOG_TICKS = (1, 2, 4, 8, 16, 32, 64)


def draw(section: Section) -> Drawing | None:
    """The figure, or None when no counted run touches shared memory."""
    rows = [row for row in section.rows if _per_request(row) is not None and row.run.intensity.get("shared")]
    if not rows:
        return None
    height_in = _ROW_IN * (len(rows) + 0.4) + _BOTTOM_IN + _TOP_IN
    with styled("banks"):
        figure = canvas(_WIDTH_IN, height_in)
        bottom, tall = _BOTTOM_IN / height_in, 1 - (_TOP_IN + _BOTTOM_IN) / height_in
        left = figure.add_axes((_LEFT, bottom, _SPLIT - _LEFT, tall))
        right = figure.add_axes((_SPLIT + _GAP, bottom, _RIGHT - _SPLIT - _GAP, tall))
        for axes in (left, right):
            axes.set_ylim(len(rows) - 0.3, -0.7)
            axes.spines["left"].set_visible(False)
            axes.tick_params(axis="y", length=0)
            axes.grid(visible=False, axis="y")
        left.tick_params(axis="y", labelsize=8.5)
        left.set_yticks(range(len(rows)), [short(row.name) for row in rows])
        right.set_yticks([])
        _requests(left, rows)
        _intensities(right, rows, section)
        return finish(figure, kind="banks", title="The bank transition", alt=_alt(section, rows), caption=_caption())


def family(rows: list[Row]) -> tuple[Row, Row] | None:
    """The worst conflicting run and a clean one that the same law describes; None without a pair.

    Of several clean ones the next up the ladder, since a rung's remedy follows it, or else the last before it.
    """
    hit = [row for row in rows if _conflicts(row)]
    if not hit:
        return None
    worst = max(hit, key=lambda row: row.conflict_degree or 0)
    if worst.run.law is None:
        return None
    peers = [
        row for row in rows
        if not _conflicts(row) and row.run.law is not None and row.run.law.name == worst.run.law.name
        and dict(row.run.law.predicted) == dict(worst.run.law.predicted)
    ]  # fmt: skip
    later = [row for row in peers if rows.index(row) > rows.index(worst)]
    return (worst, later[0] if later else peers[-1]) if peers else None


def _per_request(row: Row) -> float | None:
    return row.run.traffic.wavefronts_per_request if row.run.traffic else None


def _conflicts(row: Row) -> bool:
    return (row.conflict_degree or 0) >= CONFLICTING


def _colour(row: Row) -> str:
    return _HIT if _conflicts(row) else _CLEAN


def _requests(axes: Axes, rows: list[Row]) -> None:
    values = [_per_request(row) or 0 for row in rows]
    high = max([*values, WIDEST_WAVEFRONTS]) * 1.9
    axes.set(xscale="log", xlim=(0.8, high))
    ticks = [tick for tick in _LOG_TICKS if tick < high]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.axvspan(0.8, WIDEST_WAVEFRONTS, color=GRID, alpha=0.45, lw=0, zorder=0)
    axes.text(0.86, -0.72, "conflict-free accesses need 1, 2 or 4", fontsize=7.6, color=MUTED, va="bottom", ha="left")
    for y, (row, value) in enumerate(zip(rows, values, strict=True)):
        axes.plot([1, value], [y, y], color=_colour(row), lw=2.2, solid_capstyle="butt", zorder=2)
        axes.plot([value], [y], marker="o", ls="none", ms=6, color=_colour(row), zorder=3)
        axes.annotate(number(value), (value, y), xytext=(7, 0), textcoords="offset points", va="center", fontsize=8.2)
    axes.set_title("wavefronts per request", pad=18)
    axes.set_xlabel("wavefronts of 128 B for each warp's access")


def _intensities(axes: Axes, rows: list[Row], section: Section) -> None:
    measured = [row.run.intensity["shared"] for row in rows]
    predicted = [row.run.law.predicted.get("shared") if row.run.law else None for row in rows]
    every = [*measured, *(value for value in predicted if value)]
    axes.set(xscale="log", xlim=(min(every) / 1.8, max(every) * 1.8))
    plain_ticks(axes, "x")
    roof = section.results.roofs.bandwidth("shared")
    pair = family(rows)
    for y, (row, value, law) in enumerate(zip(rows, measured, predicted, strict=True)):
        if law:
            axes.plot([law, law], [y - 0.3, y + 0.3], color=MUTED, lw=1.6, zorder=2)
        if law and _conflicts(row):
            axes.annotate("", (value * 1.12, y), (law, y), arrowprops={"arrowstyle": "-|>", "color": _HIT, "lw": 1.4,
                          "shrinkA": 2, "shrinkB": 0, "mutation_scale": 9})  # fmt: skip
            axes.text((value * law) ** 0.5, y - 0.16, f"÷ {number(row.conflict_degree)}", ha="center", va="bottom",
                      fontsize=8.2, color=_HIT, weight="bold")  # fmt: skip
        axes.plot([value], [y], marker="^", ls="none", ms=6.5, mfc=PAPER, mec=_colour(row), mew=1.8, zorder=4)
        if roof is not None:
            bounds = row.run.placement.bounds_flop_per_s if row.run.placement else {}
            bound = min([value * roof, *(bounds[pipe] for pipe in section.results.roofs.flop_per_s if pipe in bounds)])
            axes.annotate(number(bound / 1e12), (1.13, y),
                          xycoords=("axes fraction", "data"), va="center", ha="right", fontsize=8.2,
                          annotation_clip=False, color=_colour(row))  # fmt: skip
    if pair is not None:
        ys = [rows.index(row) for row in pair]
        xs = [row.run.intensity["shared"] for row in pair]
        axes.annotate("", (xs[1], ys[1] - (0.22 if ys[1] > ys[0] else -0.22)), (xs[0], ys[0]),
                      arrowprops={"arrowstyle": "-|>", "color": _CLEAN, "lw": 1.2, "ls": (0, (3, 2)), "shrinkA": 7,
                                  "shrinkB": 2, "mutation_scale": 9}, zorder=3)  # fmt: skip
        back = xs[1] / xs[0]
        axes.text((xs[0] * xs[1]) ** 0.5, ys[1] + (0.3 if ys[1] > ys[0] else -0.3), f"× {number(back)}", ha="center",
                  va="center", fontsize=8.2, color=_CLEAN, weight="bold")  # fmt: skip
    axes.set_title("intensity at shared memory", pad=18)
    axes.set_xlabel("FLOP/byte, bytes = wavefronts x 128")
    if roof is not None:
        axes.text(1.13, -0.72, f"x {si(roof, 'B/s')},\nTFLOP/s", fontsize=7.6, color=MUTED, va="bottom", ha="right",
                  transform=axes.get_yaxis_transform())  # fmt: skip


def _alt(section: Section, rows: list[Row]) -> str:
    hit = [row for row in rows if _conflicts(row)]
    head = f"Shared-memory wavefronts at {section.shape}"
    if not hit:
        return f"{head}: none of {plural(len(rows), 'kernel')} spends more wavefronts than its accesses need."
    worst = max(hit, key=lambda row: row.conflict_degree or 0)
    text = (
        f"{head}: {worst.name} takes {number(_per_request(worst))} wavefronts a request and its point lies at "
        f"{number(worst.run.intensity['shared'])} FLOP/byte, {number(worst.conflict_degree)} times to the left of what "
        "its lanes ask for"
    )
    pair = family(rows)
    if pair is None:
        return f"{text}."
    clean = pair[1]
    roof = section.results.roofs.bandwidth("shared")
    back = (
        f"; {clean.name}, with {number(_per_request(clean))}, is back at {number(clean.run.intensity['shared'])}, "
        f"{number(clean.run.intensity['shared'] / worst.run.intensity['shared'])} times to the right"
    )
    if roof is None:
        return f"{text}{back}."
    bounds = [tflops(row.run.intensity["shared"] * roof) for row in (worst, clean)]
    return f"{text}{back}: the bound of shared memory goes from {bounds[0]} to {bounds[1]}."


def _caption() -> str:
    return (
        "Left: passes through the banks for each warp's access. Right: the same passes as an intensity, the x of the "
        "roofline. The grey tick is what the lanes ask for (the register-tile law); an n-way conflict moves the point "
        "n times to the left of it, broadcasts and merged loads move it to the right. The dashed arrow leads to the "
        "same tile without conflicts. The last column is the bound that the data pipe's roof then sets."
    )
