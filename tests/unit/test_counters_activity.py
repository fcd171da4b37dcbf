"""Counters of warps become shares of their time, whatever the launches that a product is made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ladder.counters.metrics import (
    ELAPSED,
    FADD,
    FFMA,
    FMUL,
    ISSUED,
    OCCUPANCY,
    RESIDENT,
    STALLS,
    TENSOR,
    WARPS,
    activity_of,
    add_up,
    for_chip,
    warp_metrics,
)
from ladder.counters.ncu import Row

NAMES = warp_metrics((9, 0))
STALLED = {reason: f"smsp__warps_issue_stalled_{reason}.sum" for reason in STALLS}


def row(warps: float, resident: float, occupancy: float, **stalled: float) -> Row:
    values = dict.fromkeys(NAMES, 0.0) | {STALLED[reason]: cycles for reason, cycles in stalled.items()}
    values |= {WARPS: warps, RESIDENT: resident, ISSUED: resident / 2, ELAPSED: 2 * resident, OCCUPANCY: occupancy}
    return Row(kernel="k", values=values)


def test_shares_of_one_launch() -> None:
    activity = activity_of(add_up([row(1000, 100, 62.5, wait=300, mio_throttle=500)], for_chip(NAMES, (9, 0))))
    assert activity is not None
    assert activity.occupancy == 0.625
    assert activity.busy == 0.5
    assert activity.issue_active == 0.5
    # 50 of 1000 warp-cycles issued; what neither issued nor waited for a reason read here is left.
    assert activity.leading_stalls[:3] == (
        ("mio_throttle", 0.5),
        ("wait", 0.3),
        ("other", pytest.approx(1 - 0.5 - 0.3 - 0.05)),
    )
    assert activity.flop is None


def test_launches_weigh_by_the_cycles_that_they_take() -> None:
    """A pack of 100 cycles beside a product of 900 hardly shows, though its own occupancy is full."""
    rows = [row(1600, 100, 100.0, barrier=1600), row(3600, 900, 25.0, wait=1800)]
    activity = activity_of(add_up(rows, for_chip(NAMES, (9, 0))))
    assert activity is not None
    assert activity.occupancy == pytest.approx(0.1 * 1.0 + 0.9 * 0.25)
    assert activity.stalls["wait"] == pytest.approx(1800 / 5200)
    assert activity.stalls["barrier"] == pytest.approx(1600 / 5200)


def test_instructions_alone_are_counted_too() -> None:
    activity = activity_of({FADD: 1.0, FMUL: 2.0, FFMA: 3.0})
    assert activity is not None
    assert activity.flop == 9
    assert activity.occupancy is None
    assert activity.stalls == {}
    assert activity_of({}) is None


def test_only_compute_capability_9_0_has_warpgroups_to_wait_for() -> None:
    assert STALLED["gmma"] in warp_metrics((9, 0))
    assert STALLED["gmma"] not in (*warp_metrics((8, 0)), *warp_metrics((10, 0)))
    activity = activity_of(add_up([Row(kernel="k", values=dict.fromkeys(NAMES, 1.0))], for_chip(NAMES, (9, 0))))
    assert activity is not None
    assert set(activity.stalls) == {*STALLS, "other"}


@given(values=st.lists(st.integers(0, 10**12), min_size=len(NAMES), max_size=len(NAMES)))
def test_whatever_the_counters_say_shares_are_shares(values: list[int]) -> None:
    counted = {name: float(value) for name, value in zip(NAMES, values, strict=True)}
    activity = activity_of(counted | {OCCUPANCY: counted[OCCUPANCY] % 101})
    assert activity is not None
    assert activity.tensor_instructions == counted[TENSOR]
    assert all(0 <= share <= 1 for share in activity.stalls.values())
