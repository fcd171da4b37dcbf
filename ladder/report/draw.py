"""How every figure looks and how it becomes SVG and PNG, the same bytes each time."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from PIL import Image
from PIL.PngImagePlugin import PngInfo

__all__ = [
    "COLOURS",
    "GRID",
    "INK",
    "MARKERS",
    "MUTED",
    "PAPER",
    "Drawing",
    "canvas",
    "finish",
    "inline",
    "plain_ticks",
    "slope_degrees",
    "styled",
]

PAPER, INK, MUTED, GRID = "#ffffff", "#1f2328", "#59636e", "#d9dfe5"

COLOURS = {
    "dram": "#0072b2",
    "l2": "#00805e",
    "sm": "#c4500a",
    "shared": "#c4500a",
    "fp32": "#7a4fb0",
}
"""One hue a level, told apart with every common colour blindness (after Okabe and Ito); markers repeat it in shape."""

MARKERS = {"dram": "s", "l2": "D", "sm": "o", "shared": "|"}

_CSS_NAMES = {
    PAPER: "paper",
    INK: "ink",
    MUTED: "muted",
    GRID: "grid",
    COLOURS["dram"]: "dram",
    COLOURS["l2"]: "l2",
    COLOURS["sm"]: "sm",
    COLOURS["fp32"]: "fp32",
}

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""Characters that XML 1.0 cannot hold."""

_STYLE = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9.0,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.minor.visible": False,
    "ytick.minor.visible": False,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    # A kernel may be called "$x": that is a name, not mathematics.
    "text.parse_math": False,
    # Text becomes outlines: the figure looks the same where DejaVu Sans is not installed.
    "svg.fonttype": "path",
    "path.simplify": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """One finished figure.

    Attributes:
        kind: what it shows: ``"roofline"``, ``"bounds"``, ``"law"``, ``"banks"`` or ``"l2-limit"``.
        title: its heading.
        alt: the finding in words, for readers who do not see it; also inside the SVG.
        caption: how to read it.
        svg: the whole SVG file.
        png: the whole PNG file.
    """

    kind: str
    title: str
    alt: str
    caption: str
    svg: str
    png: bytes


@contextmanager
def styled(salt: str) -> Iterator[None]:
    """The house style, whatever the user's matplotlibrc says. ``salt`` makes element ids reproducible and distinct."""
    with style.context({**_STYLE, "svg.hashsalt": salt}, after_reset=True):
        yield


def canvas(width_in: float, height_in: float) -> Figure:
    """An empty figure that no GUI knows of."""
    figure = Figure(figsize=(width_in, height_in))
    FigureCanvasAgg(figure)
    return figure


def plain_ticks(axes: Axes, axis: str = "both") -> None:
    """Logarithmic ticks written as plain numbers, 0.01, 1, 100, and closer ones where less than two decades show."""
    for name in ("x", "y") if axis == "both" else (axis,):
        low, high = sorted(axes.get_xlim() if name == "x" else axes.get_ylim())
        decades = math.log10(high / low)
        steps = (1.0,) if decades > 2 else (1.0, 2.0, 5.0) if decades > 0.7 else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        ticks = [tick for power in powers for step in steps if low <= (tick := step * 10.0**power) <= high]
        along = axes.xaxis if name == "x" else axes.yaxis
        along.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
        along.set_minor_formatter(NullFormatter())


def slope_degrees(axes: Axes) -> float:
    """Angle on the page of a line of slope 1 in log-log."""
    (x0, y0), (x1, y1) = axes.transData.transform([(1, 1), (10, 10)])
    return math.degrees(math.atan2(y1 - y0, x1 - x0))


def finish(figure: Figure, *, kind: str, title: str, alt: str, caption: str) -> Drawing:
    """Render ``figure``. Neither file holds a date or the version of the library, so equal data give equal bytes."""
    alt = _CONTROL.sub("", alt)
    svg, png = io.StringIO(), io.BytesIO()
    with warnings.catch_warnings():
        # A name in a script that DejaVu lacks shows as boxes here; the pages spell it out.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
        figure.savefig(png, format="png", dpi=160)
    return Drawing(
        kind=kind,
        title=title,
        alt=alt,
        caption=caption,
        svg=_described(svg.getvalue(), title, alt),
        png=_small(png, title, alt),
    )


def _small(png: io.BytesIO, title: str, alt: str) -> bytes:
    """The picture with a palette of 256 colours, a third of its size: flat colours and their blends need no more."""
    words = PngInfo()
    words.add_itxt("Title", title)
    words.add_itxt("Description", alt)
    out = io.BytesIO()
    with Image.open(png) as image:
        few = image.convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        few.save(out, format="PNG", optimize=True, pnginfo=words)
    return out.getvalue()


def _described(svg: str, title: str, alt: str) -> str:
    """Give the root element a role, a title and a description that screen readers find.

    matplotlib repeats every text in a comment, with whatever characters a name has: those go.
    """
    svg = re.sub(r"\n\s+", "\n", re.sub(r"<!--.*?-->\n?", "", svg, flags=re.DOTALL))
    words = f"<title>{escape(title)}</title>\n <desc>{escape(alt)}</desc>"
    return re.sub(r"(<svg\b[^>]*)>", lambda m: f'{m[1]} role="img">\n {words}', svg, count=1)


def inline(drawing: Drawing, identifier: str) -> str:
    """The SVG for embedding in HTML: scalable, themed by CSS variables, its ids prefixed so that figures do not mix."""
    svg = drawing.svg[drawing.svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{identifier}-\1"', svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\1{identifier}-", svg)
    svg = re.sub(r'(<svg\b[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg\b[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = svg.replace("<title>", f'<title id="{identifier}-title">', 1).replace(
        "<desc>", f'<desc id="{identifier}-desc">', 1
    )
    svg = svg.replace("<svg ", f'<svg aria-labelledby="{identifier}-title {identifier}-desc" ', 1)
    for colour, name in _CSS_NAMES.items():
        svg = svg.replace(colour, f"var(--{name}, {colour})")
    return svg
