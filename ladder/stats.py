"""Statistics of timing samples and of power laws. Pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ladder.model import Timing

__all__ = ["KEPT", "PowerLaw", "StopRule", "fit_power_law", "percentile", "relative_noise", "summarize", "thinned"]

KEPT = 60
"""Samples that a record keeps: enough to see a drift or two modes, and a few hundred bytes."""


def percentile(samples: Sequence[float], q: float) -> float:
    """The q-th percentile, 0..100, linear between neighbours (Hyndman and Fan's type 7); 50 is the median.

    Raises:
        ValueError: no samples, or q outside 0..100.
    """
    if not samples:
        raise ValueError("a percentile needs at least one sample")
    if not 0 <= q <= 100:
        raise ValueError(f"percentile {q} is outside 0..100")
    return float(np.percentile(np.asarray(samples, dtype=np.float64), q))


def summarize(samples_s: Sequence[float]) -> Timing:
    """Median, 20th and 80th percentile of samples in seconds; at most :data:`KEPT` of them are kept, to six digits.

    Raises:
        ValueError: no samples, or one that is not a positive number.
    """
    bad = [s for s in samples_s if not 0 < s < math.inf]
    if bad:
        raise ValueError(f"{len(bad)} of {len(samples_s)} samples are not positive seconds, first {bad[0]}")
    p20, median, p80 = (percentile(samples_s, q) for q in (20, 50, 80))
    kept = tuple(float(f"{sample:.6g}") for sample in thinned(samples_s, KEPT))
    return Timing(median=median, p20=p20, p80=p80, samples=len(samples_s), kept=kept)


def thinned(samples: Sequence[float], most: int) -> tuple[float, ...]:
    """At most ``most`` of the samples, two or more, evenly spread over their order, the first and the last among them.

    Raises:
        ValueError: ``most`` is below 2.
    """
    if most < 2:
        raise ValueError(f"{most} samples cannot hold the first and the last")
    if len(samples) <= most:
        return tuple(samples)
    return tuple(samples[round(i * (len(samples) - 1) / (most - 1))] for i in range(most))


def relative_noise(samples: Sequence[float]) -> float:
    """Sample standard deviation over mean; inf for fewer than two samples.

    Raises:
        ValueError: the mean is not positive.
    """
    if len(samples) < 2:
        return math.inf
    values = np.asarray(samples, dtype=np.float64)
    mean = float(values.mean())
    if not mean > 0:
        raise ValueError(f"relative noise needs a positive mean; got {mean}")
    return float(values.std(ddof=1)) / mean


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRule:
    """When enough samples of a time have been taken.

    Sampling goes on until ``min_samples`` and ``min_time_s`` of measured time are reached; then it ends as soon as the
    relative noise is under ``max_noise``, or has settled above it (the last ``window`` values of the noise, one after
    each sample, scatter by less than ``settled`` of the newest: more samples will not help), or ``max_time_s`` of
    measured time is spent.

    Source: nvbench's ``stdrel`` criterion (0.5 % noise, 0.5 s) and its 15 s timeout.

    Raises:
        ValueError: limits that contradict each other.
    """

    min_samples: int = 10
    min_time_s: float = 0.5
    max_time_s: float = 15.0
    max_noise: float = 0.005
    window: int = 64
    settled: float = 0.05

    def __post_init__(self) -> None:
        if self.min_samples < 2 or self.window < 2:
            raise ValueError(f"noise needs two samples; min_samples={self.min_samples}, window={self.window}")
        if not 0 <= self.min_time_s <= self.max_time_s:
            raise ValueError(f"times out of order: min_time_s={self.min_time_s}, max_time_s={self.max_time_s}")
        if not (self.max_noise > 0 and self.settled > 0):
            raise ValueError(f"max_noise={self.max_noise} and settled={self.settled} must be positive")

    def done(self, samples_s: Sequence[float]) -> bool:
        """Whether ``samples_s`` (seconds, in the order taken) are enough."""
        spent_s = math.fsum(samples_s)
        if len(samples_s) < self.min_samples or spent_s < self.min_time_s:
            return False
        return spent_s >= self.max_time_s or relative_noise(samples_s) < self.max_noise or self._settled(samples_s)

    def _settled(self, samples_s: Sequence[float]) -> bool:
        if len(samples_s) <= self.window:
            return False
        noise = _running_noise(samples_s)[-self.window :]
        return math.sqrt(float(np.mean((noise - noise[-1]) ** 2))) < self.settled * float(noise[-1])


def _running_noise(samples: Sequence[float]) -> NDArray[np.float64]:
    """Relative noise of the first 2, 3, ... samples."""
    values = np.asarray(samples, dtype=np.float64)
    # Centred first: the variance of the first n is then free of cancellation.
    centre = values.mean()
    shifted = values - centre
    n = np.arange(1, len(values) + 1)
    sums, squares = np.cumsum(shifted), np.cumsum(shifted**2)
    variance = (squares[1:] - sums[1:] ** 2 / n[1:]) / (n[1:] - 1)
    return np.asarray(np.sqrt(np.maximum(variance, 0)) / (centre + sums[1:] / n[1:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLaw:
    """y = scale * x ** exponent, fitted to ``points`` points.

    ``standard_error`` is the exponent's, None for two points: they fix the line and leave nothing to judge it by.
    """

    exponent: float
    scale: float
    standard_error: float | None
    points: int


def fit_power_law(x: Sequence[float], y: Sequence[float]) -> PowerLaw:
    """Least-squares line through (log x, log y).

    The exponent's standard error is sqrt(SSR / ((n - 2) Sxx)), as for any simple linear regression.

    Raises:
        ValueError: lengths that differ, values that are not positive, or fewer than two different x.
    """
    if len(x) != len(y):
        raise ValueError(f"{len(x)} values of x and {len(y)} of y")
    if not all(0 < value < math.inf for value in (*x, *y)):
        raise ValueError("a power law needs positive, finite x and y")
    if len(set(x)) < 2:
        raise ValueError(f"a slope needs two different x; got {sorted(set(x))}")
    log_x, log_y = np.log(np.asarray(x, dtype=np.float64)), np.log(np.asarray(y, dtype=np.float64))
    mean_x, mean_y = float(log_x.mean()), float(log_y.mean())
    sxx = float(((log_x - mean_x) ** 2).sum())
    exponent = float(((log_x - mean_x) * (log_y - mean_y)).sum()) / sxx
    residuals = log_y - mean_y - exponent * (log_x - mean_x)
    free = len(x) - 2
    return PowerLaw(
        exponent=exponent,
        scale=math.exp(mean_y - exponent * mean_x),
        standard_error=math.sqrt(float((residuals**2).sum()) / (free * sxx)) if free else None,
        points=len(x),
    )
