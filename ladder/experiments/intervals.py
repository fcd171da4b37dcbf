"""Slopes with the interval that holds the true one with a probability of 95 %, by Student's t. Pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["CONFIDENCE", "Interval", "exponent", "proportion"]

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A fitted value and half the width of its confidence interval; the half is 0 where every point is on the line."""

    value: float
    half: float

    @property
    def low(self) -> float:
        """The lower end."""
        return self.value - self.half

    @property
    def high(self) -> float:
        """The upper end."""
        return self.value + self.half

    def to_json(self) -> dict[str, float]:
        """For the results file."""
        return {"value": self.value, "low": self.low, "high": self.high, "confidence": CONFIDENCE}


def proportion(x: Sequence[float], y: Sequence[float]) -> Interval:
    """The slope b of y = b x, a line through the origin, by least squares: b = sum xy / sum xx.

    Its standard error is sqrt(SSR / ((n - 1) sum xx)): one parameter is fitted.

    Raises:
        ValueError: lengths that differ, fewer than two points, or values that are not positive and finite.
    """
    _check(x, y)
    xs, ys = np.asarray(x, np.float64), np.asarray(y, np.float64)
    sxx = float((xs * xs).sum())
    slope = float((xs * ys).sum()) / sxx
    free = len(xs) - 1
    error = math.sqrt(float(((ys - slope * xs) ** 2).sum()) / (free * sxx))
    return Interval(value=slope, half=_quantile(free) * error)


def exponent(x: Sequence[float], y: Sequence[float]) -> Interval:
    """The exponent p of y = c x^p, by least squares on logarithms (``scipy.stats.linregress``).

    Raises:
        ValueError: lengths that differ, fewer than three points, values that are not positive and finite, or a
            single x.
    """
    from scipy.stats import linregress  # noqa: PLC0415 -- takes a while to load

    _check(x, y)
    if len(x) < 3 or len(set(x)) < 2:
        raise ValueError(f"an exponent with an interval needs three points and two different x; got {sorted(x)}")
    found = linregress(np.log(np.asarray(x, np.float64)), np.log(np.asarray(y, np.float64)))
    # Values that are all the same have no correlation, and scipy no error of theirs.
    error = 0.0 if len(set(y)) == 1 else float(found.stderr)
    return Interval(value=float(found.slope), half=_quantile(len(x) - 2) * error)


def _quantile(free: int) -> float:
    from scipy.stats import t as student  # noqa: PLC0415 -- takes a while to load

    return float(student.ppf((1 + CONFIDENCE) / 2, free))


def _check(x: Sequence[float], y: Sequence[float]) -> None:
    if len(x) != len(y) or len(x) < 2:
        raise ValueError(f"{len(x)} values of x and {len(y)} of y; give two points or more")
    if not all(0 < value < math.inf for value in (*x, *y)):
        raise ValueError("a slope of a law needs positive, finite x and y")
