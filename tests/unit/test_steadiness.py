"""What is said of clocks that moved or were held down, on the terminal and in the report."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.results import KERNELS, make_results, make_run, peer, unhappy_runs

from ladder.model import Shape, Timing, Watched
from ladder.report.cards import cards
from ladder.report.summary import summary
from ladder.report.table import table
from ladder.report.view import sections
from ladder.steadiness import remarks
from ladder.store import Run


def seen(low: float, high: float, *limits: str) -> Watched:
    middle = (low + high) / 2
    return Watched(
        samples=5, sm_clock_hz=middle, sm_clock_low_hz=low, sm_clock_high_hz=high, power_w=650.0, limits=limits
    )


def timed(number: int, watched: Watched | None) -> Run:
    run = make_run(KERNELS[number], 1024, timed=True)
    assert run.time is not None
    cold = replace(run.time, median=1.25 * run.time.median, p80=1.5 * run.time.median)
    return replace(run, time=replace(run.time, watched=watched, method="launches"), time_cold=cold, power_w=650.0)


def test_steady_clocks_and_unwatched_ones_say_nothing() -> None:
    assert remarks([timed(0, seen(1.75e9, 1.77e9)), timed(1, None), *unhappy_runs()]) == ()


def test_each_thing_is_one_sentence_with_the_rows_that_it_met() -> None:
    runs = [
        timed(0, seen(1.7e9, 1.8e9, "power cap")),
        timed(1, seen(1.75e9, 1.76e9, "power cap", "thermal limit")),
        timed(2, seen(1.98e9, 1.98e9)),
    ]
    assert remarks(iter(runs)) == (
        "The SM clock moved by more than 2 % while timing naive (1.700 to 1.800 GHz).",
        "The SM clock was held down (power cap) while timing naive, coalesced.",
        "The SM clock was held down (thermal limit) while timing coalesced.",
    )
    many = [timed(number, seen(1.98e9, 1.98e9, "power cap")) for number in range(9)]
    (line,) = remarks(many)
    assert line.count(", ") == 6
    assert line.endswith(", and 3 more.")


def test_a_late_host_is_told_beside_what_the_card_did() -> None:
    run = timed(0, seen(1.98e9, 1.98e9, "power cap"))
    assert run.time is not None
    late = replace(run, time=replace(run.time, late=3))
    assert late.remark == "SM clock held down by: power cap; the host queued 3 of 50 samples too late"
    assert remarks([late, timed(1, None)])[1:] == (
        "The host queued launches too late, so that its gaps may be in the time of naive (3 of 50 samples).",
    )
    for wrong in (-1, 51):
        with pytest.raises(ValueError, match="of 50 samples were late"):
            replace(run.time, late=wrong)


def test_rows_of_several_shapes_are_named_with_them() -> None:
    small = replace(timed(0, seen(1.98e9, 1.98e9, "power cap")), shape=Shape(m=5, n=6, k=7))
    (line,) = remarks([small, timed(1, seen(1.98e9, 1.98e9, "power cap"))])
    assert line.endswith("while timing naive 5x6x7, coalesced 1024x1024x1024.")


@pytest.mark.parametrize("limits", [(), ("power cap",)])
def test_a_row_remarks_on_its_own_time(limits: tuple[str, ...]) -> None:
    run = timed(0, seen(1.75e9, 1.76e9, *limits))
    assert run.remark == ("SM clock held down by: power cap" if limits else None)
    assert run.clock_hz == 1.755e9
    assert make_run(KERNELS[0], 64).remark is None


def test_the_report_shows_cold_times_and_what_the_card_did() -> None:
    results = replace(make_results(1024, timed=True), runs=(timed(3, seen(1.7e9, 1.8e9, "power cap")),))
    (section,) = sections(results)
    assert "The SM clock was held down (power cap) while timing tiled_32." in summary(section)
    shown = table(section)
    column = [title for title, _ in shown.head].index("cold / warm")
    assert [row[column].text for row in shown.rows] == ["1.25"]
    (card,) = cards(section, "s1", set())
    assert card.timed == (
        "241 µs, the median of 50 samples; 302 µs from a cold L2, 1.25 times as long; at 1.75 GHz and 650 W. "
        "SM clock moved by 5.7 %, 1.700 to 1.800 GHz; held down by: power cap."
    )


def test_a_peers_card_names_its_kernel() -> None:
    run = replace(peer(1024, 33e12), kernel="a_kernel + another")
    (section,) = sections(replace(make_results(1024, timed=True), runs=(run,)))
    (card,) = cards(section, "s1", set())
    assert card.timed == "65.1 µs, the median of 30 samples. Kernel: a_kernel + another."
    (section,) = sections(make_results(64, kernels=KERNELS[:1]))
    assert [card.timed for card in cards(section, "s1", set())] == [""]


def test_a_record_without_cold_times_has_no_column_for_them() -> None:
    results = make_results(1024, timed=True)
    (section,) = sections(results)
    assert "cold / warm" not in [title for title, _ in table(section).head]


def test_samples_beyond_their_number_are_refused() -> None:
    with pytest.raises(ValueError, match="2 samples kept of 1"):
        Timing(median=1.0, p20=1.0, p80=1.0, samples=1, kept=(1.0, 1.0))
    with pytest.raises(ValueError, match="timing method 'clock'"):
        Timing(median=1.0, p20=1.0, p80=1.0, samples=1, method="clock")  # type: ignore[arg-type]
