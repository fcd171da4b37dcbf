"""Who holds which tile, drawn: C by blocks, a block by warps, a thread's sums, and the k tiles that pass by.

A thread's sums stand beside the block and not inside it, since the parameters do not say where they lie.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import Rectangle

from ladder.model import Rung
from ladder.report.draw import COLOURS, INK, MUTED, PAPER, Drawing, canvas, finish, styled
from ladder.report.text import plural
from ladder.report.tiles import Tiles, alt, by, given, tiles

__all__ = ["draw"]

_WIDTH_IN, _HEIGHT_IN = 9.6, 4.6
_A, _B, _C = COLOURS["dram"], COLOURS["l2"], COLOURS["sm"]
_SMALL, _TITLE = 8.0, 9.0
_FOOT_Y, _LINE_IN = 0.12, 0.155

_X, _Y, _EDGE = 1.85, 1.12, 2.0
"""Where C stands on the page and how large it is drawn, in inches; A lies to its left and B above it."""
_DEPTH, _GAP = 0.95, 0.1
_ALONG = 4
"""Block tiles along the shorter pitch of what is drawn of C."""
_BLOCK_X, _BLOCK_EDGE = 4.72, 2.0
_THREAD_X, _THREAD_EDGE = 7.45, 1.7
_PANEL_TITLE_Y = _Y + _BLOCK_EDGE + 0.4
_BAR, _BAR_GAP = 0.13, 0.06
_NARROWEST = 0.55
_MOST_CELLS = 32
"""Cells along an edge that can still be told apart; more are drawn as one box."""

Box = tuple[float, float, float, float]
"""Left, bottom, width and height in inches."""


def draw(rung: Rung) -> Drawing:
    """The figure of one rung."""
    found = tiles(rung)
    with styled(f"tiles-{rung.name}"):
        figure = canvas(_WIDTH_IN, _HEIGHT_IN)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, _WIDTH_IN)
        axes.set_ylim(0, _HEIGHT_IN)
        axes.axis("off")
        _key(axes, found)
        _product(axes, found, rung.params, persistent=rung.persistent)
        _block(axes, found)
        if found.mma is not None:
            _instruction(axes, found.mma)
        elif found.thread is not None:
            _thread(axes, found.thread)
        else:
            _share(axes, found.sums)
        whole = given(rung).replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
        for index, line in enumerate(reversed(textwrap.wrap(whole, 125))):
            _text(axes, 0.25, _FOOT_Y + index * _LINE_IN, line, colour=MUTED)
        return finish(
            figure,
            kind="tiles",
            title=f"{rung.name}: who holds which tile",
            alt=alt(rung),
            caption="Sizes are the kernel's parameters; places and proportions are schematic.",
        )


def _product(axes: Axes, found: Tiles, params: Mapping[str, int], *, persistent: bool) -> None:
    """Panel 1: C cut into block tiles, with the rows of A and the columns of B that one of them takes."""
    words = "blocks that stay share out C's tiles" if persistent else "one block a tile of C"
    _text(axes, 0.25, _HEIGHT_IN - 0.17, f"1  The grid: {words}", title=True)
    left, above = _X - _GAP - _DEPTH, _Y + _EDGE + _GAP
    unit = _EDGE / _ALONG / max(found.block)
    high, wide = (max(edge * unit, 0.1) for edge in found.block)
    top, right = _Y + _EDGE, _X + _EDGE
    for box, colour in (
        ((left, _Y, _DEPTH, _EDGE), _A),
        ((_X, above, _EDGE, _DEPTH), _B),
        ((_X, _Y, _EDGE, _EDGE), _C),
    ):
        _box(axes, box, fill=_tint(colour, 0.06), edge=colour)
    for step in range(1, int(_EDGE / wide + 0.99)):
        axes.plot([_X + step * wide] * 2, [_Y, top], color=_tint(_C, 0.35), linewidth=0.6)
    for step in range(1, int(_EDGE / high + 0.99)):
        axes.plot([_X, right], [top - step * high] * 2, color=_tint(_C, 0.35), linewidth=0.6)
    row, column = top - 2 * high, _X + wide
    _box(axes, (left, row, _DEPTH, high), fill=_tint(_A, 0.25), edge=_A)
    _box(axes, (column, above, wide, _DEPTH), fill=_tint(_B, 0.25), edge=_B)
    _box(axes, (column, row, wide, high), fill=_C, edge=_C)
    zoomed = _Y + _BLOCK_EDGE
    for corner, target in ((row + high, zoomed), (row, zoomed - _scaled(found.block, _BLOCK_EDGE)[0])):
        end = (_BLOCK_X - (0.06 if found.depth is None else 0.24), target)
        axes.plot((column + wide, end[0]), (corner, end[1]), color=MUTED, linewidth=0.6, linestyle=(0, (3, 3)))
    if found.depth is not None:
        count = found.stages or 1
        pitch = min(0.19, 0.8 * _DEPTH / count)
        for index in range(count):
            fill = {0: 1.0}.get(index, 0.5)
            along = index * pitch
            _box(axes, (left + along, row, 0.85 * pitch, high), fill=_tint(_A, fill), edge=_A)
            at = above + _DEPTH - along - 0.85 * pitch
            _box(axes, (column, at, wide, 0.85 * pitch), fill=_tint(_B, fill), edge=_B)
        label = _named(params, ("BK", "T"), found.depth)
        stages = f"{label},\n{plural(found.stages, 'stage')}" if found.stages else label
        _text(axes, left + 0.04, row - 0.07, stages, across="left", up="top")
        _text(axes, column + wide + 0.07, above + _DEPTH - 0.04, stages, up="top")
    _text(axes, left - 0.07, row + high / 2, _named(params, ("BM", "T"), found.block[0]), across="right", up="center")
    _text(axes, column + wide / 2, above + _DEPTH + 0.06, _named(params, ("BN", "T"), found.block[1]), across="center")
    _text(axes, left + _DEPTH / 2, _Y + 0.08, "A: M x K", across="center")
    _text(axes, right - 0.06, above + 0.08, "B: K x N", across="right")
    _text(axes, right - 0.06, _Y + 0.08, "C: M x N", across="right", backed=True)


def _key(axes: Axes, found: Tiles) -> None:
    """What the shades of the panels mean, in the corner that they leave free."""
    shades: list[tuple[tuple[str, ...], str]] = [((_C,), "the tile of C that one block computes")]
    shades.append(((_tint(_A, 0.25), _tint(_B, 0.25)), "the rows of A and the columns of B that it reads"))
    if found.depth is not None:
        shades.append(((_A, _B), "the k tile in use"))
    if found.stages is not None and found.stages > 1:
        shades.append(((_tint(_A, 0.5), _tint(_B, 0.5)), "the k tiles that are on their way meanwhile"))
    for index, (colours, meaning) in enumerate(shades):
        y = _HEIGHT_IN - 0.2 - index * 0.19
        for place, colour in enumerate(colours):
            _box(axes, (_BLOCK_X + place * 0.17, y, 0.13, 0.1), fill=colour, edge=colour)
        _text(axes, _BLOCK_X + 0.42, y + 0.05, meaning, up="center")


def _block(axes: Axes, found: Tiles) -> None:
    """Panel 2: the block tile, cut into warp tiles where they are known, with its k tiles along it."""
    _text(axes, _BLOCK_X - 0.24, _PANEL_TITLE_Y, f"2  The block: {by(found.block)} of C", title=True)
    high, wide = _scaled(found.block, _BLOCK_EDGE)
    bottom = _Y + _BLOCK_EDGE - high
    _box(axes, (_BLOCK_X, bottom, wide, high), fill=_tint(_C, 0.18), edge=_C)
    if found.depth is not None:
        _box(axes, (_BLOCK_X - _BAR - _BAR_GAP, bottom, _BAR, high), fill=_A, edge=_A)
        _box(axes, (_BLOCK_X, bottom + high + _BAR_GAP, wide, _BAR), fill=_B, edge=_B)
    if found.warp is not None:
        warp_high, warp_wide = (edge / whole * drawn for edge, whole, drawn in
                                zip(found.warp, found.block, (high, wide), strict=True))  # fmt: skip
        first = (_BLOCK_X, bottom + high - warp_high, warp_wide, warp_high)
        _box(axes, first, fill=_tint(_C, 0.55), edge=_C)
        if found.mma is not None:
            cells = tuple(round(whole / edge) for whole, edge in zip(found.warp, found.mma[:2], strict=True))
            _grid(axes, first, cells, colour=_tint(_C, 0.8), width=0.5)
        whole = tuple(round(whole / edge) for whole, edge in zip(found.block, found.warp, strict=True))
        _grid(axes, (_BLOCK_X, bottom, wide, high), whole, colour=_C, width=1.0)
    for index, line in enumerate((found.crew, *found.parts)):
        _text(axes, _BLOCK_X, bottom - 0.08 - index * _LINE_IN, line, up="top")


def _thread(axes: Axes, thread: tuple[int, int]) -> None:
    """Panel 3: the sums of one thread, with the words of A and B that a step of k brings to them."""
    rows, columns = thread
    _text(axes, _THREAD_X - 0.24, _PANEL_TITLE_Y, f"3  A thread: {by(thread)} sums", title=True)
    cell = min(0.24, _THREAD_EDGE / max(thread))
    high, wide = rows * cell, columns * cell
    bottom = _Y + _BLOCK_EDGE - high
    for box, cells, colour, fill in (
        ((_THREAD_X, bottom, wide, high), (rows, columns), _C, 0.55),
        ((_THREAD_X - cell - _BAR_GAP, bottom, cell, high), (rows, 1), _A, 1.0),
        ((_THREAD_X, bottom + high + _BAR_GAP, wide, cell), (1, columns), _B, 1.0),
    ):
        _box(axes, box, fill=_tint(colour, fill), edge=colour)
        _grid(axes, box, cells, colour=PAPER, width=0.8)
    words = f"each k: {rows} + {columns} words,\n{plural(rows * columns, 'multiply-add')}"
    _text(axes, _THREAD_X, bottom - 0.08, words, up="top")


def _share(axes: Axes, sums: int | None) -> None:
    """Panel 3 without a tile: how many sums a thread has, if the parameters tell."""
    title = "3  A thread" if sums is None else f"3  A thread: {plural(sums, 'sum')}"
    _text(axes, _THREAD_X - 0.24, _PANEL_TITLE_Y, title, title=True)
    top = _Y + _BLOCK_EDGE
    if sums is None:
        _text(axes, _THREAD_X - 0.24, top, "The parameters do not say\nwhat one thread holds.", up="top", colour=MUTED)
        return
    columns = min(sums, 8)
    rows = -(-sums // columns)
    cell = min(0.24, _THREAD_EDGE / max(rows, columns))
    for index in range(sums):
        down, along = divmod(index, columns)
        box = (_THREAD_X + along * cell, top - (down + 1) * cell, cell, cell)
        _box(axes, box, fill=_tint(_C, 0.55), edge=PAPER)
    if sums > 1:
        words = "which elements of the\nblock tile: see the kernel"
        _text(axes, _THREAD_X, top - rows * cell - 0.08, words, up="top", colour=MUTED)


def _instruction(axes: Axes, mma: tuple[int, ...]) -> None:
    """Panel 3 on tensor cores: the tile of one matrix instruction, with its operands."""
    _text(axes, _THREAD_X - 0.24, _PANEL_TITLE_Y, f"3  An instruction: {by(mma)}", title=True)
    high, wide = _scaled((mma[0], mma[1]), 1.3)
    deep = 0.3
    bottom = _Y + _BLOCK_EDGE - high
    for box, colour, fill in (
        ((_THREAD_X + deep, bottom, wide, high), _C, 0.55),
        ((_THREAD_X - _BAR_GAP, bottom, deep, high), _A, 1.0),
        ((_THREAD_X + deep, bottom + high + _BAR_GAP, wide, deep), _B, 1.0),
    ):
        _box(axes, box, fill=_tint(colour, fill), edge=colour)
    words = f"{mma[0] * mma[1]} sums" + (f",\n{mma[0] * mma[1] * mma[2]} multiply-adds" if len(mma) == 3 else "")
    _text(axes, _THREAD_X, bottom - 0.08, words, up="top")


def _scaled(edges: tuple[int, int], longest: float) -> tuple[float, float]:
    """(height, width) in inches, the longer one ``longest`` and the other wide enough to be seen."""
    rows, columns = (max(_NARROWEST, longest * edge / max(edges)) for edge in edges)
    return rows, columns


def _grid(axes: Axes, box: Box, cells: tuple[int, ...], *, colour: str, width: float) -> None:
    """Lines that cut ``box`` into rows and columns, if there are few enough to see."""
    x, y, wide, high = box
    rows, columns = cells
    if max(cells) > _MOST_CELLS:
        return
    for step in range(1, columns):
        axes.plot([x + step * wide / columns] * 2, [y, y + high], color=colour, linewidth=width)
    for step in range(1, rows):
        axes.plot([x, x + wide], [y + step * high / rows] * 2, color=colour, linewidth=width)


def _box(axes: Axes, box: Box, *, fill: str, edge: str) -> None:
    x, y, wide, high = box
    axes.add_patch(Rectangle((x, y), wide, high, facecolor=fill, edgecolor=edge, linewidth=0.8))


def _text(
    axes: Axes,
    x: float,
    y: float,
    words: str,
    *,
    across: str = "left",
    up: str = "bottom",
    colour: str = INK,
    title: bool = False,
    backed: bool = False,
) -> None:
    axes.text(
        x, y, words, ha=across, va="baseline" if title else up, color=colour, linespacing=1.25,
        fontsize=_TITLE if title else _SMALL, fontweight="bold" if title else "normal",
        bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1.2} if backed else None,
    )  # fmt: skip


def _named(params: Mapping[str, int], names: tuple[str, ...], value: int) -> str:
    """``"BM = 128"`` under the first of ``names`` that has the value; the bare number without one."""
    name = next((name for name in names if params.get(name) == value), None)
    return f"{value}" if name is None else f"{name} = {value}"


def _tint(colour: str, share: float) -> str:
    """``colour`` on paper, as an opaque colour: ``share`` of it and the rest white."""
    mixed = tuple(share * own + (1 - share) * white for own, white in zip(to_rgb(colour), to_rgb(PAPER), strict=True))
    return to_hex((mixed[0], mixed[1], mixed[2]))
