"""Flat rows: one shape for all, every number of the dataclasses, and what is unknown is None."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.results import KERNELS, make_results, make_run, peer, unhappy_runs

import ladder
from ladder.flat import COLUMNS, rows
from ladder.model import LEVELS, Activity, Timing, Watched
from ladder.store import Beside

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = make_results(1024, timed=True, extra=(*unhappy_runs(1024), peer(1024, 33e12)))


def test_every_row_has_every_column_and_only_plain_values() -> None:
    table = rows(RESULTS)
    assert len(table) == len(RESULTS.runs)
    for row in table:
        assert tuple(row) == COLUMNS
        assert all(value is None or type(value) in {str, int, float, bool} for value in row.values())
    assert json.loads(json.dumps(table, allow_nan=False)) == table
    assert len(COLUMNS) == len(set(COLUMNS))


def test_a_row_says_what_its_run_says() -> None:
    for run, row in zip(RESULTS.runs, rows(RESULTS), strict=True):
        assert (row["rung"], row["title"], row["kind"]) == (run.rung, run.title, run.kind)
        assert (row["m"], row["n"], row["k"], row["flop"]) == (1024, 1024, 1024, 2 * 1024**3)
        assert (row["device"], row["backend"]) == (RESULTS.device.name, RESULTS.device.backend)
        assert (row["skipped"], row["error"]) == (run.skipped, run.error)
        assert row["passed"] == (run.check.passed if run.check else None)
        assert row["time_s"] == (run.time.median if run.time else None)
        assert row["flop_per_s"] == run.flop_per_s
        assert row["bound_by"] == (run.placement.bound_by if run.placement else None)
        for level in LEVELS:
            quantity = run.traffic.levels.get(level) if run.traffic else None
            assert row[f"{level}_bytes"] == (quantity.bytes if quantity else None)
            assert row[f"{level}_origin"] == (quantity.origin if quantity else None)
            assert row[f"{level}_flop_per_byte"] == run.intensity.get(level)


def test_what_a_timed_row_has() -> None:
    run = replace(make_run(KERNELS[3], 1024, timed=True), sm_clock_hz=1.9e9, power_w=600.0, kernel="k")
    assert run.time is not None
    cold = Timing(median=2 * run.time.median, p20=run.time.median, p80=1.0, samples=3)
    seen = Watched(
        samples=4, sm_clock_hz=1.8e9, sm_clock_low_hz=1.7e9, sm_clock_high_hz=1.9e9, limits=("power cap", "sync boost")
    )
    run = replace(run, time=replace(run.time, method="graph", watched=seen), time_cold=cold)
    assert run.time is not None
    assert run.placement is not None
    assert run.resources is not None
    assert run.law is not None
    run = replace(run, beside=Beside(rung="cublas_sgemm", time=replace(run.time, p80=1.0, median=0.5)))
    (row,) = rows(run)
    assert (row["beside"], row["beside_time_s"], row["speedup"]) == ("cublas_sgemm", 0.5, run.speedup)
    assert (row["time_p20_s"], row["time_p80_s"], row["time_samples"]) == (
        run.time.p20,
        run.time.p80,
        run.time.samples,
    )
    assert (row["bound_flop_per_s"], row["share_of_bound"]) == (run.placement.roof_flop_per_s, run.placement.fraction)
    for level, bound in run.placement.bounds_flop_per_s.items():
        assert row[f"{level}_bound_flop_per_s"] == bound
    assert (row["registers"], row["smem_bytes"]) == (run.resources.registers, run.resources.smem_bytes)
    assert (row["spill_bytes"], row["occupancy"]) == (run.resources.spill_bytes, run.resources.occupancy)
    assert row["law"] == run.law.name
    for level, predicted in run.law.predicted.items():
        assert row[f"law_{level}_flop_per_byte"] == predicted
    assert (row["sm_clock_hz"], row["power_w"]) == (1.9e9, 600.0)
    assert (row["time_method"], row["kernel"]) == ("graph", "k")
    assert (row["time_cold_s"], row["cold_over_warm"]) == (2 * run.time.median, 2.0)
    assert (row["sm_clock_low_hz"], row["sm_clock_high_hz"]) == (1.7e9, 1.9e9)
    assert row["clock_limits"] == "power cap, sync boost"
    assert row["wavefronts_per_request"] == run.traffic.wavefronts_per_request if run.traffic else None
    assert (row["device"], row["backend"]) == (None, None)


@pytest.mark.parametrize("kind", [tuple, list, iter])
def test_runs_in_any_collection(kind: type) -> None:
    assert rows(kind(RESULTS.runs[:3])) == [row | {"device": None, "backend": None} for row in rows(RESULTS)[:3]]
    assert rows(kind(())) == []


def test_through_a_file(tmp_path: Path) -> None:
    ladder.save(RESULTS, str(tmp_path / "r.json"))
    assert ladder.rows(ladder.load(str(tmp_path / "r.json"))) == rows(RESULTS)
    assert ladder.load(tmp_path / "r.json") == RESULTS


def test_the_page_has_every_column_and_every_name() -> None:
    page = (DOCS / "python.md").read_text(encoding="utf-8")
    table = page[page.index("| columns | meaning |") :]
    documented = set()
    for name in re.findall(r"`(\w+)`", "\n".join(line.split("|")[1] for line in table.splitlines())):
        expanded = [name.replace("LEVEL", level) for level in (*LEVELS, "fp32", "tf32")] if "LEVEL" in name else [name]
        documented |= set(expanded) & set(COLUMNS)
        assert set(expanded) & set(COLUMNS), name
    assert documented == set(COLUMNS)
    for name in set(ladder.__all__) - {"__version__"}:
        assert re.search(rf"`{name}[`(]", page), name


def test_what_warps_did_is_in_the_row() -> None:
    seen = Activity(
        origin="counted", fadd=1, fmul=2, ffma=3, tensor_instructions=4, occupancy=0.5, busy=0.75, issue_active=0.25,
        stalls={"wait": 0.2, "barrier": 0.4},
    )  # fmt: skip
    (row,) = rows(replace(make_run(KERNELS[3]), activity=seen))
    assert (row["fp32_flop"], row["tensor_instructions"]) == (9, 4)
    assert (row["occupancy_achieved"], row["sm_busy"], row["issue_active"]) == (0.5, 0.75, 0.25)
    assert row["leading_stall"] == "barrier"
    (row,) = rows(replace(make_run(KERNELS[3]), activity=Activity(origin="emulated")))
    assert row["leading_stall"] is None
