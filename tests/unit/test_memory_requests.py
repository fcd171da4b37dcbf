"""Known answers, refusals and properties of one warp request."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
from helpers.warp_requests import FULL, masks, patterns
from hypothesis import given
from hypothesis import strategies as st

from ladder.errors import InputError
from ladder.memory import (
    Space,
    fetching_wavefronts,
    reduction_sectors,
    reduction_wavefronts,
    sectors,
    tag_bank,
    wavefronts,
)

LANES = range(32)
EVEN = 0x55555555


def strided(stride_bytes: int, base: int = 0) -> list[int]:
    return [base + stride_bytes * lane for lane in LANES]


@pytest.mark.parametrize(
    ("stride_words", "expected"),
    [(0, 1), (1, 1), (2, 2), (3, 1), (4, 4), (8, 8), (16, 16), (32, 32), (33, 1), (64, 32)],
)
@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("space", ["shared", "global"])
def test_stride_in_words_sets_the_conflict(stride_words: int, expected: int, store: bool, space: Space) -> None:
    assert wavefronts(strided(4 * stride_words), 4, space=space, store=store) == expected


def test_one_word_of_padding_ends_the_conflict_of_a_column() -> None:
    column = [4 * (lane * 32) for lane in LANES]
    padded = [4 * (lane * 33) for lane in LANES]
    assert (wavefronts(column, 4), wavefronts(padded, 4)) == (32, 1)


@pytest.mark.parametrize(("width", "expected"), [(4, 1), (8, 2), (16, 4)])
def test_contiguous_lanes_move_128_bytes_a_wavefront(width: int, expected: int) -> None:
    assert wavefronts(strided(width), width) == expected
    assert wavefronts(strided(width), width, store=True) == expected
    assert wavefronts(strided(width), width, space="global") == expected


@pytest.mark.parametrize(
    ("width", "load", "store", "global_load"), [(4, 1, 1, 1), (8, 1, 2, 2), (16, 2, 4, 4)], ids=["b32", "v2", "v4"]
)
def test_broadcast_merges_groups_of_shared_loads_only(width: int, load: int, store: int, global_load: int) -> None:
    same = strided(0, base=256)
    assert wavefronts(same, width) == load
    assert wavefronts(same, width, store=True) == store
    assert wavefronts(same, width, space="global") == global_load


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ([16 * (lane // 2) for lane in LANES], 2),
        ([16 * (lane & ~2) for lane in LANES], 4),
        ([16 * (lane % 2) for lane in LANES], 2),
        ([16 * (lane % 4) for lane in LANES], 4),
        ([16 * (lane & ~4) for lane in LANES], 4),
        ([16 * (lane // 2) if lane < 31 else 256 for lane in LANES], 4),
    ],
    ids=["lane^1", "lane^2 with a conflict", "lane^2", "neither", "lane^4 does not count", "all but one pair"],
)
def test_v4_loads_merge_when_partners_agree(offsets: list[int], expected: int) -> None:
    assert wavefronts(offsets, 16) == expected


def test_inactive_partners_agree() -> None:
    assert wavefronts(strided(8), 8) == 2
    assert wavefronts(strided(8), 8, active=EVEN) == 2  # one group of 16 active lanes, 2 words apart over 64 words
    assert wavefronts([lane % 16 * 8 for lane in LANES], 8, active=EVEN) == 1
    assert wavefronts([lane % 16 * 8 for lane in LANES], 8, active=EVEN, store=True) == 2


@pytest.mark.parametrize("base", [4, 28, 64, 124, 128])
def test_a_base_off_the_line_costs_sectors_and_no_wavefronts(base: int) -> None:
    assert wavefronts(strided(4, base), 4) == 1
    assert wavefronts(strided(4, base), 4, space="global") == 1
    assert sectors(strided(4, base), 4) == (4 if base % 32 == 0 else 5)


@pytest.mark.parametrize(
    ("stride_bytes", "width", "expected"),
    [(0, 4, 1), (4, 4, 4), (8, 4, 8), (128, 4, 32), (4096, 4, 32), (8, 8, 8), (16, 16, 16), (1, 1, 1), (2, 2, 2)],
)
def test_sectors(stride_bytes: int, width: int, expected: int) -> None:
    assert sectors(strided(stride_bytes), width) == expected


@pytest.mark.parametrize(
    ("active", "wavefronts_b32", "wavefronts_v4", "sectors_b32"),
    [
        (0, 0, 0, 0),
        (1, 1, 1, 1),
        (1 << 31, 1, 1, 1),
        (0xFF, 1, 1, 1),
        (0xFFFF, 1, 2, 2),
        (0x00FF00FF, 1, 2, 2),
        (FULL, 1, 4, 4),
    ],
)
def test_partial_warps(active: int, wavefronts_b32: int, wavefronts_v4: int, sectors_b32: int) -> None:
    assert wavefronts(strided(4), 4, active=active) == wavefronts_b32
    assert wavefronts(strided(16), 16, active=active, store=True) == wavefronts_v4
    assert wavefronts(strided(16), 16, active=active, space="global") == wavefronts_v4
    assert sectors(strided(4), 4, active=active) == sectors_b32


def test_narrow_accesses_count_as_their_word() -> None:
    assert wavefronts(strided(1), 1) == 1
    assert wavefronts(strided(2, base=2), 2) == 1
    assert wavefronts(strided(128, base=3), 1) == 32
    assert wavefronts(strided(64, base=2), 2) == 16


def test_reductions_on_one_word_are_served_in_turn() -> None:
    assert reduction_wavefronts(strided(4)) == 1
    assert reduction_wavefronts(strided(0)) == 32
    assert reduction_wavefronts(strided(0), active=0xFF) == 8
    assert reduction_wavefronts(strided(0), active=0) == 0
    assert reduction_sectors(strided(4)) == 4
    assert reduction_sectors(strided(0)) == 32
    assert reduction_sectors([4 * (lane // 2) for lane in LANES]) == 4


def test_reductions_pay_for_each_pass_of_the_tags() -> None:
    rows = [4 * (lane % 4) + lane // 4 * 144 for lane in LANES]
    assert wavefronts(rows, 4, space="global") == 1
    assert reduction_wavefronts(rows) == 2
    assert reduction_wavefronts(rows, active=0xFFFF) == 1
    assert reduction_sectors(rows) == sectors(rows, 4) == 8


def test_lines_that_are_missing_are_fetched_four_at_a_time() -> None:
    lines = [lane * 132 for lane in LANES]
    assert wavefronts(lines, 4, space="global") == fetching_wavefronts(lines, 4, missing=0) == 1
    assert fetching_wavefronts(lines, 4, missing=FULL) == 8
    assert fetching_wavefronts(lines, 4, missing=1) == fetching_wavefronts(lines, 4, missing=0xF) == 2
    assert fetching_wavefronts(lines, 4, missing=0x01010101) == 5
    assert fetching_wavefronts(lines, 4, active=0xF, missing=0xF) == 1
    column = [lane * 128 for lane in LANES]
    assert wavefronts(column, 4, space="global") == fetching_wavefronts(column, 4, missing=0x1234) == 32


def test_a_line_with_a_missing_sector_is_missing_for_all_its_lanes() -> None:
    across = [4 + lane * 4 for lane in LANES]
    assert fetching_wavefronts(across, 4, missing=1 << 31) == 2
    assert fetching_wavefronts(across, 4, missing=1 | 1 << 31) == fetching_wavefronts(across, 4, missing=FULL) == 1


@pytest.mark.parametrize("start", range(0, 4096, 4))
def test_four_lines_of_an_aligned_window_lie_in_four_tag_banks(start: int) -> None:
    assert {tag_bank(line) for line in range(start, start + 4)} == {0, 1, 2, 3}


@pytest.mark.parametrize("width", [0, 3, 12, 32, -4])
def test_refuses_widths_that_no_lane_has(width: int) -> None:
    with pytest.raises(InputError, match="1, 2, 4, 8 or 16"):
        wavefronts([0] * 32, width)
    with pytest.raises(InputError, match="1, 2, 4, 8 or 16"):
        sectors([0] * 32, width)


def test_refuses_what_is_no_warp_request() -> None:
    with pytest.raises(InputError, match=r"32 offsets.*got 31"):
        wavefronts([0] * 31, 4)
    with pytest.raises(InputError, match="0x1ffffffff does not fit 32 lanes"):
        sectors([0] * 32, 4, active=0x1FFFFFFFF)
    with pytest.raises(InputError, match=r"lane 3: offset 12 is not a multiple of the width, 8"):
        wavefronts([0, 0, 0, 12, *[0] * 28], 8)
    with pytest.raises(InputError, match='"shared" and "global"'):
        wavefronts([0] * 32, 4, space=cast("Space", "local"))
    with pytest.raises(InputError, match="reduction of 8 bytes"):
        reduction_wavefronts([0] * 32, 8)
    with pytest.raises(InputError, match="reduction of 16 bytes"):
        reduction_sectors([0] * 32, 16)


def test_takes_numpy_offsets_and_ignores_inactive_ones() -> None:
    offsets = np.array(strided(4), dtype=np.uint64)
    offsets[7] = 13
    assert wavefronts(offsets, 4, active=FULL & ~(1 << 7)) == 1
    assert sectors(offsets, 4, active=FULL & ~(1 << 7)) == 4


@given(
    pattern=patterns(),
    active=masks(),
    width=st.sampled_from((4, 8, 16)),
    base=st.integers(0, 10**6),
    store=st.booleans(),
)
def test_shifting_all_lanes_changes_no_wavefront(
    pattern: tuple[int, ...], active: int, width: int, base: int, store: bool
) -> None:
    here, there = ([width * (o + shift) for o in pattern] for shift in (0, base))
    assert wavefronts(here, width, store=store, active=active) == wavefronts(there, width, store=store, active=active)


@given(pattern=patterns(), active=masks(), width=st.sampled_from((4, 8, 16)))
def test_bounds_and_order_of_the_counts(pattern: tuple[int, ...], active: int, width: int) -> None:
    offsets = [width * o for o in pattern]
    live = {offsets[lane] for lane in LANES if active >> lane & 1}
    load = wavefronts(offsets, width, active=active)
    plain = wavefronts(offsets, width, space="global", active=active)
    assert load <= plain == wavefronts(offsets, width, store=True, active=active) <= 32
    assert load * 128 >= len(live) * width
    assert (load == 0) == (active == 0)
    assert -(-len(live) * width // 32) <= sectors(offsets, width, active=active) <= len(live)


@given(pattern=patterns(), active=masks())
def test_a_reduction_costs_no_less_than_a_load(pattern: tuple[int, ...], active: int) -> None:
    addresses = [4 * o for o in pattern]
    lanes = active.bit_count()
    assert (
        wavefronts(addresses, 4, space="global", active=active)
        <= reduction_wavefronts(addresses, active=active)
        <= lanes
    )
    assert sectors(addresses, 4, active=active) <= reduction_sectors(addresses, active=active) <= lanes
