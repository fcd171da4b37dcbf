"""Where L2 stops holding the operands: FLOP/byte at DRAM against the size of a cubic product, one line a kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ladder.model import Device
from ladder.report.draw import COLOURS, INK, MUTED, PAPER, Drawing, canvas, finish, plain_ticks, slope_degrees, styled
from ladder.report.l2 import Series, compulsory_cube, finding, full_at, series
from ladder.report.labels import spread
from ladder.report.text import number, short
from ladder.report.view import Section

__all__ = ["draw"]

_WIDTH_IN = 9.6
_LEFT, _RIGHT, _BOTTOM_IN, _TOP_IN = 0.075, 0.665, 0.50, 0.60
_LABEL_GAP_IN = 0.165
_LIMIT_PT = 8.2
_NAME_X, _VALUE_X, _OF_T_X = 0.698, 0.905, 0.992

_COLOUR = {"c_stationary": COLOURS["dram"], "tile_product": COLOURS["fp32"], "": INK}
_MARKER = {"c_stationary": "o", "tile_product": "s", "": "^"}
_WORDS = {"c_stationary": "C in registers", "tile_product": "three tiles touched", "": "no law declared"}


def draw(sections: Sequence[Section]) -> Drawing | None:
    """The figure, or None when no kernel has DRAM bytes at two cubic shapes."""
    found = series(sections)
    if not found:
        return None
    device = sections[0].results.device
    height_in = max(5.0, _LABEL_GAP_IN * (len(found) + 2) + _BOTTOM_IN + _TOP_IN)
    with styled("l2-limit"):
        figure = canvas(_WIDTH_IN, height_in)
        bottom, top = _BOTTOM_IN / height_in, 1 - _TOP_IN / height_in
        axes = figure.add_axes((_LEFT, bottom, _RIGHT - _LEFT, top - bottom))
        _frame(axes, found, full_at(device))
        _limits(axes)
        _full(axes, device)
        _settled(axes, found, height_in)
        for each in found:
            _line(axes, each)
        _labels(axes, found, height_in)
        _legend(axes, found, height_in)
        return finish(
            figure, kind="l2-limit", title="Where L2 stops holding the operands",
            alt=f"FLOP/byte at DRAM against N on {device.name}, log-log. {finding(found, device)}",
            caption=_caption(found),
        )  # fmt: skip


def _frame(axes: Axes, found: Sequence[Series], full: float | None) -> None:
    ns = sorted({point.n for each in found for point in each.points})
    values = [point.intensity for each in found for point in each.points]
    reach = [*ns, full] if full is not None else ns
    low, high = min(reach) / 1.35, max(reach) * 1.35
    bottom, top = min(*values, compulsory_cube(min(ns))), max(*values, compulsory_cube(max(ns), c_moves=False))
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(bottom / 2.2, top * 2.6))
    plain_ticks(axes, "y")
    apart = [n for i, n in enumerate(ns) if i == 0 or n > 1.3 * ns[i - 1]]
    axes.set_xticks(apart, [str(n) for n in apart])
    axes.minorticks_off()
    axes.set_xlabel("N of an N x N x N product")
    axes.set_ylabel("FLOP/byte at DRAM")


def _limits(axes: Axes) -> None:
    """The two compulsory lines, named along their slope at the right, where L2 no longer holds kernels up to them."""
    low, high = axes.get_xlim()
    both = [compulsory_cube(high, c_moves=c_moves) for c_moves in (True, False)]
    under, over = (float(y) for _, y in axes.transData.transform([(high, end) for end in both]))
    degrees = slope_degrees(axes)
    apart_pt = 72 * (over - under) / axes.figure.dpi * math.cos(math.radians(degrees))
    for c_moves, words in ((True, "N/6: A, B and C cross once"), (False, "N/4: C stays in L2")):
        ends = [compulsory_cube(n, c_moves=c_moves) for n in (low, high)]
        axes.plot([low, high], ends, color=MUTED, lw=1.2, ls="-" if c_moves else (0, (4, 2)), zorder=2)
        # Between the lines only where they leave a line of text, which is 1.2 times its size, and 3 pt to each side.
        below = c_moves and apart_pt < 1.2 * _LIMIT_PT + 6
        axes.annotate(
            words, (high, ends[1]), xytext=(-4, -3 if below else 3), textcoords="offset points", rotation=degrees,
            rotation_mode="anchor", ha="right", va="top" if below else "bottom", color=MUTED, fontsize=_LIMIT_PT,
            zorder=6,
        )  # fmt: skip


def _full(axes: Axes, device: Device) -> None:
    full = full_at(device)
    if full is None:
        return
    axes.axvline(full, color=COLOURS["l2"], lw=1.4, zorder=2)
    axes.annotate(
        f"A + B + C = L2 ({number(device.l2_bytes / 2**20)} MiB): N = {full:.0f}", (full, 1.0),
        xycoords=("data", "axes fraction"), xytext=(0, 4), textcoords="offset points",
        ha="right" if full > math.sqrt(math.prod(axes.get_xlim())) else "left", va="bottom", color=COLOURS["l2"],
        fontsize=8.5,
    )  # fmt: skip


def _settled(axes: Axes, found: Sequence[Series], height_in: float) -> None:
    """The levels, T/2 and T/4 of the tiles that have reached them, named to the left of the fall."""
    levels: dict[float, dict[str, None]] = {}
    for each in found:
        if each.settled is not None and each.edge is not None:
            levels.setdefault(each.edge / each.settled, {})[f"T/{each.settled} of {each.edge:g}"] = None
    if not levels:
        return
    held = [
        max(point.n for point in each.points if point.held) for each in found if each.of_edge and each.points[0].held
    ]
    right = max(each.points[-1].n for each in found)
    # Where nothing is held at any size shown, the names stand inside, at the left edge.
    left, side, apart = (min(held) * 0.97, "right", -4) if held else (axes.get_xlim()[0] * 1.001, "left", 4)
    dpi = axes.figure.dpi
    wanted = [float(axes.transData.transform((left, level))[1]) / dpi for level in levels]
    places = spread(wanted, _LABEL_GAP_IN, _BOTTOM_IN + 0.08, height_in - _TOP_IN)
    for (level, words), wish, place in zip(levels.items(), wanted, places, strict=True):
        axes.plot([left, right], [level, level], color=MUTED, lw=0.9, ls=":", zorder=2)
        axes.annotate(" = ".join(words), (left, level), xytext=(apart, (place - wish) * 72), textcoords="offset points",
                      ha=side, va="center", fontsize=8.2, color=MUTED,
                      bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.8})  # fmt: skip


def _line(axes: Axes, each: Series) -> None:
    colour = _COLOUR.get(each.law, INK)
    axes.plot([p.n for p in each.points], [p.intensity for p in each.points], color=colour, lw=1.0, alpha=0.75,
              zorder=3)  # fmt: skip
    for point in each.points:
        modelled = point.origin == "modelled"
        mfc, mec, mew = (PAPER, colour, 1.2) if modelled else (colour, PAPER, 0.6)
        axes.plot(
            [point.n],
            [point.intensity],
            marker=_MARKER.get(each.law, "^"),
            ls="none",
            ms=5.6,
            zorder=4,
            mfc=mfc,
            mec=mec,
            mew=mew,
        )


def _labels(axes: Axes, found: Sequence[Series], height_in: float) -> None:
    figure = axes.figure
    ends = [(each.points[-1].n, each.points[-1].intensity) for each in found]
    at = axes.transData.transform(ends) / figure.dpi
    places = spread([float(y) for _, y in at], _LABEL_GAP_IN, _BOTTOM_IN, height_in - _TOP_IN - 0.06)
    head = 1 - 0.30 / height_in
    largest = max(n for n, _ in ends)
    over_t = "over T" if any(each.of_edge is not None for each in found) else ""
    for x, words in ((_NAME_X, "kernel"), (_VALUE_X, f"at N = {largest}"), (_OF_T_X, over_t)):
        figure.text(x, head, words, ha="left" if x == _NAME_X else "right", va="bottom", fontsize=8.0, color=MUTED)
    for each, (x_in, y_in), place in zip(found, at, places, strict=True):
        y, to = float(y_in) / height_in, place / height_in
        across = [float(x_in) / _WIDTH_IN + 0.008, _RIGHT, _NAME_X - 0.012, _NAME_X - 0.004]
        figure.add_artist(Line2D(across, [y, y, to, to], color=MUTED, lw=0.6, alpha=0.6))
        colour = _COLOUR.get(each.law, INK)
        last = each.points[-1]
        value = number(last.intensity) if last.n == largest else f"{number(last.intensity)} at {last.n}"
        figure.text(_NAME_X, to, short(each.name, 18), va="center", ha="left", fontsize=8.5, color=colour)
        figure.text(_VALUE_X, to, value, va="center", ha="right", fontsize=8.5, color=INK)
        if each.of_edge is not None:
            figure.text(_OF_T_X, to, number(each.of_edge, 2), va="center", ha="right", fontsize=8.5, color=INK)


def _legend(axes: Axes, found: Sequence[Series], height_in: float) -> None:
    laws = dict.fromkeys(each.law if each.law in _WORDS else "" for each in found)
    modelled = {point.origin == "modelled" for each in found for point in each.points}
    handles = [
        Line2D([], [], marker=_MARKER[law], color=_COLOUR[law], lw=1.0, ms=5.6, mec=_COLOUR[law],
               mfc=PAPER if modelled == {True} else _COLOUR[law], label=_WORDS[law])
        for law in laws
    ]  # fmt: skip
    if True in modelled:
        handles.append(Line2D([], [], ls="none", label="hollow: modelled"))
    axes.figure.legend(handles=handles, loc="upper left", bbox_to_anchor=(0.01, 1 - 0.02 / height_in),
                       ncols=len(handles), handletextpad=0.5, columnspacing=1.6, borderaxespad=0.0)  # fmt: skip


def _caption(found: Sequence[Series]) -> str:
    text = (
        "One line a kernel: its work over the bytes that DRAM moved, for cubic products. While L2 keeps all three "
        "matrices each crosses once, and the intensity grows with N: N/6, or N/4 when C is still in L2 as the kernel "
        "ends. To the right of the vertical line they no longer fit together, and what a kernel comes back for is "
        "fetched again, until only its tile's edge counts."
    )
    settled = {each.settled for each in found}
    if 2 in settled:
        text += " T/2: a tile of one operand comes from DRAM for each tile product, 2 T³ FLOP over 4 T² bytes."
    if 4 in settled:
        text += " T/4: a tile of C is read and written for each, 2 T³ FLOP over 8 T² bytes."
    return text
