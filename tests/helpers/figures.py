"""Whether the words of a matplotlib figure stay apart and on the page."""

from __future__ import annotations

from itertools import combinations

from matplotlib.figure import Figure
from matplotlib.text import Text

__all__ = ["assert_legible", "texts"]


def texts(figure: Figure) -> list[Text]:
    """The texts that are drawn."""
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]


def assert_legible(figure: Figure) -> None:
    """No text leaves the page, and no level one covers another."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    page = figure.bbox
    hidden = _hidden(figure)
    shown = [(text, text.get_window_extent(renderer)) for text in texts(figure) if text not in hidden]
    assert len(shown) > 5
    for text, box in shown:
        inside = box.x0 >= page.x0 - 1 and box.x1 <= page.x1 + 1 and box.y0 >= page.y0 - 1 and box.y1 <= page.y1 + 1
        assert inside, f"{text.get_text()!r} at {box} leaves {page}"
    for (one, a), (two, b) in combinations(shown, 2):
        if one.get_rotation() == two.get_rotation() == 0:
            wide = min(a.x1, b.x1) - max(a.x0, b.x0)
            tall = min(a.y1, b.y1) - max(a.y0, b.y0)
            assert wide < 1 or tall < 0.25 * min(a.height, b.height), f"{one.get_text()!r} covers {two.get_text()!r}"


def _hidden(figure: Figure) -> set[Text]:
    """Labels of ticks beyond the view limits: they exist, but nobody draws them."""
    hidden: set[Text] = set()
    for axes in figure.axes:
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            low, high = sorted(limits)
            for tick in (*axis.majorTicks, *axis.minorTicks):
                if not low <= tick.get_loc() <= high:
                    hidden |= {tick.label1, tick.label2}
    return hidden
