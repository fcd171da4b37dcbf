"""When warming up and sampling end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain, cycle, repeat

import pytest

from ladder.backends.nvml import Watch, Watched
from ladder.backends.timing import MIN_SAMPLE_S, Sampling, launches_per_sample, measure, measure_interleaved, warm_up
from ladder.stats import StopRule


class Clock:
    """Time that passes only while something is sampled."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def sampler(self, seconds: Iterator[float], log: list[str] | None = None, name: str = "") -> Callable[[], float]:
        def sample() -> float:
            taken = next(seconds)
            self.now_s += taken
            if log is not None:
                log.append(name)
            return taken

        return sample


RULE = StopRule(min_samples=5, min_time_s=0.0, max_time_s=2.0, max_noise=0.005)


def test_warming_up_takes_a_fifth_of_a_second_at_least() -> None:
    clock = Clock()
    assert warm_up(clock.sampler(repeat(0.01)), clock=clock) == 0.01
    assert 0.2 <= clock.now_s < 0.31


def test_warming_up_waits_for_a_clock_that_falls_slowly() -> None:
    """1 % in a tenth of a second, which two samples of a millisecond in a row do not show."""
    clock = Clock()
    slower = (0.001 * (1 + 0.1 * min(i, 500) / 1000) for i in range(10**6))
    warm_up(clock.sampler(slower), clock=clock)
    assert 0.5 < clock.now_s < 0.8


def test_a_slow_thing_is_warmed_up_by_two_samples() -> None:
    clock = Clock()
    log: list[str] = []
    warm_up(clock.sampler(repeat(0.6), log, "x"), clock=clock)
    assert len(log) == 2


def test_warming_up_goes_on_while_times_fall() -> None:
    clock = Clock()
    falling = chain((0.1 * 0.9**i for i in range(10)), repeat(0.03))
    assert warm_up(clock.sampler(falling), clock=clock) == 0.03
    assert clock.now_s > 0.6


def test_warming_up_gives_up_on_times_that_never_settle() -> None:
    clock = Clock()
    warm_up(clock.sampler(cycle((0.01, 0.02))), clock=clock)
    assert 1.5 <= clock.now_s < 1.6


def test_a_quiet_thing_is_sampled_as_often_as_the_rule_asks() -> None:
    clock = Clock()
    timing = measure(clock.sampler(repeat(0.01)), rule=RULE, clock=clock)
    assert (timing.median, timing.p20, timing.p80, timing.samples) == (0.01, 0.01, 0.01, 5)


def test_a_noisy_thing_ends_at_the_time_cap() -> None:
    clock = Clock()
    timing = measure(clock.sampler(cycle((0.01, 0.03))), rule=RULE, clock=clock)
    assert timing.p20 == 0.01
    assert timing.p80 == 0.03
    assert timing.samples * 0.02 <= 2.1


def test_things_are_sampled_in_turn_until_all_are_quiet() -> None:
    clock, log = Clock(), []
    quiet = clock.sampler(repeat(0.01), log, "quiet")
    noisy = clock.sampler(chain(cycle((0.01, 0.03))), log, "noisy")
    first, second = measure_interleaved([quiet, noisy], rule=RULE, clock=clock)
    assert first.samples == second.samples > 5
    assert first.median == 0.01
    taken = log[-2 * first.samples :]
    assert taken == ["quiet", "noisy"] * first.samples


@pytest.mark.parametrize("seconds", [1e-6, 5e-6, 1e-4, MIN_SAMPLE_S, 0.3])
def test_samples_of_short_kernels_hold_several_launches(seconds: float) -> None:
    count = launches_per_sample(seconds)
    assert 1 <= count <= 200
    assert count in {1, 200} or count * seconds >= MIN_SAMPLE_S
    assert count == 1 or (count - 1) * seconds < MIN_SAMPLE_S


def test_things_are_warmed_up_together_for_as_long_as_one() -> None:
    clock = Clock()
    log: list[str] = []
    samplers = [clock.sampler(repeat(0.01), log, name) for name in "ab"]
    times = measure_interleaved(samplers, rule=RULE, clock=clock, together=True)
    assert [timing.samples for timing in times] == [5, 5]
    assert "".join(log) == "ab" * (len(log) // 2)
    assert 0.2 <= clock.now_s - 10 * 0.01 < 0.31


def test_a_cold_thing_is_not_warmed_up_and_its_first_sample_is_thrown_away() -> None:
    clock = Clock()
    timing = measure(clock.sampler(chain([0.5], repeat(0.01))), rule=RULE, clock=clock, warm=False)
    assert (timing.p80, timing.samples) == (0.01, 5)


def test_the_card_is_watched_while_samples_are_taken_and_not_before() -> None:
    clock, log = Clock(), []
    sample = clock.sampler(repeat(0.01), log, "s")

    @contextmanager
    def watch() -> Iterator[Watch]:
        log.append("begin")
        watch = Watch()
        yield watch
        log.append("end")
        watch.result = Watched(samples=3, power_w=500.0)

    timing = measure(sample, rule=RULE, clock=clock, watch=watch)
    assert timing.watched == Watched(samples=3, power_w=500.0)
    assert log[log.index("begin") :] == ["begin", *["s"] * 5, "end"]
    assert log.index("begin") > 10


def test_a_card_that_tells_nothing_leaves_no_trace() -> None:
    clock = Clock()
    timing = measure(clock.sampler(repeat(0.01)), rule=RULE, clock=clock, watch=lambda: nullcontext(Watch()))
    assert timing.watched is None


def test_what_is_measured_is_the_time_of_all_products_of_a_sample() -> None:
    """A short product, of which fifty make a sample, takes no longer to time than a long one."""
    clock = Clock()
    rule = StopRule(min_samples=5, min_time_s=0.3, max_time_s=2.0)

    def sample() -> float:
        clock.now_s += 1e-3
        return 2e-5

    timing = measure(Sampling(sample, "graph", 50), rule=rule, clock=clock, warm=False)
    assert timing.samples == pytest.approx(300, abs=7)
    assert timing.median == 2e-5


def test_a_time_says_how_it_was_taken() -> None:
    clock = Clock()
    graph, plain = Sampling(clock.sampler(repeat(0.01)), "graph"), clock.sampler(repeat(0.02))
    first, second = measure_interleaved([graph, plain], rule=RULE, clock=clock)
    assert (first.method, second.method) == ("graph", None)
    assert first.kept == (0.01,) * 5
