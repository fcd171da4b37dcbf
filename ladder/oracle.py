"""The oracle: what C = A @ B must be in float32, and how far from it an element may lie. Pure arithmetic.

The bounds hold for any order of summation, fused or not, so that one oracle judges every rung.

Source: N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM 2002, sections 2.2 and 3.1-3.5.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ladder.errors import InputError

__all__ = [
    "EXACT_SUM",
    "POISON_BITS",
    "Mismatch",
    "Verdict",
    "bound",
    "compare",
    "exact_integer_limit",
    "gamma",
    "normal_bound",
    "poison",
    "reference",
]

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

POISON_BITS = 0x7FEDBEEF
"""C before a launch: a quiet NaN with a payload that no arithmetic makes (GPUs give 0x7FFFFFFF), so that an element
that was never written is told apart from one that was computed as NaN."""

EXACT_SUM = 2**24
"""Integers below this in magnitude are float32 numbers, and so are their sums in any order while those stay below."""

SMALLEST_SUBNORMAL = 2.0**-149
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


def poison(shape: tuple[int, ...]) -> F32:
    """An array of ``shape`` full of the NaN that marks what was never written."""
    return np.full(shape, POISON_BITS, dtype=np.uint32).view(np.float32)


def reference(a: F32, b: F32) -> F64:
    """A @ B in float64, (M, N).

    Products of float32 numbers are exact in float64 and the sum's own error is 2^-29 of the float32 bound. Where inputs
    are infinite or NaN the result is what IEEE 754 gives in every order: NaN if a term is NaN or infinities of both
    signs meet, else the infinity. Sums past the range of float32 stay finite here.

    Raises:
        InputError: A and B are not matrices that multiply.
    """
    _check_operands(a, b)
    return _multiply(a.astype(np.float64), b.astype(np.float64), finite=_all_finite(a, b))


def gamma(k: int, u: float) -> float:
    """gamma_k = k u / (1 - k u): bounds the product of k factors (1 + delta), |delta| <= u. Higham, lemma 3.1.

    Raises:
        InputError: k u >= 1, where no such bound exists.
    """
    if k < 0 or not u > 0:
        raise InputError(f"gamma needs k >= 0 and u > 0; got k={k}, u={u}")
    if k * u >= 1:
        raise InputError(
            f"no error bound exists for K={k} at unit roundoff {u:g}: K u must be below 1. Use a smaller K."
        )
    return k * u / (1 - k * u)


def bound(a: F32, b: F32, *, unit_roundoff: float) -> F64:
    """Componentwise gamma_K |A||B| + K 2^-149, (M, N): the error no float32 product exceeds. Zero when K = 0.

    Each term meets at most K roundings in any order, fused or not (Higham, eq. 3.5 and 3.13). Results in the subnormal
    range are off by up to 2^-150 on top (Higham, eq. 2.8). Only the K products (or fused steps) are, since a sum of
    float32 numbers is exact there; half of 2^-149 is room for the growth of these errors by 1 + gamma_K. It takes
    gradual underflow for granted: a kernel built with ``-ftz=true`` may exceed it.

    Where K u >= 1, as at low precision and large K, gamma_K does not exist and K u takes its place: it bounds the error
    of rounding to nearest in any order at any K (C.-P. Jeannerod and S. M. Rump, Improved error bounds for inner
    products in floating-point arithmetic, SIAM J. Matrix Anal. Appl. 34, 2013).

    Raises:
        InputError: A and B do not multiply.
    """
    return _allowed(a, b, _growth(a.shape[-1], unit_roundoff))


def normal_bound(a: F32, b: F32, *, unit_roundoff: float) -> F64:
    """Componentwise 4 sqrt(K) u |A||B| + K 2^-149, (M, N), for data drawn from a normal distribution.

    Roundings of independent data do not conspire: their sum grows as sqrt(K), not K (Higham, section 2.8). Not a
    theorem; the factor 4 leaves a wide margin, while a missing or repeated term still stands out at large K.

    Raises:
        InputError: A and B do not multiply.
    """
    return _allowed(a, b, 4 * math.sqrt(a.shape[-1]) * unit_roundoff)


def exact_integer_limit(k: int) -> int:
    """Largest r <= 8 such that K products of integers in [-r, r] sum exactly in float32 in any order: r^2 K < 2^24.

    8 up to K = 262143, then 7 and fewer.

    Raises:
        InputError: not even r = 1 will do (K >= 2^24).
    """
    limit = 8 if k == 0 else min(8, math.isqrt((EXACT_SUM - 1) // k))
    if limit == 0:
        raise InputError(f"K={k}: sums of {EXACT_SUM} terms and more are not exact in float32. Use a smaller K.")
    return limit


def compare(c: F32, a: F32, b: F32, *, unit_roundoff: float, exact: bool = False, normal: bool = False) -> Verdict:
    """Judge ``c`` (M, N) as float32 product of ``a`` (M, K) and ``b`` (K, N).

    In this order, so that a NaN can never slip through a comparison: an element that still holds the poison; one that
    is not finite where the product is; one that misses a NaN or an infinity of the product; then exactness
    (``exact``), else the componentwise bound, and with ``normal`` also the bound for normal data.

    Where |A||B| passes the largest float32, some order of summation may rightly reach an infinity of either sign (the
    product itself, or only a partial sum, may be past the range): an infinity is accepted there, a NaN never.

    Raises:
        InputError: the shapes do not fit.
    """
    _check_operands(a, b)
    (m, k), n = a.shape, b.shape[1]
    if c.shape != (m, n) or c.dtype != np.float32:
        raise InputError(f"C is {c.dtype} {c.shape}; a product of {a.shape} and {b.shape} is float32 {(m, n)}")
    loosest = _growth(k, unit_roundoff)
    strictest = min(loosest, 4 * math.sqrt(k) * unit_roundoff) if normal else loosest
    finite = _all_finite(a, b)
    wide_b = b.astype(np.float64)
    absolute_b = np.abs(wide_b)
    first: dict[Reason, Mismatch] = {}
    wrong, worst = 0, 0.0
    for rows in _row_chunks(m, max(n, k)):
        wide_a = a[rows].astype(np.float64)
        expected = _multiply(wide_a, wide_b, finite=finite)
        magnitude = np.zeros_like(expected) if exact else _multiply(np.abs(wide_a), absolute_b, finite=finite)
        floor = 0.0 if exact else k * SMALLEST_SUBNORMAL
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


def _growth(k: int, u: float) -> float:
    return gamma(k, u) if k * u < 1 else k * u


def _multiply(a: F64, b: F64, *, finite: bool) -> F64:
    if finite:
        return np.asarray(a @ b)
    with np.errstate(invalid="ignore"):
        # einsum, not BLAS: some BLAS kernels skip zeros, and 0 * inf must be NaN.
        return np.asarray(np.einsum("mk,kn->mn", a, b, optimize=False))


def _all_finite(a: F32, b: F32) -> bool:
    return bool(np.isfinite(a).all() and np.isfinite(b).all())


def _allowed(a: F32, b: F32, factor: float) -> F64:
    return np.asarray(reference(np.abs(a), np.abs(b)) * factor + a.shape[-1] * SMALLEST_SUBNORMAL)


def _row_chunks(m: int, columns: int) -> Iterator[slice]:
    """Row ranges that keep float64 temporaries small at any M."""
    step = max(1, ROWS_A_CHUNK_ELEMENTS // max(1, columns))
    for start in range(0, m, step):
        yield slice(start, min(start + step, m))


def _check_operands(a: F32, b: F32) -> None:
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise InputError(f"A {a.shape} and B {b.shape} do not multiply; give A (M, K) and B (K, N)")
    if a.dtype != np.float32 or b.dtype != np.float32:
        raise InputError(f"A is {a.dtype} and B is {b.dtype}; give float32")
