"""What the experiments are made of: slopes, banks, parts of products, rows and their file. Runs no kernel."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.experiment_rows import PROFILE, asked_row, edge_run, edge_runs, session, timing
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ladder import experiments, laws
from ladder.catalog import find
from ladder.counters.ncu import Row
from ladder.errors import BackendError, StoreError
from ladder.experiments import counting, plan, run
from ladder.experiments.fits import deviation, edge_of, family_of, fits, law_at_l1
from ladder.experiments.intervals import exponent, proportion
from ladder.experiments.padding import predicted
from ladder.memory import wavefronts
from ladder.model import Quantity, Shape
from ladder.workers import Finished

BIG = Shape(m=8192, n=8192, k=8192)


# ---- slopes


def test_points_on_a_line_have_no_interval() -> None:
    assert proportion((8, 16, 32), (2, 4, 8)).value == 0.25
    assert proportion((8, 16, 32), (2, 4, 8)).half == 0
    found = exponent((8, 16, 32, 64), (3, 6, 12, 24))
    assert (found.value, found.half) == (pytest.approx(1), pytest.approx(0, abs=1e-12))
    flat = exponent((8, 16, 32, 64), (3, 3, 3, 3))
    assert (flat.value, flat.half) == (0, 0)


def test_the_interval_of_an_exponent_is_the_textbooks() -> None:
    x, y = np.array([4.0, 8, 16, 32]), np.array([1.1, 1.9, 4.3, 7.7])
    found = exponent(x, y)
    line = stats.linregress(np.log(x), np.log(y))
    assert found.value == pytest.approx(line.slope)
    assert found.high - found.value == pytest.approx(4.302653 * line.stderr, rel=1e-6)  # t with 2 degrees of freedom


@settings(max_examples=20)
@given(st.integers(0, 2**31))
def test_a_line_through_the_origin_is_found_within_its_interval_most_of_the_time(seed: int) -> None:
    random = np.random.default_rng(seed)
    x = np.array([8.0, 16, 32, 64])
    inside = 0
    for _ in range(200):
        found = proportion(x, 0.25 * x + random.normal(0, 0.1, 4) + 0)
        inside += found.low <= 0.25 <= found.high
    assert 170 <= inside <= 200  # 95 % of 200, and seven standard deviations below


@pytest.mark.parametrize(("x", "y"), [((1,), (1,)), ((1, 2), (1,)), ((1, 2), (1, 0)), ((1, 2), (1, np.inf))])
def test_what_has_no_slope_is_refused(x, y) -> None:
    with pytest.raises(ValueError, match=r"slope|two points"):
        proportion(x, y)
    with pytest.raises(ValueError, match="three points"):
        exponent((1, 2), (1, 2))


# ---- the law


def test_half_a_sector_halves_the_law_and_whole_ones_leave_it() -> None:
    assert [laws.sector_share(t) for t in (1, 2, 4, 8, 12, 16, 64)] == [1 / 8, 1 / 4, 1 / 2, 1, 12 / 16, 1, 1]
    row = edge_run("tile_product", 4, BIG)
    assert law_at_l1(row) == pytest.approx(4 / 12)
    assert deviation(row) == pytest.approx(0, abs=1e-6)
    assert (edge_of(row), family_of(row)) == (4, "tile_product")


def test_the_fit_finds_the_law_and_divides_out_the_store_of_c() -> None:
    found = {(each.kernel, each.level): each for each in fits(edge_runs(Shape(m=256, n=256, k=256)))}
    assert found["tile_product", "l1"].slope.value == pytest.approx(1 / 6, rel=1e-5)
    assert found["tiled", "l1"].slope.value == pytest.approx(1 / 4, rel=1e-5)
    assert found["tiled", "l1"].exponent.value == pytest.approx(1, rel=1e-5)
    assert found["tiled", "l1"].law == 1 / 4
    assert found["tiled", "dram"].exponent.value == pytest.approx(0, abs=1e-9)
    assert found["tiled", "l1"].points == 4  # T = 4 has parts of sectors
    assert ("tiled", "l2") not in found  # nobody counted it


def test_two_edges_are_no_fit() -> None:
    assert fits([edge_run("tiled", 8, BIG), edge_run("tiled", 16, BIG)]) == ()


# ---- banks


@pytest.mark.parametrize(
    ("pad", "width", "column"), [(0, 16, 32), (1, 4, 1), (2, 8, 2), (4, 16, 4), (8, 16, 8), (32, 16, 32)]
)
def test_the_arithmetic_of_the_banks(pad: int, width: int, column: int) -> None:
    found = predicted(32 + pad)
    assert (found.width_bytes, found.column) == (width, column)


def test_padding_makes_what_rungs_four_and_five_are_known_to_take() -> None:
    # Per warp and pair of tiles: 8 wide loads of one tile, 8 or 32 of the other, two stores.
    assert (predicted(32).requests, predicted(32).wavefronts) == (8 + 8 + 2, 8 * 2 + 8 * 32 + 1 + 32)
    assert (predicted(33).requests, predicted(33).wavefronts) == (8 + 32 + 2, 8 * 2 + 32 * 1 + 1 + 1)


@given(st.integers(32, 80))
def test_an_odd_pitch_has_no_conflict_and_an_even_one_has(pitch: int) -> None:
    odd = pitch % 2 == 1
    assert (wavefronts([4 * pitch * lane for lane in range(32)], 4) == 1) == odd
    assert (predicted(pitch).column == 1) == odd


# ---- what is run


def test_edges_are_the_catalogues_kernels_with_another_tile() -> None:
    jobs = plan.edges([Shape(m=64, n=64, k=64)], "emulated")
    assert [job.rung.name for job in jobs[:5]] == [f"tile_product_{edge}" for edge in plan.EDGES]
    assert {job.rung.source for job in jobs} == {rung.source for rung in find(["tile_product", "tiled"])}
    assert [job.rung.threads for job in jobs[5:]] == [16, 64, 256, 1024, 1024]
    assert [job.rung.tile for job in jobs[5:]] == [(edge, edge) for edge in plan.EDGES]


def test_the_ladders_own_sweep_stays() -> None:
    assert [rung.params["T"] for rung in find(["tiled"])] == [16, 32, 64]


def test_padding_is_rung_four_and_rung_five() -> None:
    jobs = plan.padded(Shape(m=64, n=64, k=64))
    conflict, *others = jobs
    assert conflict.rung == find(["tiled_conflict"])[0]
    assert [job.rung.params["PAD"] for job in others] == [1, 2, 3, 4, 5, 6, 7, 8, 32]
    assert {job.rung.source for job in others} == {find(["padded"])[0].source}


@pytest.mark.parametrize("kernel", ["tile_product", "tiled"])
@pytest.mark.parametrize("edge", plan.EDGES)
def test_a_part_is_small_enough_and_whole_tiles(kernel: str, edge: int) -> None:
    rung = plan.with_edge(kernel, edge)
    part = plan.part(rung, BIG)
    assert not plan.too_much(rung, part)
    assert part.n == 8192
    assert part.m % edge == part.k % edge == 0
    whole = part.k if rung.grid_z_tile is None else part.m
    assert whole == 8192


def test_what_is_small_stays_whole() -> None:
    shape = Shape(m=1024, n=1024, k=1024)
    assert all(job.shape == shape for job in plan.edges([shape], "cuda"))


def test_asked_has_every_rung_that_runs_and_every_stream() -> None:
    device = replace(PROFILE.device, backend="emulated")
    jobs = plan.asked(Shape(m=256, n=256, k=256), device)
    streams = [job for job in jobs if isinstance(job, plan.Streamed)]
    assert len(streams) == 8
    assert {"naive", "tiled_32", "tile_product_16"} <= {job.rung.name for job in jobs if isinstance(job, plan.Product)}
    assert all(4 * sum(job.stream.sizes(job.n).values()) <= 2**20 for job in streams)
    on_gpu = plan.asked(Shape(m=256, n=256, k=256), replace(device, backend="cuda"))
    for job in on_gpu:
        if isinstance(job, plan.Streamed):
            assert 4 * sum(job.stream.sizes(job.n).values()) >= 4 * device.l2_bytes


# ---- counters


def row(kernel: str) -> Row:
    return Row(kernel=kernel, values={})


def test_counters_are_given_to_jobs_in_their_order() -> None:
    shape = Shape(m=64, n=64, k=64)
    jobs = [*plan.edges([shape], "cuda")[:1], *plan.asked(shape, PROFILE.device)[:1]]
    report = [row("void tile_product<4, 16>(float const*)"), row("void copy<256>(float const*)")]
    assert counting.in_order(report, jobs) == [[report[0]], [report[1]]]
    with pytest.raises(BackendError, match="do not agree: it reports void copy"):
        counting.in_order(report[::-1], jobs)
    with pytest.raises(BackendError, match="do not agree: it reports nothing"):
        counting.in_order(report[:1], jobs)
    with pytest.raises(BackendError, match="1 launches more"):
        counting.in_order([*report, row("x")], jobs)


def test_the_profiled_process_reads_what_it_shall_run() -> None:
    shape = Shape(m=64, n=64, k=64)
    told = json.loads(json.dumps(counting.spec([*plan.padded(shape)[:2], *plan.asked(shape, PROFILE.device)[:1]])))
    assert told[0]["name"] == "tiled_conflict"
    assert told[1]["params"] == {"T": 32, "PAD": 1, "NUM_THREADS": 1024}
    assert told[1]["shape"] == "64x64x64"
    assert told[2]["stream"].endswith("copy.cu")


# ---- rows and their file


def test_a_file_gives_back_what_it_was_given(tmp_path: Path) -> None:
    found = session()
    experiments.save(found, tmp_path / "e.json")
    again = experiments.load(tmp_path / "e.json")
    assert again == found
    written = json.loads((tmp_path / "e.json").read_text(encoding="utf-8"))
    assert written["schema"] == "ladder-experiments/1"
    assert written["law"]["fits"][0]["slope"]["value"] == pytest.approx(1 / 6, rel=1e-5)
    assert written["transition"]["padding"][0]["predicted"]["wavefronts_per_request"] == predicted(32).per_request
    assert written["asked"]["rows"][0]["dram_over_asked"] == 0.001


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ('{"schema": "ladder/1"}', "is not schema"),
        ('{"schema": "ladder-experiments/1"}', "damaged"),
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "e.json").write_text(text, encoding="utf-8")
    with pytest.raises(StoreError, match=words):
        experiments.load(tmp_path / "e.json")
    with pytest.raises(StoreError, match="cannot read"):
        experiments.load(tmp_path / "missing.json")


def test_asked_bytes_may_run_faster_than_dram_and_drams_own_do_not() -> None:
    row, copy = asked_row(asked=10**10, seconds=1e-3), PROFILE.roofs.bytes_per_s["dram"]
    assert row.share("asked", PROFILE.roofs) == pytest.approx(1e13 / copy)
    assert row.share("dram", PROFILE.roofs) == pytest.approx(1e9 / copy)
    assert asked_row(seconds=None).share("asked", PROFILE.roofs) is None


def test_counts_find_their_rows_and_place_them() -> None:
    shape = Shape(m=256, n=256, k=256)
    jobs = [*plan.edges([shape], "cuda")[:1], *plan.asked(shape, PROFILE.device)[:1]]
    bare = replace(edge_run("tile_product", 4, shape), traffic=None, time=timing(1e-3))
    streamed = asked_row("copy")
    counts = {index: edge_run("tile_product", 4, shape, dram=1.0).traffic for index in (0, 1)}
    one, other = run.with_counts(jobs, [bare, streamed], counts, PROFILE.roofs)
    assert one.placement is not None
    assert one.placement.bound_by == "dram"
    assert other.traffic == counts[1]
    assert run.with_counts(jobs, [bare, streamed], {}, PROFILE.roofs) == [bare, streamed]


def test_rows_go_to_the_experiments_that_asked_for_them() -> None:
    shape = Shape(m=64, n=64, k=64)
    edges, padding, asked = (
        plan.edges([shape], "cuda")[:2],
        plan.padded(shape)[:1],
        plan.asked(shape, PROFILE.device)[:1],
    )
    rows = [edge_run("tiled", 8, shape), edge_run("tiled", 16, shape), edge_run("tiled", 32, shape), asked_row("copy")]
    found = run.Jobs(edges, padding, asked)
    assert found.all == (*edges, *padding, *asked)
    assert found.split(rows) == ((rows[0], rows[1]), (rows[2],), (rows[3],))


def test_a_job_whose_process_died_has_a_row_that_says_so() -> None:
    shape = Shape(m=64, n=64, k=64)
    jobs = [*plan.edges([shape], "cuda")[:1], *plan.asked(shape, PROFILE.device)[:1]]

    class Ended:
        def __init__(self, index: int) -> None:
            self.index, self.job, self.result, self.failure = index, jobs[index], None, "killed by signal 9"

    one, other = run.gathered(jobs, lambda *_: iter([Ended(1), Ended(0)]), lambda: None)
    assert one.error == "killed by signal 9"
    assert other.problem == "killed by signal 9"
    assert other.size.startswith("n = ")


def test_what_lanes_ask_for_is_the_emulators_or_declared() -> None:
    shape = Shape(m=64, n=64, k=64)
    every = plan.asked(shape, PROFILE.device)
    jobs = [
        next(job for job in every if isinstance(job, plan.Product) and job.rung.name == "naive"),
        next(job for job in every if isinstance(job, plan.Streamed) and job.stream.name == "copy"),
    ]

    def in_this_process(given, start):
        work = start()
        return (Finished(index, job, work(job)) for index, job in enumerate(given))

    rows = [asked_row("naive"), replace(asked_row("copy"), traffic=None)]
    found = run.asked_bytes(jobs, rows, in_this_process, PROFILE.device, PROFILE.roofs)
    assert found[0] == Quantity(bytes=4 * (2 * 64**3 + 64**2), origin="emulated")
    assert found[1] == Quantity(bytes=8 * jobs[1].n, origin="modelled")
    one, other = run.with_asked(rows, found)
    assert one.bytes_at("asked") == found[0].bytes
    assert one.bytes_at("dram") == 10**6
    assert dict(other.traffic.levels) == {"asked": found[1]}  # without counters there is nothing else
    assert (
        run.asked_bytes(jobs, [replace(row, time=None) for row in rows], in_this_process, PROFILE.device, PROFILE.roofs)
        == {}
    )
