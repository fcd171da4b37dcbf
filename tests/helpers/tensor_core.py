"""Sums of TF32 products as an H200's tensor cores form them, to be put in the place of ``ladder.ptx.mma.product``.

The model is that of F. A. Khattak and M. Mikaitis, "Accurate models of NVIDIA tensor cores", arXiv:2512.07004, 2025:
the products of an instruction, and C, are cut to a multiple of 2^-25 of the largest power of two among them, and then
added exactly. The power of two of a product is that of one operand times that of the other, where a subnormal operand
has that of the smallest normal number; products that are zero do not count.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["product"]

F64 = NDArray[np.float64]

KEPT = 25
"""Bits below the largest product: float32's 23, and 2 more."""
LEAST_OPERAND, LEAST_SUM = -126, -133
"""The smallest exponent of an operand or of C, and that to which sums are aligned at least."""


def product(a: F64, b: F64, c: F64) -> F64:
    """A @ B + C for stacks of matrices (n, 16, 8), (n, 8, 8), (n, 16, 8), not yet rounded to float32."""
    assert a.shape[2] == 8, "an instruction with more products adds them eight by eight"
    x, y = a[:, :, :, None], b[:, None, :, :]
    with np.errstate(invalid="ignore", over="ignore"):
        terms = np.concatenate([x * y, c[:, :, None, :]], axis=2)
        exponents = np.concatenate([_exponent(x) + _exponent(y), _exponent(c)[:, :, None, :]], axis=2)
        top = np.where(terms == 0, LEAST_SUM, exponents).max(axis=2).clip(min=LEAST_SUM)
        unit = np.ldexp(1.0, top - KEPT)
        cut = np.trunc(terms / unit[:, :, None, :]).sum(axis=2) * unit
        return np.where(np.isfinite(terms).all(axis=2), cut, terms.sum(axis=2))


def _exponent(x: F64) -> NDArray[np.int32]:
    return np.maximum(np.frexp(x)[1] - 1, LEAST_OPERAND)
