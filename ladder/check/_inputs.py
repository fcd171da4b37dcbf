"""Matrices to multiply, by kind of data. The same shape, seed and kind give the same bits on every machine."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ladder.errors import InputError
from ladder.model import Shape
from ladder.oracle import exact_integer_limit

__all__ = ["DATA_KINDS", "EXACT_KINDS", "SEED", "DataKind", "inputs"]

F32 = NDArray[np.float32]

SEED = 20250131

DataKind = Literal["integers", "normal", "uniform", "cancellation", "tiny", "huge", "identity", "specials"]
DATA_KINDS: tuple[DataKind, ...] = get_args(DataKind)

EXACT_KINDS: frozenset[DataKind] = frozenset({"integers", "identity"})
"""Data whose product float32 holds exactly, in any order of summation."""


def inputs(shape: Shape, seed: int = SEED, kind: DataKind = "normal") -> tuple[F32, F32]:
    """A (M, K) and B (K, N), float32, C-contiguous, drawn from PCG64 seeded with ``seed``.

    * ``integers``: in [-8, 8], fewer where K is so large that sums would pass 2^24. The product is exact, so that an
      index that is wrong by one shows however small its share in the sum.
    * ``normal``: standard normal. Full mantissas, for timing too.
    * ``uniform``: in [-1, 1), full mantissas.
    * ``cancellation``: each pair of neighbours in K nearly cancels, so that C is about 2^-12 of |A||B|.
    * ``tiny``: products about 2^-140, in the range of subnormal numbers.
    * ``huge``: |A||B| within a factor 16 K of the largest float32, and below it.
    * ``identity``: row i of A picks row (i + 1) mod K of B (not i, so that a transposed A does not pass). Exact.
    * ``specials``: normal data with some infinities and NaN, which must reach their row or column of C and no other.

    Raises:
        InputError: no such kind, or K too large for exact integers.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    m, n, k = shape.m, shape.n, shape.k
    a: NDArray[np.float64]
    b: NDArray[np.float64]
    match kind:
        case "integers":
            limit = exact_integer_limit(k)
            a = rng.integers(-limit, limit, size=(m, k), endpoint=True).astype(np.float64)
            b = rng.integers(-limit, limit, size=(k, n), endpoint=True).astype(np.float64)
        case "normal":
            a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
        case "uniform":
            a, b = rng.uniform(-1, 1, (m, k)), rng.uniform(-1, 1, (k, n))
        case "cancellation":
            a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
            pairs = k // 2
            a[:, 1 : 2 * pairs : 2] = -a[:, 0 : 2 * pairs : 2]
            b[1 : 2 * pairs : 2] = b[0 : 2 * pairs : 2] * (1 + 2.0**-12 * rng.standard_normal((pairs, n)))
        case "tiny":
            a, b = rng.standard_normal((m, k)) * 2.0**-70, rng.standard_normal((k, n)) * 2.0**-70
        case "huge":
            # Entries below 2^(e + 1) in magnitude: K products stay below K 2^(2 e + 2) <= 2^126.
            exponent = (124 - math.ceil(math.log2(max(1, k)))) // 2
            a, b = _full_mantissa(rng, (m, k)) * 2.0**exponent, _full_mantissa(rng, (k, n)) * 2.0**exponent
        case "identity":
            a, b = np.zeros((m, k)), rng.uniform(-1, 1, (k, n))
            if k:
                rows = np.arange(m)
                a[rows, (rows + 1) % k] = 1
        case "specials":
            a, b = _sprinkle(rng, rng.standard_normal((m, k))), _sprinkle(rng, rng.standard_normal((k, n)))
            if a.size and b.size:
                # The last k is what a kernel that clamps its indices reads again.
                a[rng.integers(m), -1] = b[-1, rng.integers(n)] = np.inf
        case _:
            raise InputError(f"unknown kind of data {kind!r}; known: {', '.join(DATA_KINDS)}")
    return np.ascontiguousarray(a, dtype=np.float32), np.ascontiguousarray(b, dtype=np.float32)


def _full_mantissa(rng: np.random.Generator, size: tuple[int, int]) -> NDArray[np.float64]:
    """Magnitudes in [1, 2) with random signs."""
    return np.asarray(rng.uniform(1, 2, size) * rng.choice((-1.0, 1.0), size))


def _sprinkle(rng: np.random.Generator, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """About one special in 8 rows and columns."""
    if values.size:
        count = max(values.shape) // 8
        values.flat[rng.integers(values.size, size=count)] = rng.choice((np.inf, -np.inf, np.nan), count)
    return values
