"""Percentiles, the stop rule and the power-law fit."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import linregress

from ladder.stats import KEPT, StopRule, fit_power_law, percentile, relative_noise, summarize, thinned

seconds = st.floats(1e-7, 1e3)


@given(st.lists(seconds, min_size=1))
def test_median_agrees_with_the_standard_library(samples: list[float]) -> None:
    assert percentile(samples, 50) == pytest.approx(statistics.median(samples))


@given(st.lists(seconds, min_size=1), st.floats(1e-3, 1e3))
def test_summary_is_ordered_and_scales(samples: list[float], factor: float) -> None:
    timing = summarize(samples)
    assert min(samples) <= timing.p20 <= timing.median <= timing.p80 <= max(samples)
    assert timing.samples == len(samples)
    scaled = summarize([s * factor for s in samples])
    assert scaled.median == pytest.approx(timing.median * factor)
    assert scaled.p20 == pytest.approx(timing.p20 * factor)
    assert scaled.p80 == pytest.approx(timing.p80 * factor)


def test_percentiles_of_eleven_samples_are_exact() -> None:
    timing = summarize([float(s) for s in range(11, 0, -1)])
    assert (timing.p20, timing.median, timing.p80) == (3.0, 6.0, 9.0)


@given(st.lists(seconds, min_size=1, max_size=200))
def test_kept_samples_are_some_of_them_in_order_to_six_digits(samples: list[float]) -> None:
    kept = summarize(samples).kept
    assert len(kept) == min(len(samples), KEPT)
    assert kept[0] == pytest.approx(samples[0], rel=1e-5)
    assert kept[-1] == pytest.approx(samples[-1], rel=1e-5)
    rest = iter(samples)
    assert all(any(one == pytest.approx(other, rel=1e-5) for other in rest) for one in kept)


def test_samples_are_thinned_evenly() -> None:
    assert thinned(range(101), 5) == (0, 25, 50, 75, 100)
    assert thinned([1.0, 2.0], 2) == (1.0, 2.0)
    with pytest.raises(ValueError, match="first and the last"):
        thinned([1.0], 1)


@pytest.mark.parametrize(("samples", "q"), [([], 50), ([1.0], -1), ([1.0], 101)])
def test_percentile_refuses(samples: list[float], q: float) -> None:
    with pytest.raises(ValueError, match="percentile"):
        percentile(samples, q)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_summary_refuses_what_is_no_time(bad: float) -> None:
    with pytest.raises(ValueError, match="1 of 2 samples"):
        summarize([1.0, bad])


def test_noise_is_the_sample_deviation_over_the_mean() -> None:
    samples = [1.0, 1.1, 0.9, 1.05]
    assert relative_noise(samples) == pytest.approx(statistics.stdev(samples) / statistics.mean(samples))
    assert relative_noise([1.0]) == math.inf
    with pytest.raises(ValueError, match="positive mean"):
        relative_noise([-1.0, 1.0])


def test_stop_rule_waits_for_samples_and_time() -> None:
    rule = StopRule()
    assert not rule.done([])
    assert not rule.done([1.0] * 9)
    assert not rule.done([0.01] * 49)
    assert rule.done([0.01] * 51)


def test_stop_rule_goes_on_while_noisy_and_gives_up_at_the_cap() -> None:
    rule = StopRule()
    noisy = [0.05, 0.07] * 10
    assert not rule.done(noisy)
    assert rule.done([s * 20 for s in noisy])


def test_stop_rule_ends_when_noise_has_settled_above_the_limit() -> None:
    rng = np.random.default_rng(3)
    settled = list(0.01 * (1 + 0.05 * rng.standard_normal(1000)))
    rule = StopRule(max_time_s=1e6)
    assert relative_noise(settled) > rule.max_noise
    assert rule.done(settled)
    # The clock drops half way: the noise is still climbing, so the samples are not of one population.
    assert not rule.done([0.01] * 200 + [0.02] * 60)


@given(st.lists(st.floats(0.5, 1.5), min_size=66, max_size=90))
def test_running_noise_matches_prefixes(samples: list[float]) -> None:
    rule = StopRule(min_time_s=0.0, max_time_s=1e6)
    tail = [relative_noise(samples[:n]) for n in range(len(samples) - rule.window + 1, len(samples) + 1)]
    last = tail[-1]
    scatter = math.sqrt(statistics.fmean((noise - last) ** 2 for noise in tail))
    if math.isclose(scatter, rule.settled * last, rel_tol=1e-6, abs_tol=1e-12):
        return
    assert rule.done(samples) == (last < rule.max_noise or scatter < rule.settled * last)


@pytest.mark.parametrize(
    "limits", [{"min_samples": 1}, {"window": 1}, {"min_time_s": 2.0, "max_time_s": 1.0}, {"max_noise": 0.0}]
)
def test_stop_rule_refuses_contradictions(limits: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(limits))):
        StopRule(**limits)


@given(st.floats(-3, 3), st.floats(1e-3, 1e3))
def test_fit_recovers_an_exact_power(exponent: float, scale: float) -> None:
    x = [16.0, 32.0, 64.0, 128.0]
    fit = fit_power_law(x, [scale * v**exponent for v in x])
    assert fit.exponent == pytest.approx(exponent, abs=1e-9)
    assert fit.scale == pytest.approx(scale, rel=1e-9)
    assert fit.standard_error == pytest.approx(0, abs=1e-9)


def test_fit_agrees_with_scipy() -> None:
    rng = np.random.default_rng(5)
    x = np.arange(1.0, 20.0)
    y = x**0.9 * np.exp(0.1 * rng.standard_normal(len(x)))
    theirs = linregress(np.log(x), np.log(y))
    ours = fit_power_law(list(x), list(y))
    assert ours.exponent == pytest.approx(theirs.slope)
    assert ours.standard_error == pytest.approx(theirs.stderr)
    assert ours.scale == pytest.approx(math.exp(theirs.intercept))
    assert ours.points == 19


def test_two_points_have_no_standard_error() -> None:
    fit = fit_power_law([16, 32], [16 / 6, 32 / 6])
    assert fit.exponent == pytest.approx(1)
    assert fit.standard_error is None


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([1, 2], [1], "2 values of x and 1 of y"),
        ([1, 0], [1, 1], "positive"),
        ([1, 2], [1, math.inf], "positive"),
        ([2, 2], [1, 3], "two different x"),
    ],
)
def test_fit_refuses(x: list[float], y: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_power_law(x, y)
