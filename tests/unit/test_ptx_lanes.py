"""Address arrays over threads and blocks: the two terms they split into, and groups of equal masks."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from ladder.ptx.lanes import groups, rows_of_warps, split

sizes = st.tuples(st.integers(1, 40), st.integers(1, 6))


@given(shape=sizes, data=st.data())
def test_a_sum_of_a_thread_and_a_block_term_splits_into_them(shape: tuple[int, int], data: st.DataObject) -> None:
    threads, blocks = shape
    number = st.integers(0, 2**40)
    thread = data.draw(arrays.arrays(np.uint64, (threads, 1), elements=number))
    block = data.draw(arrays.arrays(np.uint64, (1, blocks), elements=number))
    for address in (thread + block, thread, block, thread[:1, :1]):
        terms = split(address, threads, blocks)
        assert terms is not None
        whole = np.broadcast_to(address, shape).astype(np.int64)
        np.testing.assert_array_equal(terms.thread[:, None] + terms.block[None, :], whole)


def test_a_product_of_thread_and_block_does_not_split() -> None:
    assert split(np.arange(3)[:, None] * np.arange(3)[None, :], 3, 3) is None


def test_addresses_of_32_bits_are_unsigned() -> None:
    terms = split(np.array([[0xFFFFFFFC]], np.uint32), 1, 1)
    assert terms is not None
    assert int(terms.thread[0] + terms.block[0]) == 0xFFFFFFFC


@given(shape=sizes, data=st.data())
def test_groups_hold_every_active_lane_once(shape: tuple[int, int], data: st.DataObject) -> None:
    threads, blocks = shape
    small = data.draw(st.sampled_from([(threads, blocks), (threads, 1), (1, blocks), (1, 1)]))
    mask: NDArray[Any] = data.draw(arrays.arrays(np.bool_, small))
    seen = np.zeros(shape, np.int64)
    for group in groups(mask, threads, blocks):
        lanes = np.ones(threads, np.bool_) if group.lanes is None else group.lanes
        chosen = np.arange(blocks) if group.blocks is None else group.blocks
        assert lanes.any()
        assert len(chosen)
        seen[np.ix_(lanes, chosen)] += 1
    np.testing.assert_array_equal(seen, np.broadcast_to(mask, shape))


def test_no_mask_is_one_group_of_all() -> None:
    assert list(groups(None, 4, 2)) == [(None, None)]


@given(threads=st.integers(1, 100), columns=st.integers(1, 3))
def test_the_last_warp_is_filled_up_with_zeros(threads: int, columns: int) -> None:
    values = np.arange(1, threads * columns + 1).reshape(threads, columns)
    rows = rows_of_warps(values, threads)
    assert rows.shape == (-(-threads // 32), 32, columns)
    np.testing.assert_array_equal(rows.reshape(-1, columns)[:threads], values)
    assert not rows.reshape(-1, columns)[threads:].any()
