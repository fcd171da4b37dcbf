"""What the interactive page holds, read as text: its numbers are the results', and nothing needs eyes or a mouse."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from helpers.results import KERNELS, make_results, make_run, peer, unhappy_runs

from bench.readme import README, RESULTS, blocks, filled
from ladder.catalog import load_catalog
from ladder.model import LEVELS, Quantity, Rung
from ladder.report import cards, write_report
from ladder.report.explore import view
from ladder.report.table import table
from ladder.report.text import percent, tflops
from ladder.report.view import Section, sections
from ladder.store import Results, Run, load

FEW = KERNELS[3:7]
CATALOG = {rung.name: rung for rung in load_catalog()}


def shown(results: Results, asked: Mapping[Any, Quantity] | None = None) -> dict[str, Any]:
    made = view(sections(results, CATALOG)[0], {}, asked or {})
    assert made is not None
    return made


def by_name(made: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in made["rows"]}


def html(out: Path) -> str:
    return (out / "index.html").read_text(encoding="utf-8")


def embedded(text: str) -> Any:
    match = re.search(r'<script type="application/json" id="data"[^>]*>(.*?)</script>', text, flags=re.DOTALL)
    assert match
    return json.loads(match[1])


class Cells(HTMLParser):
    """Tables of runs: for each row, the text of its cells and the numbers that they stand for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[list[list[tuple[str, str | None]]]] = []
        self.inside = self.cell = False
        self.feed(re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "table":
            self.inside = given.get("class") == "runs"
            if self.inside:
                self.tables.append([])
        elif self.inside and tag == "tr":
            self.tables[-1].append([])
        elif self.inside and tag in ("td", "th"):
            self.tables[-1][-1].append(("", given.get("data-value")))
            self.cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self.cell = False

    def handle_data(self, data: str) -> None:
        if self.inside and self.cell:
            text, value = self.tables[-1][-1][-1]
            self.tables[-1][-1][-1] = (text + data, value)


def number_of(run: Run, column: str) -> float | None:
    """What the results say that a column of the table shows."""
    placement, traffic = run.placement, run.traffic
    return {
        "roof, TFLOP/s": placement.roof_flop_per_s / 1e12 if placement else None,
        "time": run.time.median if run.time else None,
        "TFLOP/s": run.flop_per_s / 1e12 if run.flop_per_s else None,
        "of roof": placement.fraction if placement else None,
        "wavefronts / request": traffic.wavefronts_per_request if traffic else None,
        "error / bound": run.check.worst_error_over_bound if run.check else None,
        "L1 law": run.law.predicted.get("l1") if run.law and run.intensity else None,
        "shared law": run.law.predicted.get("shared") if run.law and run.intensity else None,
    }.get(column, run.intensity.get({name.lower(): name for name in LEVELS}.get(column.lower(), "asked")))


@pytest.mark.parametrize("timed", [True, False], ids=["timed", "emulated"])
def test_every_point_lies_where_the_results_say(timed: bool) -> None:
    results = make_results(256, timed=timed)
    rows = by_name(shown(results))
    dram, peak = results.roofs.bytes_per_s["dram"], results.roofs.flop_per_s["fp32"]
    for run in results.runs:
        assert run.placement is not None
        row = rows[run.rung]
        assert row["y"] == (run.flop_per_s if timed else run.placement.roof_flop_per_s)
        assert {level: point["x"] for level, point in row["levels"].items()} == run.intensity
        for level, point in row["levels"].items():
            assert point["of_dram"] == pytest.approx(row["y"] / min(point["x"] * dram, peak))
            assert point["over"] == (point["of_dram"] > 1.02)
            assert f"{point['x_text']} FLOP/byte<br>" in point["hover"]
            assert f"<br>{percent(point['of_dram'])} of the DRAM roof there" in point["hover"]
            assert run.traffic is not None
            assert point["bytes"] == run.traffic.levels[level].bytes
        assert tflops(row["y"]) in row["hover"]
        assert ("no clock ran" in row["hover"]) is not timed
        assert row["bounds"].get("dram", {}).get("value") == run.placement.bounds_flop_per_s["dram"]


def test_by_what_lanes_ask_naive_kernels_outrun_dram_and_by_dram_they_do_not() -> None:
    findings = shown(make_results(4096, timed=True))["findings"]
    assert re.search(r"coalesced at 5\d\d % of it", findings["asked"])
    assert "which no kernel can" in findings["asked"]
    assert findings["dram"].startswith("Placed by DRAM's bytes, no kernel lies above the DRAM roof")


def test_what_lanes_ask_for_comes_from_an_emulated_session_of_the_same_kernel() -> None:
    gpu = make_results(256, timed=True)

    def without(run: Run) -> Run:
        assert run.traffic is not None
        levels = {level: found for level, found in run.traffic.levels.items() if level != "asked"}
        return replace(run, traffic=replace(run.traffic, levels=levels))

    bare = replace(gpu, runs=tuple(without(run) for run in gpu.runs))
    assert shown(bare)["findings"]["asked"] == "No run here counted what lanes ask for."
    run = bare.runs[1]
    theirs = Quantity(bytes=round(run.shape.flop / 0.25), origin="emulated")
    point = by_name(shown(bare, {(run.rung, run.source_sha256, run.shape): theirs}))[run.rung]["levels"]["asked"]
    assert (point["bytes"], point["origin"], point["x_text"]) == (theirs.bytes, "emulated", "0.250")
    other = {(run.rung, "f" * 64, run.shape): theirs}
    assert "asked" not in by_name(shown(bare, other))[run.rung]["levels"]


def test_labels_of_the_roofline_do_not_overlap() -> None:
    made = shown(make_results(4096, timed=True, extra=tuple(peer(4096, 5e13 + i, name=f"peer_{i}") for i in range(8))))
    low, high = made["y"]
    tall = math.log10(high / low)
    places = sorted(math.log10(row["label_y"] / low) / tall * 560 for row in made["rows"])
    gaps = [b - a for a, b in itertools.pairwise(places)]
    assert min(gaps) > 14.9


def test_laws_and_transition_name_what_the_results_hold() -> None:
    made = shown(make_results(256, timed=True))
    law = made["law"]
    assert {point["name"]: point["y"] for point in law["points"]} == {
        run.rung: run.intensity["l1"] for run in make_results(256, timed=True).runs if run.law
    }
    assert law["limit"] == pytest.approx(256 / 6)
    assert "shared memory at T = 16, 32 and 64; FP32 at T = 128" in made["transition"]["finding"]
    assert made["transition"]["order"][:3] == ["naive", "coalesced", "tiled_16"]
    conflict = next(point for point in made["banks"]["points"] if point["name"] == "tiled_conflict")
    assert conflict["x"] == pytest.approx(0.01516, rel=0.01)


def test_every_number_of_the_page_and_of_markdown_is_the_results(tmp_path: Path) -> None:
    every = [make_results(256, extra=unhappy_runs()), make_results(4096, timed=True, extra=(peer(4096, 51.2e12),))]
    write_report(every, tmp_path)
    tables = Cells(html(tmp_path)).tables
    markdown = (tmp_path / "index.md").read_text(encoding="utf-8").replace("\\", "")
    assert len(tables) == 2
    for results, (head, *rows) in zip(every, tables, strict=True):
        runs = {run.rung: run for run in results.runs}
        columns = [text for text, _ in head]
        assert {row[0][0] for row in rows} == {name for name, run in runs.items() if run.skipped is None}
        seen = 0
        for row in rows:
            for column, (text, value) in list(zip(columns, row, strict=True))[1:]:
                if value is not None:
                    assert float(value) == number_of(runs[row[0][0]], column)
                    seen += 1
                if column not in ("check", "bound by", "time"):
                    assert (text == "–") == (value is None)
            assert f"| {' | '.join(text for text, _ in row)} |" in markdown
        assert seen > 80


def test_skipped_runs_are_listed_apart_and_not_drawn(tmp_path: Path) -> None:
    write_report([make_results(256, kernels=FEW, extra=unhappy_runs())], tmp_path)
    text = html(tmp_path)
    assert "tma_pipeline" not in json.dumps(embedded(text))
    apart = re.search(r"<h4>Not run here</h4>(.*?)</ul>", text, flags=re.DOTALL)
    assert apart
    assert "<strong>tma_pipeline</strong> (Bulk copies): Skipped: needs compute capability 9.0." in apart[1]
    assert re.search(r"#### Not run here\n\n- \*\*tma\\_pipeline\*\*", (tmp_path / "index.md").read_text())
    assert text.count("tma_pipeline") == 1


def test_only_skipped_runs_make_a_page_without_figures(tmp_path: Path) -> None:
    skipped = tuple(run for run in unhappy_runs() if run.skipped)
    write_report([make_results(256, kernels=(), extra=skipped)], tmp_path)
    text = html(tmp_path)
    assert "Not run here" in text
    assert 'id="data"' not in text
    assert len(text) < 100_000


def test_a_hostile_name_cannot_leave_the_data(tmp_path: Path) -> None:
    name = "</script><script>alert(1)</script>"
    run = replace(make_run(KERNELS[3], 256), rung=name)
    write_report([make_results(256, kernels=(), extra=(run,))], tmp_path)
    text = html(tmp_path)
    assert embedded(text)[0]["shapes"][0]["rows"][0]["name"] == name
    assert "<script>alert" not in text
    assert "&lt;/script&gt;" in by_name(shown(make_results(256, kernels=(), extra=(run,))))[name]["hover"]


def test_two_sessions_of_one_card_can_be_told_apart(tmp_path: Path) -> None:
    results = make_results(256, kernels=FEW)
    write_report([results, replace(results, created="2025-02-03T00:00:00Z")], tmp_path)
    first, second = (each["device"] for each in embedded(html(tmp_path)))
    assert first != second
    assert "2025-02-03T00:00:00Z" in second


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("access")
    write_report([make_results(256, timed=True, kernels=FEW)], out)
    return html(out)


def test_every_control_has_a_label_and_every_figure_a_finding(text: str) -> None:
    markup = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    inputs = re.findall(r"<input [^>]*>", markup)
    assert len(inputs) == 1 + len(LEVELS) + 4 + 3
    for each in inputs:
        assert re.search(rf"<label[^>]*>{re.escape(each)} [^<]+</label>", markup)
    for name in re.findall(r'<select id="(\w+)"', markup):
        assert f'<label for="{name}">' in markup
    ids = set(re.findall(r' id="([^"]+)"', markup))
    for chart in re.findall(r'<div class="chart"[^>]*>', markup):
        match = re.search(r'role="img" aria-labelledby="([^"]+)"', chart)
        assert match
        assert match[1] in ids
    assert all("scope=" in head for head in re.findall(r"<th [^>]*>", markup))
    assert '<html lang="en">' in markup
    assert "<noscript>" in markup


def contrast(one: str, other: str) -> float:
    """Of two colours, as WCAG 2 defines it."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def test_colours_reach_aa_on_both_papers(text: str) -> None:
    themes = [
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))
        for block in re.findall(r":root \{(.*?)\}", text, re.DOTALL)[:2]
    ]
    for theme in themes:
        for name in ("ink", "muted", "dram", "l2", "sm", "fp32", "good", "bad"):
            for ground in ("paper", "back"):
                assert contrast(theme[name], theme[ground]) >= 4.5, (name, ground)
        assert contrast(theme["ink"], theme["mark"]) >= 4.5


def a_rung(name: str, number: int, source: str, path: Path) -> Rung:
    return Rung(
        name=name, number=number, kind="rung", title="T", kernel="k", params={}, tile=(32, 32), block=(32, 32, 1),
        path=path / f"{name}.cu", source=source,
    )  # fmt: skip


def test_a_card_marks_the_new_lines_and_leads_to_the_next_rung(tmp_path: Path) -> None:
    old = "// Header\n\nvoid a() {\n  load();  // slowly\n  store();\n}\n"
    new = "// Other header\n\nvoid a() {\n    load(); // quickly\n  wait();\n\n  store();\n}\n"
    first, second = a_rung("one", 1, old, tmp_path), a_rung("two", 2, new, tmp_path)
    found = sections(make_results(256, kernels=FEW[:2]), {})[0]
    rows = [replace(row, rung=rung) for row, rung in zip(found.rows, (first, second), strict=True)]
    section = Section(results=found.results, shape=found.shape, rows=tuple(rows))
    one, two = cards.cards(section, "x", set())
    assert [line.text for line in one.source][:2] == ["void a() {", "  load();  // slowly"]
    assert not any(line.new for line in one.source)
    assert [line.text for line in two.source if line.new] == ["  wait();"]
    assert (two.new_lines, two.before) == (1, rows[0].name)
    assert one.following == (rows[1].name, "x-k2")
    assert two.following is None
    traffic = rows[0].run.traffic
    assert traffic is not None
    assert ("L2 bytes", f"{traffic.levels['l2'].bytes:,}", "modelled") in one.counters


def test_readmes_figure_and_table_are_the_committed_reports() -> None:
    text = README.read_text(encoding="utf-8")
    assert filled(text, blocks(load(RESULTS))) == text, "stale: python -m bench.readme"
    figure = re.search(r"!\[[^]]+\]\((docs/report/figures/[^)]+)\)", text)
    assert figure
    assert (README.parent / figure[1]).is_file()
    with pytest.raises(ValueError, match="one pair of"):
        filled("nothing here", {"figure": "x"})


def test_the_committed_report_shows_the_committed_results() -> None:
    results, folder = load(RESULTS), RESULTS.parent
    text, markdown = html(folder), (folder / "index.md").read_text(encoding="utf-8")
    assert len(text.encode()) < 6 * 2**20
    found = sections(results, CATALOG)
    data = {each["shape"]: by_name(each) for each in embedded(text)[0]["shapes"]}
    for section in found:
        for row in section.rows:
            if row.height_flop_per_s:
                drawn = data[str(section.shape)][row.name]
                assert drawn["y"] == row.height_flop_per_s, "stale: make publish"
                for level, intensity in row.run.intensity.items():
                    assert drawn["levels"][level]["x"] == intensity
        for cells in table(section).rows:
            tail = " | ".join(cell.text for cell in cells[1:])
            assert f" | {tail} |" in markdown, "stale: make publish"
