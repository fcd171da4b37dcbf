"""Results as JSON: nothing is lost on the way, a write is whole or not at all, a wrong file says what is wrong."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.results import KERNELS, make_results, make_run, peer, unhappy_runs

from ladder import store
from ladder.errors import StoreError
from ladder.model import Shape, Timing, Watched
from ladder.store import SCHEMA, Beside, load, save, to_json


@pytest.mark.parametrize("timed", [False, True], ids=["emulated", "timed"])
def test_a_round_trip_loses_nothing(timed: bool, tmp_path: Path) -> None:
    results = make_results(1024, timed=timed, extra=(*unhappy_runs(1024), peer(1024, 33e12)))
    path = tmp_path / "deep" / "folder" / "r.json"
    save(results, path)
    assert load(path) == results


def test_what_few_rows_have_is_kept_and_absent_elsewhere(tmp_path: Path) -> None:
    plain = make_run(KERNELS[3], 1024, timed=True)
    assert plain.time is not None
    slower = Timing(median=2 * plain.time.median, p20=plain.time.median, p80=3 * plain.time.median, samples=9)
    beside = Beside(rung="cublas_sgemm", time=slower)
    full = replace(plain, params={"BM": 64}, beside=beside, sm_clock_hz=1.755e9, power_w=666.0)
    assert full.speedup == 2
    assert plain.speedup is None
    results = replace(make_results(1024, timed=True), runs=(full, make_run(KERNELS[4], 1024)))
    save(results, tmp_path / "r.json")
    assert load(tmp_path / "r.json") == results
    first, second = json.loads((tmp_path / "r.json").read_text())["runs"]
    assert first["beside"]["rung"] == "cublas_sgemm"
    assert first["beside"]["speedup"] == 2
    assert first["beside"]["flop_per_s"] == full.flop_per_s / 2
    assert set(first) - set(second) == {"params", "beside", "sm_clock_hz", "power_w"}


def test_the_schema_is_the_documented_one(tmp_path: Path) -> None:
    data = to_json(make_results(1024, timed=True))
    assert set(data) == {"schema", "created", "command", "device", "ceilings", "runs"}
    assert data["schema"] == SCHEMA
    assert data["device"]["compute_capability"] == "9.0"
    assert data["ceilings"]["dram"] == {"bytes_per_s": 4.12e12, "origin": "measured", "note": "copy, float4"}
    run = next(run for run in data["runs"] if run["rung"] == "tiled_32")
    assert {"asked", "l1", "l2", "dram", "shared", "sm"} == set(run["traffic"]) == set(run["intensity"])
    assert {"wavefronts_ld", "wavefronts_st", "requests_ld", "requests_st", "origin"} <= set(run["traffic"]["shared"])
    assert run["placement"]["bound_by"] == "shared"
    assert set(run["law"]) == {"name", "predicted"}
    assert set(run["time_s"]) == {"median", "p20", "p80", "samples"}
    assert run["time_cold_s"] is None


def test_how_a_time_was_taken_is_kept(tmp_path: Path) -> None:
    seen = Watched(
        samples=7, sm_clock_hz=1.75e9, sm_clock_low_hz=1.7e9, sm_clock_high_hz=1.8e9, power_w=650.0,
        power_high_w=690.0, limits=("power cap",),
    )  # fmt: skip
    run = make_run(KERNELS[3], 1024, timed=True)
    assert run.time is not None
    time = replace(run.time, method="graph", kept=(run.time.median, run.time.p80), watched=seen, late=2)
    cold = Timing(median=2e-3, p20=1e-3, p80=3e-3, samples=4, method="launches")
    results = replace(make_results(1024), runs=(replace(run, time=time, time_cold=cold, kernel="a + b"),))
    path = tmp_path / "r.json"
    save(results, path)
    assert load(path) == results
    assert f'"kept": [{run.time.median}, {run.time.p80}]' in path.read_text()
    (row,) = json.loads(path.read_text())["runs"]
    assert row["time_s"]["watched"]["limits"] == ["power cap"]
    assert row["time_s"]["kept"] == [run.time.median, run.time.p80]
    assert row["time_s"]["late"] == 2
    assert row["time_cold_s"] == {"median": 2e-3, "p20": 1e-3, "p80": 3e-3, "samples": 4, "method": "launches"}


def test_a_record_from_before_all_that_can_be_read(tmp_path: Path) -> None:
    """And one of a version that watches more than this one knows."""
    data = to_json(make_results(1024, timed=True))
    for row in data["runs"]:
        del row["time_cold_s"]
    data["runs"][0]["time_s"]["watched"] = {"samples": 3, "temperature_c": 60}
    path = tmp_path / "r.json"
    path.write_text(json.dumps(data))
    runs = load(path).runs
    assert {run.time_cold for run in runs} == {None}
    assert runs[0].time is not None
    assert runs[0].time.watched == Watched(samples=3)
    assert runs[1].time is not None
    assert (runs[1].time.method, runs[1].time.kept, runs[1].time.watched) == (None, (), None)


def test_the_file_is_plain_json_without_nan(tmp_path: Path) -> None:
    save(make_results(extra=unhappy_runs()), tmp_path / "r.json")

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    assert json.loads((tmp_path / "r.json").read_text(), parse_constant=refuse)["schema"] == SCHEMA


def test_a_rung_run_again_replaces_its_row_and_a_new_shape_adds_one() -> None:
    results = make_results(256)
    again = replace(make_run(KERNELS[0], 256), title="again")
    assert len(results.with_run(again).runs) == len(results.runs)
    assert results.with_run(again).runs[-1].title == "again"
    assert len(results.with_run(make_run(KERNELS[0], 512)).runs) == len(results.runs) + 1


def test_derived_numbers() -> None:
    run = make_run(KERNELS[3], 1024, timed=True)
    assert run.flop_per_s == pytest.approx(8.9e12)
    assert run.intensity["l2"] == pytest.approx(8.0, rel=1e-6)
    empty = replace(run, shape=Shape(m=4, n=4, k=0))
    assert empty.flop_per_s is None
    assert not run.failed
    assert [bad.failed for bad in unhappy_runs()] == [True, False, True]


def test_a_failed_write_leaves_the_old_file_and_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.json"
    save(make_results(256), path)
    before = path.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match=r"cannot write .*No space left on device.*another path"):
        save(make_results(512), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]


def test_a_folder_that_is_a_file_is_an_error_with_a_fix(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="Choose another path"):
        save(make_results(256), tmp_path / "file" / "r.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "found 'list'"),
        ('{"schema": "ladder/9"}', "found 'ladder/9'"),
        ('{"schema": "ladder/1"}', "damaged ladder/1 file: KeyError: 'device'"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(StoreError) as caught:
        load(path)
    assert message in str(caught.value)
    assert "r.json" in str(caught.value)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("runs", 0, "shape", "m"), -1),
        (("runs", 0, "shape", "m"), "x"),
        (("runs", 0, "traffic", "l1", "bytes"), -5),
        (("runs", 0, "traffic", "l1", "origin"), "guessed"),
        (("device", "compute_capability"), "nine"),
        (("ceilings", "dram", "bytes_per_s"), 0),
    ],
)
def test_a_damaged_value_is_refused(where: tuple[str | int, ...], value: object, tmp_path: Path) -> None:
    data = to_json(make_results(256))
    node = data
    for key in where[:-1]:
        node = node[key]  # type: ignore[index]
    node[where[-1]] = value  # type: ignore[index]
    path = tmp_path / "r.json"
    path.write_text(json.dumps(data))
    with pytest.raises(StoreError, match=r"r\.json"):
        load(path)


def test_a_missing_file_is_an_error_of_the_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot read"):
        store.load(tmp_path / "none.json")


def watched(clock_hz: float | None, *limits: str) -> Watched:
    return Watched(
        samples=1, sm_clock_hz=clock_hz, sm_clock_low_hz=clock_hz, sm_clock_high_hz=clock_hz, limits=tuple(limits)
    )


@pytest.mark.parametrize(
    ("warm", "cold", "ratio"),
    [
        (watched(1.98e9), watched(1.965e9), 2.0),
        (watched(None), watched(1.98e9), 2.0),
        (watched(1.98e9), watched(1.6e9), None),
        (watched(1.98e9, "power cap"), watched(1.98e9), None),
        (watched(1.98e9), watched(1.98e9, "power cap"), None),
    ],
)
def test_a_cold_time_at_another_clock_tells_nothing_of_the_cache(
    warm: Watched, cold: Watched, ratio: float | None
) -> None:
    run = make_results(64, timed=True).runs[0]
    assert run.time is not None
    slower = replace(run.time, median=2 * run.time.median, p80=3 * run.time.median, kept=(), watched=cold)
    both = replace(run, time=replace(run.time, watched=warm), time_cold=slower)
    assert both.cold_over_warm == ratio
