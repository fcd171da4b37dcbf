"""Where guarded arrays lie, and what is said of writes outside them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ladder.backends.guard import ALIGNMENT_BYTES, CANARY_BITS, GUARD_BYTES, Slot, change, stray_writes
from ladder.oracle import POISON_BITS


@given(words=st.integers(0, 10**6), offset=st.integers(0, 1000))
def test_an_array_has_whole_guards_on_both_sides(words: int, offset: int) -> None:
    slot = Slot(nbytes=4 * words, offset=offset)
    assert slot.start >= GUARD_BYTES
    assert slot.start % ALIGNMENT_BYTES == 4 * offset % ALIGNMENT_BYTES
    assert slot.end - slot.start == 4 * words
    assert slot.total_bytes - slot.end >= GUARD_BYTES
    assert slot.total_bytes % ALIGNMENT_BYTES == 0


@pytest.mark.parametrize(("nbytes", "offset"), [(-4, 0), (6, 0), (4, -1)])
def test_impossible_slots_are_refused(nbytes: int, offset: int) -> None:
    with pytest.raises(ValueError, match="offset >= 0"):
        Slot(nbytes=nbytes, offset=offset)


def test_guards_are_at_least_a_kilobyte_and_no_value_a_kernel_makes() -> None:
    assert GUARD_BYTES >= 1024
    assert np.isnan(np.uint32(CANARY_BITS).view(np.float32))
    assert CANARY_BITS not in {POISON_BITS, 0x7FFFFFFF, 0x7FC00000}


def canaries(words: int = 16) -> np.ndarray:
    return np.full(words, CANARY_BITS, np.uint32)


def test_whole_canaries_are_no_damage() -> None:
    assert stray_writes("C", canaries(), canaries()) is None
    assert stray_writes("C", canaries(0), canaries(0)) is None


@given(touched=st.sets(st.integers(0, 15), min_size=1))
def test_the_nearest_touched_word_is_told(touched: set[int]) -> None:
    spoiled = canaries()
    spoiled[list(touched)] = 0
    count = len(touched)
    assert stray_writes("C", canaries(), spoiled) == (
        f"wrote {count} words past the end of C, the first {4 * min(touched)} bytes after it"
    )
    assert stray_writes("C", spoiled, canaries()) == (
        f"wrote {count} words before C, the last {4 * (16 - max(touched))} bytes before it"
    )


def test_both_sides_are_told() -> None:
    spoiled = canaries()
    spoiled[3] = 1
    assert stray_writes("B", spoiled, spoiled) == (
        "wrote 1 words past the end of B, the first 12 bytes after it and 1 words before B, the last 52 bytes before it"
    )


def test_a_change_of_bits_counts_even_where_values_compare_equal() -> None:
    before = np.zeros((3, 4), np.float32)
    after = before.copy()
    assert change("A", before, after) is None
    after[1, 2] = -0.0
    assert change("A", before, after, first_row=10) == "changed its input A: [row 11, column 2] was 0, is -0"


def test_nan_inputs_that_stay_are_no_change() -> None:
    values = np.array([[np.nan, np.inf]], np.float32)
    assert change("B", values, values.copy()) is None
