"""Hypothesis strategies that several test modules share."""

from __future__ import annotations

from hypothesis import strategies as st

from ladder.model import Shape

__all__ = ["shapes"]


def shapes(largest: int, *, smallest: int = 0) -> st.SearchStrategy[Shape]:
    """Products with every side in ``smallest .. largest``."""
    side = st.integers(smallest, largest)
    return st.builds(lambda m, n, k: Shape(m=m, n=n, k=k), side, side, side)
