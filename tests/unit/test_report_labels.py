"""Labels side by side never overlap, keep their order and stay on the page."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ladder.report.labels import spread

positions = st.lists(st.floats(min_value=-5, max_value=15), max_size=30)


@given(positions, st.floats(min_value=0.01, max_value=3))
def test_gaps_order_and_limits(wanted: list[float], gap: float) -> None:
    got = spread(wanted, gap, 0.0, 10.0)
    fitting = min(gap, 10.0 / max(1, len(wanted) - 1))
    placed = sorted(got)
    assert all(-1e-9 <= at <= 10 + 1e-9 for at in got)
    assert all(b - a >= fitting - 1e-9 for a, b in pairwise(placed))
    for i, a in enumerate(wanted):
        for j, b in enumerate(wanted):
            assert not (a < b and got[i] > got[j])


@given(st.lists(st.integers(0, 10), unique=True, max_size=11))
def test_what_already_fits_stays(wanted: list[int]) -> None:
    assert spread([float(x) for x in wanted], 1.0, 0.0, 10.0) == pytest.approx(wanted)


def test_a_crowd_is_centred_on_itself() -> None:
    assert spread([5.0, 5.0, 5.0], 1.0, 0.0, 10.0) == pytest.approx([4.0, 5.0, 6.0])
    assert spread([], 1.0, 0.0, 10.0) == []


def test_a_crowd_at_the_edge_is_pushed_inside() -> None:
    assert spread([0.0, 0.0, 9.9], 1.0, 0.0, 10.0) == pytest.approx([0.0, 1.0, 9.9])
