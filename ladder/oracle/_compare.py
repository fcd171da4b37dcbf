"""A product held against the float64 one: every element right, or the gravest thing that is wrong with it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ladder.errors import InputError
from ladder.oracle._bounds import (
    F32,
    F64,
    POISON_BITS,
    SMALLEST_SUBNORMAL,
    all_finite,
    check_operands,
    growth,
    multiplied,
    reference,
)

__all__ = ["Known", "Mismatch", "Verdict", "compare", "known"]

FLOAT32_MAX = float(np.finfo(np.float32).max)
ROWS_A_CHUNK_ELEMENTS = 2**23

Reason = Literal["never written", "non-finite", "finite", "not exact", "over the bound", "over the normal bound"]
# In the order of judging.
EXPLANATION: dict[Reason, str] = {
    "never written": "the element was never written",
    "non-finite": "not finite where the product is",
    "finite": "the product is not finite here",
    "not exact": "integers must match exactly",
    "over the bound": "error over gamma_K |A||B|",
    "over the normal bound": "error over 4 sqrt(K) u |A||B|",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """The first wrong element of C (row-major) of the gravest kind found.

    ``bound`` is the error that was allowed there: 0 where exactness was asked for or the product is not finite.
    """

    row: int
    col: int
    got: float
    expected: float
    bound: float
    reason: Reason

    def __str__(self) -> str:
        return (
            f"C[row {self.row}, column {self.col}]: got {self.got:.9g}, expected {self.expected:.9g}, "
            f"bound {self.bound:.3g}: {EXPLANATION[self.reason]}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Judgement of one C.

    Attributes:
        passed: every element is right.
        worst_error_over_bound: largest |error| / bound of the finite elements against the strictest bound applied;
            None when exactness was asked for or C is empty, inf when an element that had to be finite is not.
        wrong: how many elements are wrong, out of ``elements``.
        first: the first of them, None when all are right.
    """

    passed: bool
    worst_error_over_bound: float | None
    wrong: int = 0
    elements: int = 0
    first: Mismatch | None = None

    def __post_init__(self) -> None:
        if self.passed != (self.first is None) or self.passed != (self.wrong == 0):
            raise ValueError(f"verdict contradicts itself: passed={self.passed}, wrong={self.wrong}, {self.first}")

    def __str__(self) -> str:
        if self.first is None:
            return "right"
        return f"{self.first} ({self.wrong} of {self.elements} elements wrong)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What products of the same A and B are held against, over and over: A @ B and |A||B| in float64, (M, N).

    ``magnitude`` is None where only exactness is asked for.
    """

    expected: F64
    magnitude: F64 | None


def known(a: F32, b: F32, *, exact: bool = False) -> Known:
    """The float64 products of ``a`` and ``b`` that :func:`compare` takes; with ``exact`` without |A||B|.

    Raises:
        InputError: A and B do not multiply.
    """
    return Known(expected=reference(a, b), magnitude=None if exact else reference(np.abs(a), np.abs(b)))


def compare(
    c: F32,
    a: F32,
    b: F32,
    *,
    unit_roundoff: float,
    exact: bool = False,
    normal: bool = False,
    against: Known | None = None,
) -> Verdict:
    """Judge ``c`` (M, N) as float32 product of ``a`` (M, K) and ``b`` (K, N).

    In this order, so that a NaN can never slip through a comparison: an element that still holds the poison; one that
    is not finite where the product is; one that misses a NaN or an infinity of the product; then exactness
    (``exact``), else the componentwise bound, and with ``normal`` also the bound for normal data.

    Where |A||B| passes the largest float32, some order of summation may rightly reach an infinity of either sign (the
    product itself, or only a partial sum, may be past the range): an infinity is accepted there, a NaN never.

    Args:
        c: the product to judge.
        a: (M, K).
        b: (K, N).
        unit_roundoff: u of the arithmetic.
        exact: every element has to be that of A @ B.
        normal: the data is normal, and the bound for such data holds too.
        against: what :func:`known` gave for these A and B; made here, by parts of C, when it is not given.

    Raises:
        InputError: the shapes do not fit.
    """
    check_operands(a, b)
    (m, k), n = a.shape, b.shape[1]
    if c.shape != (m, n) or c.dtype != np.float32:
        raise InputError(f"C is {c.dtype} {c.shape}; a product of {a.shape} and {b.shape} is float32 {(m, n)}")
    loosest = growth(k, unit_roundoff)
    strictest = min(loosest, 4 * math.sqrt(k) * unit_roundoff) if normal else loosest
    finite = all_finite(a, b)
    if against is not None and against.magnitude is None and not exact:
        against = None
    parts = _known_parts(a, b, finite=finite, exact=exact, against=against)
    first: dict[Reason, Mismatch] = {}
    wrong, worst = 0, 0.0
    floor = 0.0 if exact else k * SMALLEST_SUBNORMAL
    for rows, expected, magnitude in parts:
        ratio = _ratio_if_right(c[rows], expected, magnitude * strictest + floor, exact=exact) if finite else None
        if ratio is not None:
            worst = max(worst, ratio)
            continue
        part = _Part(
            got=c[rows],
            expected=expected,
            loose=magnitude * loosest + floor,
            strict=magnitude * strictest + floor,
            may_overflow=np.isfinite(expected) & (magnitude * (1 + loosest) > FLOAT32_MAX),
        )
        for reason, mask in part.judge(exact=exact).items():
            count = int(np.count_nonzero(mask))
            wrong += count
            if count and reason not in first:
                first[reason] = part.mismatch(mask, reason, row0=rows.start)
        worst = max(worst, part.worst_ratio())
    gravest = next((first[reason] for reason in EXPLANATION if reason in first), None)
    return Verdict(
        passed=gravest is None,
        worst_error_over_bound=None if exact or m * n == 0 else worst,
        wrong=wrong,
        elements=m * n,
        first=gravest,
    )


def _known_parts(
    a: F32, b: F32, *, finite: bool, exact: bool, against: Known | None
) -> Iterator[tuple[slice, F64, F64]]:
    """(rows, A @ B, |A||B|) for all rows of C, part by part."""
    m, k, n = *a.shape, b.shape[1]
    wide_b = absolute_b = np.zeros((0, 0))
    if against is None:
        wide_b = b.astype(np.float64)
        absolute_b = np.abs(wide_b)
    for rows in _row_chunks(m, max(n, k)):
        if against is not None:
            expected, whole = against.expected[rows], against.magnitude
            yield rows, expected, np.zeros_like(expected) if exact or whole is None else whole[rows]
            continue
        wide_a = a[rows].astype(np.float64)
        expected = multiplied(wide_a, wide_b, finite=finite)
        yield (
            rows,
            expected,
            np.zeros_like(expected) if exact else multiplied(np.abs(wide_a), absolute_b, finite=finite),
        )


def _ratio_if_right(got: F32, expected: F64, strict: F64, *, exact: bool) -> float | None:
    """Largest error over the strict bound where everything is finite and within it; None sends for a closer look.

    This is the way of every right product, so it takes few passes over the arrays.
    """
    if exact:
        return 0.0 if np.array_equal(got, expected) else None
    if not np.isfinite(got).all() or (strict <= 0).any():
        return None
    worst = float((np.abs(got - expected) / strict).max(initial=0.0))
    return worst if worst <= 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Some rows of C with what they should be; all arrays have the same shape."""

    got: F32
    expected: F64
    loose: F64
    strict: F64
    may_overflow: NDArray[np.bool_]

    def judge(self, *, exact: bool) -> dict[Reason, NDArray[np.bool_]]:
        """The wrong elements by reason; no element under two reasons."""
        got, expected = self.got, self.expected
        unwritten = np.ascontiguousarray(got).view(np.uint32) == POISON_BITS
        both = self._both_finite()
        same = (got == expected) | (np.isnan(got) & np.isnan(expected))
        forgiven = self.may_overflow & np.isinf(got)
        astray = ~both & ~same & ~forgiven & ~unwritten
        masks: dict[Reason, NDArray[np.bool_]] = {
            "never written": unwritten,
            "non-finite": astray & np.isfinite(expected),
            "finite": astray & ~np.isfinite(expected),
        }
        error = self._error()
        if exact:
            return masks | {"not exact": error > 0}
        over = error > self.loose
        return masks | {"over the bound": over, "over the normal bound": (error > self.strict) & ~over}

    def mismatch(self, mask: NDArray[np.bool_], reason: Reason, *, row0: int) -> Mismatch:
        """The first element of ``mask`` in row-major order."""
        row, col = (int(i) for i in np.unravel_index(int(mask.argmax()), mask.shape))
        allowed = self.strict if reason == "over the normal bound" else self.loose
        return Mismatch(
            row=row0 + row,
            col=col,
            got=float(self.got[row, col]),
            expected=float(self.expected[row, col]),
            bound=float(allowed[row, col]) if np.isfinite(self.expected[row, col]) else 0.0,
            reason=reason,
        )

    def worst_ratio(self) -> float:
        """Largest error over the strict bound; inf where C is not finite and has to be."""
        if self.got.size == 0:
            return 0.0
        if (np.isfinite(self.expected) & ~np.isfinite(self.got) & ~(self.may_overflow & np.isinf(self.got))).any():
            return math.inf
        error = self._error()
        ratio = np.where(error > 0, math.inf, 0.0)
        np.divide(error, self.strict, out=ratio, where=self._both_finite() & (self.strict > 0))
        return float(ratio.max())

    def _both_finite(self) -> NDArray[np.bool_]:
        return np.isfinite(self.got) & np.isfinite(self.expected)

    def _error(self) -> F64:
        """|C - A @ B| where both are finite, else 0."""
        error = np.zeros_like(self.expected)
        np.subtract(self.got, self.expected, out=error, where=self._both_finite())
        return np.abs(error)


def _row_chunks(m: int, columns: int) -> Iterator[slice]:
    """Row ranges that keep float64 temporaries small at any M."""
    step = max(1, ROWS_A_CHUNK_ELEMENTS // max(1, columns))
    for start in range(0, m, step):
        yield slice(start, min(start + step, m))
