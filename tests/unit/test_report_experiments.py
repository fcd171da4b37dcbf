"""What the report says and draws of experiments: findings follow from the rows, and every figure has its numbers."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.experiment_rows import PROFILE, asked_row, edge_run, edge_runs, padding_runs, session
from helpers.results import make_results

from ladder import experiments
from ladder.cli.commands import write_report
from ladder.model import Roofs, Shape
from ladder.report.experiments import asked, law, told, transition
from ladder.report.experiments.chart import Axis, Points, log_axis
from ladder.store import save

SMALL, LARGE = Shape(m=256, n=256, k=256), Shape(m=8192, n=8192, k=8192)
ROOFS = PROFILE.roofs


STUDIES = told(session(), "e").studies


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report")
    save(replace(make_results(), runs=()), out / "results.json")  # a page of experiments alone
    experiments.save(session(), out / "e.json")
    assert write_report([out / "results.json"], out / "r", experiments=[out / "e.json", out / "e.json"]) == 0
    return out / "r"


# ---- findings


def test_the_law_says_how_far_the_counts_are_from_it() -> None:
    assert "all 10 products lie exactly on the law" in law.finding(edge_runs(SMALL))
    away = [*edge_runs(SMALL)[:-1], edge_run("tiled", 64, SMALL, off=1.02)]
    assert "all 10 products lie within 2.0 % of the law" in law.finding(away)
    assert "the law has 1/6 for tile_product and 1/4 for tiled" in law.finding(edge_runs(SMALL))


def test_the_law_says_what_dram_does() -> None:
    assert "At N = 256 the intensity at DRAM does not grow with T" in law.finding(edge_runs(SMALL))
    grows = [edge_run("tiled", edge, LARGE, dram=edge / 2) for edge in (8, 16, 32, 64)]
    assert "At N = 8192 the intensity at DRAM grows as 0.5000 ± 0.0000 T for tiled (T/2)" in law.finding(grows)


def test_the_law_says_why_sectors_outnumber_elements() -> None:
    rows = edge_runs(Shape(m=100, n=60, k=33))
    assert "With K = 33, N = 60 rows do not begin on 32-byte sectors" in law.finding(rows)
    assert "32-byte sectors" not in law.finding(edge_runs(SMALL))


def test_the_law_names_what_was_not_counted() -> None:
    row = replace(edge_run("tiled", 4, LARGE), traffic=None, skipped="too large")
    assert "Not counted: tiled_4 at 8192x8192x8192." in law.finding([*edge_runs(SMALL), row])
    assert law.finding([row]) == "No product was counted."
    assert law.chart([row]) is None


def test_the_transition_names_what_binds_and_where_it_changes() -> None:
    rows = [edge_run("tiled", edge, LARGE, dram=dram) for edge, dram in ((4, 0.5), (8, 1.0), (16, 9.0), (32, 20.0))]
    text = transition.transition_finding(rows)
    assert text == "tiled at N = 8192: DRAM binds at T = 4 and 8, then the SM data pipe at T = 16 and 32."
    pipe = [edge_run("tiled", edge, LARGE, dram=40.0) for edge in (8, 16)]
    found = transition.transition_finding(pipe)
    assert re.search(r"the SM data pipe binds at every T, and at T = 8 DRAM would allow \d+ times as much", found)
    assert "No product has a place" in transition.transition_finding([])


def test_padding_says_which_is_worst_which_is_best_and_what_it_is_worth() -> None:
    text = transition.padding_finding(padding_runs())
    assert text.startswith("Padding 0 and 32 take 16.9 wavefronts a request, padding 1, 3, 5 and 7 only 1.19, as the")
    assert "times as much" in text
    first, *others = padding_runs()
    counts = first.traffic
    worse = replace(first, traffic=replace(counts, wavefronts_ld=counts.wavefronts_ld * 2))
    assert "never more than 100 % away" in transition.padding_finding([worse, *others])


def test_an_impossible_percentage_is_explained_in_a_sentence_of_its_numbers() -> None:
    text = asked.finding([asked_row(asked=8 * 10**9, dram=3 * 10**7, seconds=1e-4)], ROOFS)
    share = 8e9 / 1e-4 / ROOFS.bytes_per_s["dram"]
    assert text.startswith(
        f"By asked bytes naive runs at {100 * share:.0f} % of what DRAM sustains in a copy, which is"
    )
    assert "of the 8.00 GB that its lanes ask for DRAM moved 30.0 MB, 0.4 %" in text
    assert text.endswith("it runs at 7.1 %.")


def test_without_a_clock_there_is_a_ratio_and_no_percentage() -> None:
    text = asked.finding([asked_row(seconds=None)], ROOFS)
    assert text.endswith("No clock ran, so there is no rate to place.")
    assert "of what DRAM sustains" not in text
    assert asked.chart([asked_row(seconds=None)], ROOFS).panels[0].x.title == "bytes over those that lanes ask for"


def test_waste_is_told_as_well() -> None:
    rows = [asked_row(), asked_row("vector_add_strided", 10**6, 8 * 10**6)]
    assert "vector_add_strided asks for 1.00 MB and DRAM moved 8.00 times that" in asked.finding(rows, ROOFS)
    assert asked.finding([], ROOFS) == "No kernel has both kinds of bytes."


def test_without_a_copy_roof_there_are_only_ratios() -> None:
    bare = Roofs(bytes_per_s={"sm": 1e12}, flop_per_s={"fp32": 1e12})
    assert asked.chart([asked_row()], bare).panels[0].x.title == "bytes over those that lanes ask for"


# ---- charts and pages


def test_every_experiment_has_a_chart_and_one_that_was_not_made_has_none() -> None:
    assert [study.chart.kind for study in STUDIES] == [
        "experiment-law", "experiment-transition", "experiment-padding", "experiment-asked",
    ]  # fmt: skip
    assert told(replace(session(), edges=(), asked=()), "e").studies[0].chart.kind == "experiment-padding"


def test_points_lie_inside_their_axes() -> None:
    for study in STUDIES:
        for panel in study.chart.panels:
            for points in panel.points:
                for axis, values in ((panel.x, points.x), (panel.y, points.y)):
                    low, high = sorted((axis.low, axis.high))
                    assert all(low <= value <= high for value in values), (study.stem, points.name)


def test_a_log_axis_holds_its_values_and_has_ticks() -> None:
    axis = log_axis("x", [3.0, 4.0])
    assert axis.low < 3
    assert axis.high > 4
    assert len(axis.ticks) >= 2
    with pytest.raises(ValueError, match="give one of each a point"):
        Points(x=(1.0,), y=(), hover=(), tone="ink", symbol="circle")


def test_the_page_holds_charts_findings_and_tables_of_every_file(folder: Path) -> None:
    page = (folder / "index.html").read_text(encoding="utf-8")
    charts = json.loads(re.search(r'id="experiment-data">(.*?)</script>', page)[1])
    assert len(charts) == 8
    for index, chart in enumerate(charts):
        for number, _ in enumerate(chart["panels"]):
            assert f'id="chart-experiment-{index}-{number}"' in page
    for study in STUDIES:
        assert study.chart.title in page
        assert all(heading in page for heading, _ in study.tables)
    ids = re.findall(r' id="([^"]+)"', page.partition("<script>")[0])
    assert len(ids) == len(set(ids))


def test_markdown_links_pictures_that_are_there_with_the_finding_as_their_text(folder: Path) -> None:
    text = (folder / "index.md").read_text(encoding="utf-8")
    pictures = re.findall(r"!\[([^\]]*)\]\((figures/[^)]*experiment-[^)]*\.svg)\)", text)
    assert len({path for _, path in pictures}) == len(pictures) == 8
    for alt, path in pictures:
        assert len(alt) > 40
        assert "<desc>" in (folder / path).read_text(encoding="utf-8")


def test_rows_have_names_in_the_tables() -> None:
    for study in STUDIES:
        for heading, table in study.tables:
            assert table.rows, heading
            assert all(len(row) == len(table.head) for row in table.rows)


def test_an_axis_of_rows_runs_from_the_top_down() -> None:
    chart = asked.chart([asked_row("a"), asked_row("b")], ROOFS)
    axis: Axis = chart.panels[0].y
    assert axis.low > axis.high
    assert [text for _, text in axis.ticks] == ["a", "b"]
