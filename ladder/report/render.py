"""The page as Markdown and as HTML. Every expression of a template is escaped unless it says otherwise."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ladder.report.draw import inline
from ladder.report.files import MARKER
from ladder.report.page import Figure, Page
from ladder.report.text import markdown

__all__ = ["INLINE_LIMIT_BYTES", "html", "markdown_page"]

INLINE_LIMIT_BYTES = 5 * 2**20
"""Figures inside the HTML page stop here; later ones are linked, so that the page stays quick to open."""


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
    """``index.html``: one file that loads nothing, its figures inside it and themed for light and dark."""
    environment = _environment(autoescape=True)
    pictures: dict[str, Markup] = {}
    spent = 0
    for figure in page.figures:
        svg = _picture(figure)
        spent += len(svg.encode())
        if spent > INLINE_LIMIT_BYTES:
            break
        pictures[figure.stem] = svg
    return environment.get_template("index.html.j2").render(page=page, figures=figures, pictures=pictures)


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
