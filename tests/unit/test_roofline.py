"""The nested roofline: the lowest bound wins, and each level is held against its own roof."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ladder.model import LEVELS, Level, Precision, Roofs
from ladder.roofline import PRODUCTS, ROOFED_LEVELS, pipe_level, pipe_of, place, ridge

ROOFS = Roofs(bytes_per_s={"dram": 4e12, "l2": 8e12, "sm": 32e12}, flop_per_s={"fp32": 64e12, "tf32": 400e12})

positive = st.floats(min_value=1e-4, max_value=1e4)
intensities = st.dictionaries(st.sampled_from(LEVELS), positive)


@pytest.mark.parametrize(
    ("intensity", "bound_by", "roof"),
    [
        ({"dram": 1.0, "l2": 4.0, "sm": 4.0}, "dram", 4e12),
        ({"dram": 8.0, "l2": 2.0, "sm": 4.0}, "l2", 16e12),
        ({"dram": 99.0, "l2": 99.0, "sm": 0.25}, "sm", 8e12),
        ({"dram": 99.0, "l2": 99.0, "sm": 0.25, "shared": 0.26}, "shared", 8e12),
        ({"dram": 99.0, "l2": 99.0, "sm": 0.25, "shared": 9.0}, "sm", 8e12),
        ({"dram": 99.0, "shared": 0.5}, "shared", 16e12),
        ({"dram": 99.0, "l2": 99.0, "sm": 99.0}, "fp32", 64e12),
        ({}, "fp32", 64e12),
    ],
)
def test_the_lowest_bound_binds(intensity: Mapping[Level, float], bound_by: str, roof: float) -> None:
    placement = place(intensity, ROOFS)
    assert (placement.bound_by, placement.roof_flop_per_s) == (bound_by, roof)
    assert placement.fraction is None


def test_the_pipe_is_called_shared_from_half_of_its_wavefronts_on() -> None:
    assert place({"sm": 0.1, "shared": 0.2}, ROOFS).bound_by == "shared"
    assert place({"sm": 0.1, "shared": 0.2001}, ROOFS).bound_by == "sm"


def test_the_pipe_without_shared_accesses_or_without_a_count_of_its_own() -> None:
    assert pipe_level({"sm": 0.1}) == "sm"
    assert pipe_level({"shared": 0.1}) == "shared"
    assert pipe_level({}) == "sm"


def test_asked_and_l1_are_no_roofs() -> None:
    placement = place({"asked": 1e-9, "l1": 1e-9, "dram": 99.0}, ROOFS)
    assert set(placement.bounds_flop_per_s) == {"dram", "fp32"}


def test_a_level_without_a_recorded_roof_bounds_nothing() -> None:
    bare = Roofs(bytes_per_s={"dram": 1e12}, flop_per_s={"fp32": 8e12})
    assert set(place({"dram": 1.0, "l2": 0.001, "sm": 0.001}, bare).bounds_flop_per_s) == {"dram", "fp32"}


def test_the_fraction_is_the_rate_over_the_lowest_roof() -> None:
    assert place({"dram": 1.0}, ROOFS, flop_per_s=3e12).fraction == pytest.approx(0.75)


def test_no_work_has_a_bound_of_zero_and_no_fraction() -> None:
    placement = place({"dram": 0.0}, ROOFS, flop_per_s=0.0)
    assert (placement.roof_flop_per_s, placement.fraction) == (0.0, None)


def test_another_pipe_has_its_own_peak() -> None:
    placement = place({"dram": 1000.0}, ROOFS, pipe="tf32")
    assert (placement.bound_by, placement.roof_flop_per_s) == ("tf32", 400e12)


def test_without_a_known_peak_the_levels_alone_bound() -> None:
    placement = place({"dram": 1000.0, "l2": 100.0}, ROOFS, pipe=None, flop_per_s=200e12)
    assert (placement.bound_by, placement.roof_flop_per_s, placement.fraction) == ("l2", 800e12, 0.25)
    assert set(placement.bounds_flop_per_s) == {"dram", "l2"}


@pytest.mark.parametrize("intensity", [{}, {"l1": 1.0}])
def test_what_nothing_bounds_has_no_place(intensity: Mapping[Level, float]) -> None:
    with pytest.raises(ValueError, match="no roof above"):
        place(intensity, ROOFS, pipe=None)


def test_a_kernel_runs_on_the_pipe_of_its_precision_if_its_peak_is_known() -> None:
    bare = Roofs(bytes_per_s={}, flop_per_s={"fp32": 8e12})
    expected: dict[Precision, tuple[str | None, str | None]] = {
        "fp32": ("fp32", "fp32"), "tf32": ("tf32", None), "fp32_split": ("tf32", None),
    }  # fmt: skip
    assert {name: (pipe_of(name, ROOFS), pipe_of(name, bare)) for name in expected} == expected


def test_a_split_product_takes_three_of_its_pipe() -> None:
    placement = place({"dram": 1000.0}, ROOFS, pipe="tf32", products=PRODUCTS["fp32_split"])
    assert (placement.bound_by, placement.roof_flop_per_s) == ("tf32", pytest.approx(400e12 / 3))
    # A memory that is lower still binds, and by the intensity of the work asked for, not of the products.
    assert place({"dram": 1.0}, ROOFS, pipe="tf32", products=3).bound_by == "dram"


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_an_impossible_intensity_or_rate_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="dram is"):
        place({"dram": value}, ROOFS)
    with pytest.raises(ValueError, match="rate is"):
        place({"dram": 1.0}, ROOFS, flop_per_s=value)


def test_an_unknown_pipe_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"'fp8'.*fp32, tf32"):
        place({"dram": 1.0}, ROOFS, pipe="fp8")


def test_the_ridge_is_where_slope_meets_ceiling() -> None:
    assert ridge(ROOFS, "dram") == 16
    assert ridge(ROOFS, "shared") == ridge(ROOFS, "sm") == 2
    assert ridge(ROOFS, "l2", pipe="tf32") == 50
    assert ridge(ROOFS, "l1") is None


@given(intensities)
def test_the_roof_is_the_least_of_all_bounds_and_never_above_the_peak(intensity: dict[Level, float]) -> None:
    placement = place(intensity, ROOFS)
    assert placement.roof_flop_per_s == min(placement.bounds_flop_per_s.values()) <= ROOFS.flop_per_s["fp32"]
    assert placement.bound_by in (*ROOFED_LEVELS, "fp32")


@given(intensities, st.sampled_from(ROOFED_LEVELS), st.floats(min_value=1.0, max_value=100.0))
def test_fewer_bytes_at_a_level_never_lower_the_roof(intensity: dict[Level, float], level: Level, gain: float) -> None:
    if level in intensity:
        better = {**intensity, level: intensity[level] * gain}
        assert place(better, ROOFS).roof_flop_per_s >= place(intensity, ROOFS).roof_flop_per_s


@given(positive, st.integers(2, 32))
def test_an_n_way_conflict_lowers_the_shared_bound_n_times(x: float, n: int) -> None:
    clean, hit = (place({"shared": value}, ROOFS).bounds_flop_per_s["shared"] for value in (x, x / n))
    assert clean / hit == pytest.approx(n)
