"""What a rung's page says of the records: rates, shares of a library, counters, and whose text was measured."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.results import KERNELS, make_results, make_run, peer
from helpers.tuned import entry

from bench.rung_pages import page
from bench.rung_pages.measured import measured
from bench.rung_pages.records import Record, fastest, load_records, load_tunings, rows_of, showcase
from bench.rung_pages.tables import cells
from ladder import store
from ladder.catalog import code_sha256, find
from ladder.errors import StoreError
from ladder.model import Shape, Timing
from ladder.store import Beside, Results, Run
from ladder.tuned import merge_tuned

(TILE,) = find(["register_tile"])
KERNEL = next(kernel for kernel in KERNELS if kernel.name == TILE.name)
DIGEST = hashlib.sha256(TILE.source.encode()).hexdigest()
CARD = "NVIDIA H200"


def run(n: int = 1024, **changes: Any) -> Run:
    """A timed row of the register tile as its file now stands."""
    return replace(make_run(KERNEL, n, timed=True), **{"source_sha256": DIGEST, **changes})


def records(folder: Path, *sessions: Results) -> tuple[Record, ...]:
    for index, results in enumerate(sessions):
        store.save(results, folder / "card" / f"{index}.json")
    return load_records(folder)


def session(*runs: Run, created: str = "2025-01-02T03:04:05Z") -> Results:
    return replace(make_results(64, timed=True, kernels=()), runs=runs, created=created)


def lines(folder: Path, *sessions: Results) -> list[str]:
    return measured([TILE], records(folder, *sessions), load_tunings(folder), folder=folder)


def row(table: list[str], shape: str, which: int = 0) -> dict[str, str]:
    """The cells of ``shape`` in the table number ``which``, by heading."""
    starts = [i for i, line in enumerate(table) if line.startswith("|---")]
    head = table[starts[which] - 1]
    body = next(line for line in table[starts[which] :] if f"| {shape} |" in line)
    split = [[cell.strip() for cell in line.strip("|").split("|")] for line in (head, body)]
    return dict(zip(*split, strict=True))


def test_rates_and_counters_are_the_records(tmp_path: Path) -> None:
    one = run()
    told = lines(tmp_path, session(one))
    assert one.time is not None
    assert one.flop_per_s is not None
    assert one.placement is not None
    rates = row(told, "1024x1024x1024")
    assert rates["TFLOP/s"] == f"{one.flop_per_s / 1e12:.1f}"
    assert rates["time"] == f"{one.time.median * 1e6:.1f} µs"
    assert rates["of roof"] == f"{100 * (one.placement.fraction or 0):.0f} %"
    assert set(rates) == {"M x N x K", "check", "time", "TFLOP/s", "bound by", "roof, TFLOP/s", "of roof"}
    counters = row(told, "1024x1024x1024", 1)
    assert counters["shared"] == f"{one.intensity['shared']:.2f}"
    assert counters["wavefronts a request"] == f"{one.traffic.wavefronts_per_request:.2f}"  # type: ignore[union-attr]


def test_origin_card_and_file_are_named(tmp_path: Path) -> None:
    (first, *_) = lines(tmp_path, session(run()))
    assert first.startswith("NVIDIA H200, driver 580.159.04, NVRTC 13.0, 2025-01-02: [0.json](card/0.json). Times are")
    assert "bytes at L1, L2, DRAM, shared and SM are counted, read from this GPU's hardware counters" in first
    assert "bytes at asked are emulated" in first


def test_what_binds_it_is_told_at_the_largest_cube(tmp_path: Path) -> None:
    flat = run(shape=Shape(m=65536, n=65536, k=64))
    told = lines(tmp_path, session(run(1024), run(4096), flat))
    (about,) = (line for line in told if line.startswith("- `register_tile` at "))
    assert about.startswith("- `register_tile` at 4096x4096x4096: ")
    assert "binds at" in about
    assert "40 registers a thread, 8 KiB of shared memory, no spills, occupancy 100 %" in about


def test_a_library_in_the_same_record_gives_a_share(tmp_path: Path) -> None:
    one = run()
    told = lines(tmp_path, session(one, peer(1024, 2 * (one.flop_per_s or 0)), run(2048)))
    assert row(told, "1024x1024x1024")["of cuBLAS SGEMM"] == "0.50"
    assert row(told, "2048x2048x2048")["of cuBLAS SGEMM"] == ""


def test_a_library_of_another_session_is_not_compared(tmp_path: Path) -> None:
    other = session(peer(1024, 1e12), created="2024-01-01T00:00:00Z")
    assert "of cuBLAS SGEMM" not in row(lines(tmp_path, session(run()), other), "1024x1024x1024")


def test_what_was_timed_in_turn_goes_before_a_row_of_its_own(tmp_path: Path) -> None:
    one = run()
    assert one.time is not None
    slower = Timing(median=1.25 * one.time.median, p20=one.time.median, p80=2 * one.time.median, samples=9)
    beside = replace(one, beside=Beside(rung="cublas_sgemm", time=slower), sm_clock_hz=1.755e9, power_w=666.0)
    rates = row(lines(tmp_path, session(beside, peer(1024, 10 * (one.flop_per_s or 0)))), "1024x1024x1024")
    assert rates["of cuBLAS SGEMM"] == "1.25"
    assert rates["SM clock, GHz"] == "1.75"
    assert rates["power, W"] == "666"


def test_the_newest_row_of_the_present_text_is_shown(tmp_path: Path) -> None:
    old, new = run(), replace(run(), time=Timing(median=1e-3, p20=1e-3, p80=1e-3, samples=3))
    earlier = replace(run(), source_sha256="0" * 64, time=Timing(median=5e-3, p20=5e-3, p80=5e-3, samples=3))
    told = lines(
        tmp_path,
        session(old, created="2025-01-01T00:00:00Z"),
        session(new, created="2025-02-01T00:00:00Z"),
        session(earlier, created="2025-03-01T00:00:00Z"),
    )
    assert row(told, "1024x1024x1024")["time"] == "1.00 ms"
    assert not any("asterisk" in line for line in told)


def test_rows_of_an_earlier_text_are_marked(tmp_path: Path) -> None:
    told = lines(tmp_path, session(run(1024), run(2048, source_sha256="0" * 64)))
    assert "The file's text has changed since the rows marked with an asterisk were measured." in told
    assert row(told, r"2048x2048x2048\*")["check"] == "right"
    assert row(told, "1024x1024x1024")["check"] == "right"


def test_rows_of_other_parameters_name_them(tmp_path: Path) -> None:
    told = lines(tmp_path, session(run(1024), run(2048, params={"BK": 16, "TM": 4})))
    assert row(told, "2048x2048x2048")["parameters"] == "BK = 16, TM = 4"
    assert row(told, "1024x1024x1024")["parameters"] == ""


def test_without_a_record_nothing_is_claimed(tmp_path: Path) -> None:
    nothing = ["No committed record has it yet, so nothing is claimed here."]
    assert lines(tmp_path) == nothing
    assert lines(tmp_path, session(make_run(KERNELS[0], 1024, timed=True))) == nothing
    assert lines(tmp_path, session(run(skipped="needs compute capability 9.0", time=None, traffic=None))) == nothing


def test_what_a_tuner_chose_for_this_code_is_shown(tmp_path: Path) -> None:
    mine = entry(4096, rung=TILE.name, code_sha256=code_sha256(TILE))
    (tmp_path / "card").mkdir()
    merge_tuned(tmp_path / "card" / "tuned.json", [mine, entry(1024, rung=TILE.name), entry(2048)])
    told = lines(tmp_path, session(run()))
    tuned = row(told, "4096x4096x4096", 2)
    assert tuned == {
        "M x N x K": "4096x4096x4096",
        "parameters": "BK = 16, STAGES = 4",
        "TFLOP/s": "56.0",
        "of the declared": "1.120",
        "of cuBLAS SGEMM": "1.09",
    }
    assert len([line for line in told if "STAGES = 4" in line]) == 1, "an entry of another code or rung is not shown"


def test_records_are_of_real_gpus_and_of_the_schema(tmp_path: Path) -> None:
    (tmp_path / "card").mkdir()
    (tmp_path / "card" / "other.json").write_text(json.dumps({"schema": "something/1"}), encoding="utf-8")
    store.save(make_results(64), tmp_path / "card" / "emulated.json")
    assert records(tmp_path) == ()
    (tmp_path / "card" / "broken.json").write_text(json.dumps({"schema": "ladder/1"}), encoding="utf-8")
    with pytest.raises(StoreError, match="damaged"):
        load_records(tmp_path)


def test_the_index_shows_the_cube_that_most_rungs_have(tmp_path: Path) -> None:
    (other,) = find(["padded"])
    second = next(kernel for kernel in KERNELS if kernel.name == other.name)
    found = records(
        tmp_path,
        session(run(1024), run(2048), run(4096), *(make_run(second, n, timed=True) for n in (1024, 2048))),
    )
    assert showcase([TILE, other], found) == (CARD, Shape(m=2048, n=2048, k=2048))
    assert showcase([TILE], found) == (CARD, Shape(m=4096, n=4096, k=4096))
    assert showcase([TILE], ()) is None
    best = fastest([TILE, other], found, CARD, Shape(m=2048, n=2048, k=2048))
    assert best is not None
    assert best.run.rung == max((KERNEL, second), key=lambda kernel: kernel.rate_flop_per_s or 0).name
    assert [one.current for one in rows_of(other, found, CARD)] == [False, False]


def test_tables_leave_out_what_nobody_fills() -> None:
    assert list(cells(["a", "b", "c"], [["1", "", "3"], ["4", "", ""]])) == [
        "| a | c |",
        "|---|---|",
        "| 1 | 3 |",
        "| 4 |  |",
    ]


def test_a_sweeps_title_lists_what_differs() -> None:
    title = {file.stem: file.title for file in page.files()}
    assert title["03_tiled"] == "Shared-memory tile, T = 16, 32, 64"
    assert title["07_register_tile"] == TILE.title


def test_a_page_without_its_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="make pages"):
        page.split("# Rung 01")


def gained(folder: Path, *ratios: tuple[int, float]) -> str:
    """The line about the rung before, with rates of it that are ``ratio`` times slower at each N."""
    (before,) = find(["register_tile_1d"])
    digest = hashlib.sha256(before.source.encode()).hexdigest()
    runs = []
    for n, ratio in ratios:
        mine = run(n)
        assert mine.time is not None
        slower = ratio * mine.time.median
        time = replace(mine.time, median=slower, p20=slower, p80=slower, kept=())
        runs += [mine, replace(mine, rung=before.name, source_sha256=digest, time=time)]
    told = measured([TILE], records(folder, session(*runs)), (), folder=folder, before=[before])
    return next(line for line in told if "over the rung before it" in line)


def test_a_rung_is_held_against_the_one_before_it_size_by_size(tmp_path: Path) -> None:
    text = gained(tmp_path, (4096, 1.5), (1024, 0.75))
    assert "0.75 at N = 1024 (`register_tile_1d`) and 1.50 at N = 4096 (`register_tile_1d`)." in text
    assert "does not pay" not in text


def test_a_rung_that_is_nowhere_faster_is_said_not_to_pay(tmp_path: Path) -> None:
    assert "does not pay by itself" in gained(tmp_path, (1024, 0.98), (4096, 1.0))


def test_a_counted_row_goes_before_a_newer_one_beside_a_peer_which_lends_its_ratio(tmp_path: Path) -> None:
    counted = run()
    assert counted.time is not None
    slower = Timing(median=1.25 * counted.time.median, p20=counted.time.median, p80=2 * counted.time.median, samples=9)
    timed = replace(counted, traffic=None, placement=None, beside=Beside(rung="cublas_sgemm", time=slower))
    later = session(timed, peer(1024, 1e12), created="2025-02-02T03:04:05Z")
    told = row(lines(tmp_path, session(counted), later), "1024x1024x1024")
    assert told["bound by"]
    assert told["of cublas_sgemm"] == "1.25"
