"""README's figure and table, written between their markers from the committed report's results. Runs nothing.

``python -m bench.readme`` writes them; a test fails while they differ from what it would write.
"""

from __future__ import annotations

import re
from pathlib import Path

from ladder import store
from ladder.catalog import load_catalog
from ladder.report.files import FIGURES
from ladder.report.roofline_figure import draw
from ladder.report.table import table
from ladder.report.text import markdown, number, si, slug
from ladder.report.view import Section, sections
from ladder.store import Results

__all__ = ["README", "RESULTS", "blocks", "filled"]

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
RESULTS = ROOT / "docs" / "report" / "results.json"
COLUMNS = ("kernel", "bound by", "TFLOP/s", "of roof", "L1", "L2", "DRAM", "shared", "SM")


def blocks(results: Results) -> dict[str, str]:
    """The text of each marked place, by its name: the leading shape's figure, and a table of its rungs."""
    catalog = {rung.name: rung for rung in load_catalog()}
    section = sections(results, catalog)[0]
    return {"figure": _figure(section), "table": _table(section)}


def filled(text: str, made: dict[str, str]) -> str:
    """``text`` with each of ``made`` between its markers.

    Raises:
        ValueError: a pair of markers is missing or not alone.
    """
    for name, block in made.items():
        pattern = re.compile(rf"(<!-- report: {name} -->\n).*?(<!-- /report: {name} -->)", flags=re.DOTALL)
        if len(pattern.findall(text)) != 1:
            raise ValueError(f"README needs one pair of <!-- report: {name} --> and <!-- /report: {name} -->")
        text = pattern.sub(lambda match, block=block: f"{match[1]}{block}\n{match[2]}", text)  # type: ignore[misc]
    return text


def _figure(section: Section) -> str:
    drawing = draw(section)
    if drawing is None:
        raise ValueError(f"no run at {section.shape} has a place, so there is no roofline to show")
    device = section.results.device
    stem = f"{slug(f'{device.name} {device.backend}')}-{section.shape}-{drawing.kind}"
    return f"![{drawing.alt}](docs/report/{FIGURES}/{stem}.svg)"


def _table(section: Section) -> str:
    made = table(section)
    head = [title for title, _ in made.head]
    kept = [head.index(title) for title in COLUMNS if title in head]
    rungs = {row.name for row in section.rows if row.run.kind != "law"}
    lines = [f"| {' | '.join(head[i] for i in kept)} |", f"|{'|'.join('---' if i < 3 else '---:' for i in kept)}|"]
    lines.extend(
        f"| {' | '.join(markdown(cells[i].text) for i in kept)} |" for cells in made.rows if cells[0].text in rungs
    )
    return "\n".join([_stamp(section), "", *lines])


def _stamp(section: Section) -> str:
    results, device = section.results, section.results.device
    facts = [f"{device.name} at {section.shape}", f"driver {device.driver}" if device.driver else ""]
    if device.sm_clock_hz:
        facts.append(f"SM clock {si(device.sm_clock_hz, 'Hz')}")
    facts += [f"power {number(device.power_w)} W at the FP32 roof" if device.power_w else "", results.created[:10]]
    return (
        f"{', '.join(fact for fact in facts if fact)}. `TFLOP/s` is measured, `of roof` is its share of the lowest "
        "roof, and a level's column holds FLOP per byte there, from the card's counters."
    )


def main() -> None:
    """Write both places of README."""
    text = README.read_text(encoding="utf-8")
    README.write_text(filled(text, blocks(store.load(RESULTS))), encoding="utf-8")
    print(f"wrote the figure and the table of {README.name}")


if __name__ == "__main__":
    main()
