"""What C = A @ B must be in float64, and how far from it an element may lie. Pure arithmetic."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ladder.errors import InputError

__all__ = [
    "EXACT_SUM",
    "F32",
    "F64",
    "POISON_BITS",
    "SMALLEST_SUBNORMAL",
    "all_finite",
    "bound",
    "check_operands",
    "exact_integer_limit",
    "gamma",
    "growth",
    "multiplied",
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
    check_operands(a, b)
    return multiplied(a.astype(np.float64), b.astype(np.float64), finite=all_finite(a, b))


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
    return _allowed(a, b, growth(a.shape[-1], unit_roundoff))


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


def growth(k: int, u: float) -> float:
    """gamma_k, or k u where that does not exist."""
    return gamma(k, u) if k * u < 1 else k * u


def multiplied(a: F64, b: F64, *, finite: bool) -> F64:
    """The product of both; ``finite`` says that neither holds an infinity or a NaN."""
    if finite:
        return np.asarray(a @ b)
    with np.errstate(invalid="ignore"):
        # einsum, not BLAS: some BLAS kernels skip zeros, and 0 * inf must be NaN.
        return np.asarray(np.einsum("mk,kn->mn", a, b, optimize=False))


def all_finite(a: F32, b: F32) -> bool:
    """Neither holds an infinity or a NaN."""
    return bool(np.isfinite(a).all() and np.isfinite(b).all())


def _allowed(a: F32, b: F32, factor: float) -> F64:
    return np.asarray(reference(np.abs(a), np.abs(b)) * factor + a.shape[-1] * SMALLEST_SUBNORMAL)


def check_operands(a: F32, b: F32) -> None:
    """Refuse what are no matrices that multiply.

    Raises:
        InputError: they are none.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise InputError(f"A {a.shape} and B {b.shape} do not multiply; give A (M, K) and B (K, N)")
    if a.dtype != np.float32 or b.dtype != np.float32:
        raise InputError(f"A is {a.dtype} and B is {b.dtype}; give float32")
