"""README's table of fast rungs is that of the committed records."""

from __future__ import annotations

from bench.fast_table import BEGIN, END, README, RECORDS, SGEMM, SIZES, current, replaced, table
from ladder import store


def test_the_table_in_the_readme_is_that_of_the_records() -> None:
    assert README.read_text(encoding="utf-8") == current()


def test_every_rate_is_one_of_the_records_and_its_ratio_is_that_of_times_taken_in_turn() -> None:
    runs = [run for path in RECORDS for run in store.load(path).runs]
    cells = [
        cell.strip(" *") for line in table(runs)[2:-1] for cell in line.strip("|").split("|")[2:] if cell.strip(" *")
    ]
    assert len(cells) > len(SIZES)
    known = {
        f"{run.flop_per_s / 1e12:.1f} ({run.beside.time.median / run.time.median:.2f})"
        for run in runs
        if run.kind == "rung" and run.flop_per_s and run.time is not None and run.beside is not None
    }
    assert set(cells) <= known
    assert {run.beside.rung for run in runs if run.beside is not None} == {SGEMM}


def test_only_what_stands_between_the_markers_is_replaced() -> None:
    assert replaced(f"a\n{BEGIN}\nold\n{END}\nb", ["new"]) == f"a\n{BEGIN}\nnew\n{END}\nb"
