"""Data and judgements for products that split float32 operands, against the chain of fused multiply-adds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ladder.oracle import compare

__all__ = [
    "ENDS",
    "KINDS",
    "assert_as_float32",
    "at_the_ends",
    "normwise",
    "nothing_beside_much",
    "operands",
    "pairs_of_ends",
    "there_and_back",
]

F32 = NDArray[np.float32]
Pair = tuple[F32, F32]

KINDS = ("uniform", "normal", "scaled")
"""In [0, 1), standard normal, and that with the rows of A and the columns of B scaled over 12 decades."""

HUGE = 2.0**92
"""Operands from here on are not split: their rows and columns of C are those of the chain."""

MAX = np.finfo(np.float32).max


def of_bits(*bits: int) -> F32:
    return np.array(bits, np.uint32).view(np.float32)


_POSITIVE = np.concatenate(
    [
        np.array(
            [0.0, 1, 3, 4096, 1 / 3, np.pi * 2.0**20, np.inf, np.nan, MAX, MAX / 3, 2.0**115, 2.0**102], np.float32
        ),
        np.array([HUGE, HUGE * (1 - 2.0**-24), HUGE * (1 - 2.0**-12), 2.0**91 / 3], np.float32),
        # Whose squares are about the largest float32, and the largest sum that is not computed again.
        np.array([2.0**64 / 3, 2.0**63 * 1.7, 2.0**41 / 3, 2.0**40 * 1.7, 2.0**41], np.float32),
        # NaN that a tensor core reads as infinity, and the GPU's own.
        of_bits(0x7F800001, 0x7FFFFFFF),
        # The largest that TF32 holds, and the first two that it rounds to infinity.
        of_bits(0x7F7FE000, 0x7F7FF000, 0x7F7FF001),
        # Normal numbers whose second half is not, the smallest one, subnormal ones.
        np.array([2.0**-113 / 3, 2.0**-120 / 3, 2.0**-126, 2.0**-126 * 1.3], np.float32),
        of_bits(0x007FFFFF, 0x00412345, 0x00001FFF, 0x1001, 3, 1),
    ]
)
ENDS: F32 = np.concatenate([_POSITIVE, -_POSITIVE])


def operands(kind: str, k: int, *, m: int = 40, n: int = 56) -> Pair:
    """A (m, k) and B (k, n) of one of :data:`KINDS`."""
    rng = np.random.default_rng(k)
    if kind == "uniform":
        a, b = rng.random((m, k)), rng.random((k, n))
    else:
        a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    if kind == "scaled":
        a, b = a * 10.0 ** rng.uniform(-6, 6, (m, 1)), b * 10.0 ** rng.uniform(-6, 6, (1, n))
    return a.astype(np.float32), b.astype(np.float32)


def normwise(c: F32, a: F32, b: F32) -> float:
    """Error over result, in the Frobenius norm, with the scale of A's rows and of B's columns taken out of both.

    Left in, a scale over many decades would make the norms those of a handful of elements.
    """
    exact = a.astype(np.float64) @ b.astype(np.float64)
    scale = np.outer(np.abs(a).max(axis=1), np.abs(b).max(axis=0).astype(np.float64))
    return float(np.linalg.norm((c - exact) / scale) / np.linalg.norm(exact / scale))


def pairs_of_ends(others: int) -> Pair:
    """Every product of two :data:`ENDS`, with ``others`` (0, 1, 2) ordinary products in its sum."""
    more = np.array([1.0, -1.2345678][:others], np.float32)
    a = np.column_stack([ENDS, np.tile(more, (len(ENDS), 1))])
    b = np.vstack([ENDS, np.tile(more[::-1, None], (1, len(ENDS)))])
    return a, b


def at_the_ends(of_a: int, of_b: int) -> Pair:
    """Data up to 2^(of_a + 1) in A and 2^(of_b + 1) in B."""
    rng = np.random.default_rng(7)
    a = (rng.uniform(-2, 2, (33, 45)) * 2.0**of_a).astype(np.float32)
    b = (rng.uniform(-2, 2, (45, 37)) * 2.0**of_b).astype(np.float32)
    return a, b


def nothing_beside_much() -> Pair:
    """Zeros times large numbers, in sums of much smaller products: a zero has an exponent too, which must not count."""
    rng = np.random.default_rng(9)
    a, b = rng.uniform(1, 2, (33, 45)), rng.uniform(1, 2, (45, 37))
    a[:, ::3], b[::3] = a[:, ::3] * 2.0**80, 0
    a[:, 1::3], b[1::3] = 0, b[1::3] * 2.0**80
    a[:, 2::3], b[2::3] = a[:, 2::3] * 2.0**-50, b[2::3] * 2.0**-50
    return a.astype(np.float32), b.astype(np.float32)


def there_and_back() -> Pair:
    """Sums that pass the largest float32 and return; in some, a chain of fused multiply-adds is lost on the way."""
    rng = np.random.default_rng(8)
    a = (rng.choice((-1.0, 1.0), (40, 32)) * 2.0**64).astype(np.float32)
    return a, (rng.uniform(1, 2, (32, 40)) * 2.0**62).astype(np.float32)


def assert_as_float32(c: F32, chain: F32, a: F32, b: F32, *, unit_roundoff: float) -> None:
    """Within the bound; not finite exactly where the chain is not, and then the same; the same if operands are huge."""
    odd = ~np.isfinite(chain)
    assert (np.isfinite(c) == ~odd).all()
    assert np.array_equal(c[odd], chain[odd], equal_nan=True)
    verdict = compare(c, a, b, unit_roundoff=unit_roundoff)
    assert verdict.passed, verdict
    huge = np.logical_or.outer((np.abs(a) >= HUGE).any(axis=1), (np.abs(b) >= HUGE).any(axis=0))
    assert np.array_equal(c[huge], chain[huge], equal_nan=True)
