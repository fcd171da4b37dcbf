"""What counts as changed between two results files: times, checks, bytes, rows, and where they are from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from helpers.results import make_results, unhappy_runs
from hypothesis import given
from hypothesis import strategies as st

from ladder.comparison import TOLERANCE, Change, Comparison, Pair, compare
from ladder.model import Method, Quantity, Timing, Traffic, Watched
from ladder.store import Results, Run

BASE = make_results(1024, timed=True)
ROW = next(run for run in BASE.runs if run.rung == "tiled_32")


def with_row(run: Run, **changes: Any) -> Results:
    return replace(BASE, runs=(run,), **changes)


def one(before: Run, after: Run, **options: Any) -> Pair:
    (pair,) = compare(with_row(before), with_row(after), **options).pairs
    return pair


def timed(p20: float, median: float, p80: float) -> Run:
    return replace(ROW, time=Timing(median=median, p20=p20, p80=p80, samples=9))


def watched(clock_hz: float, *, method: Method | None = None) -> Run:
    assert ROW.time is not None
    seen = Watched(samples=9, sm_clock_hz=clock_hz, sm_clock_low_hz=clock_hz, sm_clock_high_hz=clock_hz)
    return replace(ROW, time=replace(ROW.time, watched=seen, method=method), sm_clock_hz=1.0)


def counted(scale: float) -> Run:
    assert ROW.traffic is not None
    levels = {
        level: Quantity(bytes=round(q.bytes * (scale if level == "l2" else 1)), origin=q.origin)
        for level, q in ROW.traffic.levels.items()
    }
    return replace(ROW, traffic=Traffic(levels=levels))


def checked(**changes: Any) -> Run:
    assert ROW.check is not None
    return replace(ROW, check=replace(ROW.check, **changes))


def test_a_file_against_itself_has_not_changed() -> None:
    found = compare(BASE, BASE)
    assert len(found.pairs) == len(BASE.runs)
    assert not any(pair.changed or pair.worse or pair.edited for pair in found.pairs)
    assert {pair.verdict for pair in found.pairs} == {"same"}
    assert {pair.ratio for pair in found.pairs} == {1.0}
    assert found == Comparison(session=(), roofs=(), pairs=found.pairs, only_before=(), only_after=())
    assert not found.worse


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        ((1.11, 1.20, 1.30), "slower"),
        ((1.10, 1.20, 1.30), "same"),  # the ranges touch
        ((1.05, 1.20, 1.30), "same"),
        ((0.50, 0.70, 0.89), "faster"),
        ((0.50, 0.70, 0.90), "same"),
        ((0.90, 1.00, 1.10), "same"),
    ],
)
def test_times_differ_when_their_ranges_are_apart(after: tuple[float, float, float], verdict: str) -> None:
    pair = one(timed(0.9, 1.0, 1.1), timed(*after))
    assert pair.verdict == verdict
    assert pair.ratio == pytest.approx(after[1])
    assert pair.worse == (verdict == "slower")
    assert pair.changed == (verdict != "same")


@pytest.mark.parametrize(("now", "apart"), [(1.75e9, None), (1.78e9, None), (1.82e9, 0.04), (1.68e9, 1.75 / 1.68 - 1)])
def test_clocks_apart_are_told_either_way(now: float, apart: float | None) -> None:
    assert one(watched(1.75e9), watched(now)).clocks_apart == (None if apart is None else pytest.approx(apart))


def test_clocks_that_nobody_watched_are_those_of_the_load() -> None:
    loaded = [replace(ROW, sm_clock_hz=clock) for clock in (1.75e9, 1.9e9)]
    assert one(*loaded).clocks_apart == pytest.approx(1.9 / 1.75 - 1)
    assert one(ROW, loaded[1]).clocks_apart is None
    assert one(replace(loaded[0], time=None), loaded[1]).clocks_apart is None


@pytest.mark.parametrize(
    ("before", "after", "otherwise"),
    [
        (None, "launches", False),
        (None, "graph", True),
        ("graph", "graph", False),
        ("graph", "launches", True),
    ],
)
def test_a_graph_in_one_file_alone_is_told(before: Method | None, after: Method | None, otherwise: bool) -> None:
    assert one(watched(1e9, method=before), watched(1e9, method=after)).timed_otherwise is otherwise
    assert not one(replace(ROW, time=None), watched(1e9, method=after)).timed_otherwise


@pytest.mark.parametrize(("tolerance", "verdict"), [(0.0, "slower"), (0.004, "slower"), (0.006, "same"), (0.1, "same")])
def test_a_steady_time_may_drift_by_the_tolerance(tolerance: float, verdict: str) -> None:
    pair = one(timed(1.0, 1.0, 1.0), timed(1.005, 1.005, 1.005), tolerance=tolerance)
    assert pair.verdict == verdict


def test_the_tolerance_is_a_ratio_in_both_directions() -> None:
    slow, fast = timed(1.0 + 2 * TOLERANCE, 1.0 + 2 * TOLERANCE, 1.0 + 2 * TOLERANCE), timed(1.0, 1.0, 1.0)
    assert one(fast, slow).verdict == "slower"
    assert one(slow, fast).verdict == "faster"


def test_a_negative_tolerance_is_refused() -> None:
    with pytest.raises(ValueError, match="give 0 or more"):
        compare(BASE, BASE, tolerance=-0.1)


ranges = st.tuples(*[st.floats(1e-6, 1e3)] * 3).map(sorted)


@given(before=ranges, after=ranges, tolerance=st.floats(0, 2))
def test_the_other_way_round_is_the_opposite(before: list[float], after: list[float], tolerance: float) -> None:
    opposite = {"slower": "faster", "faster": "slower", "same": "same"}
    there = one(timed(*before), timed(*after), tolerance=tolerance)
    back = one(timed(*after), timed(*before), tolerance=tolerance)
    assert there.verdict is not None
    assert back.verdict == opposite[there.verdict]
    if there.verdict != "same":
        assert before[2] < after[0] or after[2] < before[0]


def test_without_two_times_there_is_no_verdict() -> None:
    pair = one(replace(ROW, time=None), ROW)
    assert (pair.ratio, pair.verdict, pair.changed, pair.worse) == (None, None, False, False)


def test_bytes_count_beyond_a_thousandth() -> None:
    assert one(ROW, counted(1.0009)).moved == ()
    for scale in (1.0011, 0.998):
        (moved,) = one(ROW, counted(scale)).moved
        assert moved.level == "l2"
        assert moved.ratio == pytest.approx(scale, rel=1e-5)
    pair = one(ROW, counted(2.0))
    assert pair.changed
    assert not pair.worse


def test_bytes_where_there_were_none_have_no_ratio() -> None:
    nothing, something = (
        replace(ROW, traffic=Traffic(levels={"shared": Quantity(bytes=count, origin="counted")})) for count in (0, 128)
    )
    (moved,) = one(nothing, something).moved
    assert (moved.before, moved.after, moved.ratio) == (0, 128, None)


def test_a_level_that_one_file_did_not_count_has_not_changed() -> None:
    assert ROW.traffic is not None
    fewer = Traffic(levels={level: q for level, q in ROW.traffic.levels.items() if level != "dram"})
    assert one(ROW, replace(ROW, traffic=fewer)).moved == ()
    assert one(ROW, replace(ROW, traffic=None)).moved == ()


def test_wrong_is_worse_and_right_again_is_not() -> None:
    wrong = checked(passed=False, failure="C[3, 5] = 1")
    assert one(ROW, wrong).check == Change("check", "right", "wrong")
    assert one(ROW, wrong).worse
    assert one(wrong, ROW).check == Change("check", "wrong", "right")
    assert one(wrong, ROW).changed
    assert not one(wrong, ROW).worse
    assert not one(wrong, wrong).changed
    assert not one(wrong, wrong).worse


def test_broken_off_is_worse_and_skipped_is_told() -> None:
    assert one(ROW, replace(ROW, error="out of memory")).check == Change("check", "right", "broke off")
    assert one(ROW, replace(ROW, error="out of memory")).worse
    skipped = one(ROW, replace(ROW, skipped="needs sm_90"))
    assert skipped.check == Change("check", "right", "skipped")
    assert not skipped.worse
    assert one(replace(ROW, check=None), ROW).check == Change("check", "not checked", "right")


def test_other_bits_of_a_right_product_are_told() -> None:
    pair = one(checked(crc32=1), checked(crc32=0xABC))
    assert pair.check == Change("bits of C", "00000001", "00000abc")
    assert not pair.worse
    assert one(checked(crc32=None), checked(crc32=2)).check is None


def test_an_edited_file_is_told_where_both_rows_know() -> None:
    assert one(ROW, replace(ROW, source_sha256="1" * 64)).edited
    assert not one(ROW, replace(ROW, source_sha256="")).edited


def test_rows_are_matched_by_shape_and_parameters() -> None:
    other = replace(ROW, params={"T": 64})
    found = compare(replace(BASE, runs=(ROW, other)), replace(BASE, runs=(replace(other, title="x"),)))
    assert [pair.before.params for pair in found.pairs] == [{"T": 64}]
    assert found.only_before == (ROW,)
    assert found.only_after == ()


def test_rows_that_stand_twice_are_matched_in_order() -> None:
    first, second = timed(1.0, 1.0, 1.0), timed(2.0, 2.0, 2.0)
    found = compare(replace(BASE, runs=(first, second)), replace(BASE, runs=(first, second)))
    assert [pair.ratio for pair in found.pairs] == [1.0, 1.0]


def test_a_new_row_that_is_wrong_is_worse() -> None:
    wrong, skipped, error = unhappy_runs(1024)
    for run, worse in ((wrong, True), (skipped, False), (error, True)):
        found = compare(BASE, replace(BASE, runs=(*BASE.runs, run)))
        assert found.only_after == (run,)
        assert found.worse == worse
    gone = compare(replace(BASE, runs=(*BASE.runs, wrong)), BASE)
    assert gone.only_before == (wrong,)
    assert not gone.worse


def test_what_differs_about_the_session() -> None:
    device = replace(BASE.device, driver="590.1", nvrtc="13.5")
    assert compare(BASE, replace(BASE, device=device)).session == (
        Change("driver", "580.159.04", "590.1"),
        Change("nvrtc", "13.0", "13.5"),
    )
    unknown = compare(BASE, replace(BASE, device=replace(BASE.device, driver=None)))
    assert unknown.session == (Change("driver", "580.159.04", ""),)
    other = replace(BASE.device, compute_capability=(8, 0), sm_clock_hz=1.0)
    assert compare(BASE, replace(BASE, device=other)).session == (Change("compute capability", "9.0", "8.0"),)


def test_roofs_that_moved_or_are_new() -> None:
    roofs = replace(
        BASE.roofs,
        bytes_per_s={**BASE.roofs.bytes_per_s, "dram": 4.0e12, "l2": 8.3e12 * 1.005},
        flop_per_s={**BASE.roofs.flop_per_s, "tf32": 3e14},
    )
    assert compare(BASE, replace(BASE, roofs=roofs)).roofs == (
        Change("dram", "4.12e+12", "4e+12"),
        Change("tf32", "", "3e+14"),
    )
