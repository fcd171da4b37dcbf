"""Results to a report: Markdown, one offline HTML page, and figures as SVG and PNG. Reads results, runs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ladder.experiments import Experiments
from ladder.model import Rung
from ladder.report.files import FIGURES, put
from ladder.report.page import build
from ladder.report.render import html, markdown_page
from ladder.store import Results

__all__ = ["write_report"]


def write_report(
    results: Sequence[Results],
    out: Path,
    *,
    catalog: Mapping[str, Rung] | None = None,
    experiments: Sequence[Experiments] = (),
) -> Path:
    """Write ``index.md``, ``index.html`` and ``figures/`` into ``out``, and return the path of ``index.md``.

    The same results give the same bytes. Files appear whole or not at all; links are relative.

    Args:
        results: one or more results files; none, or none with runs, makes a page that says so.
        out: the folder; it is made if need be.
        catalog: the rungs by name, in the ladder's order: gives the rows their order, links to the sources and the
            number of threadblocks. Without it rows keep the results' order.
        experiments: what ``ladder experiment`` found; each file gets a part of the page.

    Raises:
        StoreError: ``out`` cannot be made or written.
    """
    page = build(results, out, catalog, experiments)
    figures: dict[str, bytes] = {}
    for figure in page.figures:
        figures[f"{figure.stem}.svg"] = figure.drawing.svg.encode()
        figures[f"{figure.stem}.png"] = figure.drawing.png
    pages = {"index.html": html(page, FIGURES).encode(), "index.md": markdown_page(page, FIGURES).encode()}
    put(out, figures, pages)
    return out / "index.md"
