"""The page as Markdown and as HTML. Every expression of a template is escaped unless it says otherwise."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from ladder.model import LEVELS
from ladder.report.draw import inline
from ladder.report.explore import PLOT_PX
from ladder.report.files import MARKER
from ladder.report.page import Figure, Page
from ladder.report.text import LEVEL_NAMES, markdown

__all__ = ["INLINE_LIMIT_BYTES", "html", "markdown_page"]

INLINE_LIMIT_BYTES = 2**19
"""Static figures inside the HTML page stop here; later ones are linked, so that the page stays below 6 MiB."""


class _Raw(str):
    """Text that a Markdown template shall not escape."""

    __slots__ = ()


def _escaped(value: Any) -> str:
    return value if isinstance(value, _Raw) else markdown(str(value))


def markdown_page(page: Page, figures: str) -> str:
    """``index.md``, with figures linked in the folder ``figures``."""
    environment = _environment(autoescape=False, finalize=_escaped)
    environment.filters["raw"] = _Raw
    return environment.get_template("index.md.j2").render(page=page, figures=figures, marker=_Raw(MARKER))


def html(page: Page, figures: str) -> str:
    """``index.html``: one file that loads nothing, with its data, its figures and the library that draws them."""
    environment = _environment(autoescape=True)
    pictures: dict[str, Markup] = {}
    spent = 0
    for group in page.groups:
        if group.across is not None:
            svg = _picture(group.across)
            spent += len(svg.encode())
            if spent > INLINE_LIMIT_BYTES:
                break
            pictures[group.across.stem] = svg
    views, charts = page.views, [study.chart.to_json() for told in page.experiments for study in told.studies]
    return environment.get_template("index.html.j2").render(
        page=page,
        figures=figures,
        pictures=pictures,
        views=views,
        data=_json(views),
        charts=_json(charts) if charts else "",
        library=_library() if views or charts else "",
        levels=[(level, LEVEL_NAMES[level]) for level in LEVELS],
        plot_px=PLOT_PX,
    )


def _json(value: Any) -> Markup:
    # Safe inside <script>: there only "<" could end the element or open a comment, and in JSON it stands in strings.
    return Markup(json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c"))


@cache
def _library() -> str:
    """Plotly's own file, a third of its size: gzip, in base64. The same bytes every time, so no time stands in it."""
    return b64encode(gzip.compress(get_plotlyjs().encode(), 9, mtime=0)).decode()


def _picture(figure: Figure) -> Markup:
    # Safe: matplotlib wrote the SVG, and draw.finish escaped the only text in it that is not an outline.
    return Markup(inline(figure.drawing, figure.stem))


def _environment(**options: Any) -> Environment:
    return Environment(
        loader=PackageLoader("ladder.report"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **options,
    )
