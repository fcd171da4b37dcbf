"""The oracle: what C = A @ B must be in float32, and how far from it an element may lie. Pure arithmetic.

The bounds hold for any order of summation, fused or not, so that one oracle judges every rung.

Source: N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM 2002, sections 2.2 and 3.1-3.5.
"""

from __future__ import annotations

from ladder.oracle._bounds import (
    EXACT_SUM,
    POISON_BITS,
    bound,
    exact_integer_limit,
    gamma,
    normal_bound,
    poison,
    reference,
)
from ladder.oracle._compare import Known, Mismatch, Verdict, compare, known

__all__ = [
    "EXACT_SUM",
    "POISON_BITS",
    "Known",
    "Mismatch",
    "Verdict",
    "bound",
    "compare",
    "exact_integer_limit",
    "gamma",
    "known",
    "normal_bound",
    "poison",
    "reference",
]
