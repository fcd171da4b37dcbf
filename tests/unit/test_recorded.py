"""Counts of rungs that the emulator cannot run: from proved records of the file as it is, and given as recorded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.command import ladder
from helpers.results import make_results

from ladder.backends import open_backend
from ladder.catalog import find, source_sha256
from ladder.cli.tables import places
from ladder.climb import climb
from ladder.errors import StoreError
from ladder.model import Check, Quantity, Rung, Shape, Traffic
from ladder.profiles import load_profile
from ladder.recorded import counts_from, recorded_traffic
from ladder.report.view import sections
from ladder.store import Results, Run, load, save

(BEYOND,) = find(["tma_pipeline"])
(PORTABLE,) = find(["warp_tile"])
H200 = load_profile("h200")
CUBE = Shape(m=512, n=512, k=512)
RIGHT = Check(passed=True, exact_integers=True, worst_error_over_bound=0.1)


def run(of: Rung = BEYOND, *, l1_bytes: int = 1000, shape: Shape = CUBE, **changes: Any) -> Run:
    traffic = Traffic(levels={"l1": Quantity(bytes=l1_bytes, origin="counted")}, wavefronts_ld=7, requests_ld=2)
    given = Run(
        rung=of.name, title=of.title, kind="rung", shape=shape, source_sha256=source_sha256(of), check=RIGHT,
        traffic=traffic,
    )  # fmt: skip
    return replace(given, **changes)


def record(*runs: Run) -> Results:
    return replace(make_results(512, timed=True), runs=runs)


def test_proved_counts_of_the_file_as_it_is_become_recorded_ones() -> None:
    made = counts_from([record(run())])
    (row,) = made.runs
    assert row.traffic is not None
    assert dict(row.traffic.levels) == {"l1": Quantity(bytes=1000, origin="recorded")}
    assert (row.traffic.wavefronts_ld, row.traffic.requests_ld) == (7, 2)
    assert (row.rung, row.shape, row.source_sha256) == (BEYOND.name, CUBE, source_sha256(BEYOND))
    assert (row.check, row.time, row.placement) == (None, None, None)


@pytest.mark.parametrize(
    "other",
    [
        run(PORTABLE),
        run(check=None),
        run(check=replace(RIGHT, passed=False, failure="wrong")),
        run(traffic=None),
        run(source_sha256="0" * 64),
        replace(run(), rung="nobody"),
    ],
    ids=["the emulator runs it", "not proved", "wrong", "not counted", "another file", "no such rung"],
)
def test_nothing_else_counts(other: Run) -> None:
    assert counts_from([record(other)]).runs == ()


def test_a_later_record_replaces_and_the_order_is_that_of_sizes() -> None:
    small = Shape(m=64, n=64, k=64)
    made = counts_from([record(run(), run(shape=small)), record(run(l1_bytes=5))])
    assert [row.shape for row in made.runs] == [small, CUBE]
    assert [row.traffic.levels["l1"].bytes for row in made.runs if row.traffic] == [1000, 5]
    with pytest.raises(StoreError, match="no record to take counts from"):
        counts_from([])


def test_what_is_packaged_is_of_this_card_file_and_shape() -> None:
    found = recorded_traffic(BEYOND, CUBE, "NVIDIA H200")
    assert found is not None
    assert {quantity.origin for quantity in found.levels.values()} == {"recorded"}
    assert recorded_traffic(BEYOND, Shape(m=35, n=79, k=19), "NVIDIA H200") is None
    assert recorded_traffic(BEYOND, CUBE, "Tesla T4") is None
    assert recorded_traffic(replace(BEYOND, source=BEYOND.source + "\n"), CUBE, "NVIDIA H200") is None


def climbed(shape: Shape = CUBE, *, profile: str = "h200", count: bool = True) -> Run:
    chosen = load_profile(profile)
    return climb(BEYOND, shape, open_backend("emulated", chosen), chosen.roofs, count=count)


def test_a_row_that_the_emulator_skips_has_the_cards_counts_and_a_place() -> None:
    row = climbed()
    assert row.skipped is not None
    assert row.traffic == recorded_traffic(BEYOND, CUBE, "NVIDIA H200")
    assert row.placement is not None
    assert row.placement.bound_by == "fp32"
    assert row.law is not None
    assert (row.check, row.time, row.failed) == (None, None, False)
    for other in (
        climbed(Shape(m=8, n=8, k=8)),
        climbed(Shape(m=512, n=510, k=512)),
        climbed(profile="t4"),
        climbed(count=False),
    ):
        assert other.skipped is not None
        assert (other.traffic, other.placement) == (None, None)


def test_the_report_and_the_table_say_that_it_is_recorded(tmp_path: Path) -> None:
    results = Results(
        created="2026-11-30T00:00:00Z", command="", device=replace(H200.device, backend="emulated"), roofs=H200.roofs,
        runs=(climbed(),),
    )  # fmt: skip
    save(results, tmp_path / "r.json")
    assert load(tmp_path / "r.json") == results
    ((row,),) = [section.rows for section in sections(results)]
    assert (row.status, row.outcome) == ("recorded", "not run: counts of the recorded card")
    assert row.reading.binds.startswith("Not run here: the emulator runs PTX up to sm_80 features")
    assert "The FP32 pipe binds at 65.5 TFLOP/s" in row.reading.binds
    shown = places(results.runs, results.roofs)
    assert next(column.cells for column in shown.columns if column.head == "check") == ("recorded",)
    assert shown.caption.endswith("Recorded: not run here, the counts are the card's.")
    assert "Recorded" not in places([replace(climbed(), traffic=None)], results.roofs).caption


def test_the_command_names_what_binds_it(tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    rungs = (BEYOND.name, "tile_product_64")
    answer = ladder("run", *rungs, "--backend", "emulated", "--shape", "512x512x512", "--json", out)
    assert answer.returncode == 0, answer.stderr
    assert "of compute capability 9.0; by its counts on the card bound by fp32" in " ".join(answer.stdout.split())
    origins = {row["rung"]: row["traffic"]["l1"]["origin"] for row in json.loads(out.read_text())["runs"]}
    assert origins == {BEYOND.name: "recorded", "tile_product_64": "emulated"}


def test_explain_tells_the_cards_counts_and_why_they_are_not_the_emulators() -> None:
    answer = ladder("explain", BEYOND.name, "--shape", "512x512x512")
    assert answer.returncode == 0, answer.stderr
    said = " ".join(answer.stdout.split())
    assert "Counted at 512x512x512 by NVIDIA H200, in its record; placed under its recorded roofs." in said
    assert "Not run the emulator runs PTX up to sm_80 features; tma needs a GPU" in said
    assert "Emulated" not in said
    assert "Skipped" not in said
    assert "Skipped" in ladder("explain", BEYOND.name, "--shape", "8x8x8").stdout
