"""The counts of ``banks`` and ``sectors`` as array arithmetic on (R, 32) offsets that are known to be sound.

A mask of None means that every lane is active.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ladder.memory.banks import group_lanes
from ladder.memory.request import SECTOR_BYTES, WORD_BYTES

__all__ = [
    "BoolArray",
    "IntArray",
    "first_of_run",
    "log2",
    "most_hit",
    "sectors_array",
    "sort_rows",
    "wavefronts_array",
]

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

NOWHERE = np.iinfo(np.int64).max
"""Stands for the word of an inactive lane; sorts last."""


def log2(power: int) -> int:
    """The exponent of a power of two: shifts are several times as quick as int64 division in numpy."""
    return power.bit_length() - 1


def sort_rows(values: IntArray, mask: BoolArray | None) -> IntArray:
    """Each row in order, inactive lanes last as ``NOWHERE``."""
    return np.sort(values if mask is None else np.where(mask, values, NOWHERE), axis=1)


def first_of_run(ordered: IntArray) -> BoolArray:
    """Where each new value begins, ``NOWHERE`` left out."""
    first = np.asarray(ordered != NOWHERE)
    first[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return first


def _tallest(rows: IntArray, columns: int, counted: BoolArray) -> IntArray:
    """(n, L) values -> (n,) the largest number of counted ones that share value % ``columns``, a power of two."""
    slots = (rows & (columns - 1)) + np.arange(0, len(rows) * columns, columns)[:, None]
    hits = np.bincount(slots[counted], minlength=len(rows) * columns)
    return np.asarray(hits.reshape(-1, columns).max(axis=1), dtype=np.int64)


def sectors_array(addresses: IntArray, mask: BoolArray | None) -> IntArray:
    """Distinct sectors of each row."""
    first = first_of_run(sort_rows(addresses >> log2(SECTOR_BYTES), mask))
    return np.asarray(first.sum(axis=1), dtype=np.int64)


def wavefronts_array(offsets: IntArray, width_bytes: int, merges: bool, mask: BoolArray | None) -> IntArray:
    """Wavefronts of each row; ``merges`` for shared loads of 8 and 16 bytes.

    An aligned access of ``unit`` bytes fills unit / 4 adjacent banks: count units in 128 / unit such columns.
    """
    columns = group_lanes(width_bytes)
    units = offsets >> log2(max(width_bytes, WORD_BYTES))
    counts = _groups(units, mask, columns, columns)
    if merges:
        agree = np.nonzero(_partners_agree(units, mask, 1) | _partners_agree(units, mask, 2))[0]
        if agree.size:
            counts[agree] = _groups(units[agree], None if mask is None else mask[agree], 2 * columns, columns)
    return counts


def _groups(units: IntArray, mask: BoolArray | None, lanes: int, columns: int) -> IntArray:
    """For each row, the sum over groups of ``lanes`` lanes of the most distinct units in one column."""
    ordered = sort_rows(units.reshape(-1, lanes), None if mask is None else mask.reshape(-1, lanes))
    tallest = _tallest(ordered, columns, first_of_run(ordered))
    return np.asarray(tallest.reshape(len(units), -1).sum(axis=1), dtype=np.int64)


def _partners_agree(units: IntArray, mask: BoolArray | None, distance: int) -> BoolArray:
    """Rows in which each pair of lanes (l, l ^ distance) has one offset or an inactive lane."""
    pairs = units.reshape(len(units), -1, 2, distance)
    agree = pairs[:, :, 0] == pairs[:, :, 1]
    if mask is not None:
        both = mask.reshape(pairs.shape)
        agree |= ~(both[:, :, 0] & both[:, :, 1])
    return np.asarray(agree.all(axis=(1, 2)))


def most_hit(addresses: IntArray, mask: BoolArray | None, block_bytes: int, columns: int) -> IntArray:
    """For each row, the sum over aligned blocks of the most lanes on one column (word % ``columns``)."""
    words = sort_rows(addresses >> log2(WORD_BYTES), mask)
    block = first_of_run(words >> log2(block_bytes // WORD_BYTES)).cumsum(axis=1) - 1
    blocks = int(block.max()) + 1
    slots = (block * columns) + (words & (columns - 1)) + np.arange(len(words))[:, None] * (blocks * columns)
    hits = np.bincount(slots[words != NOWHERE], minlength=len(words) * blocks * columns)
    return np.asarray(hits.reshape(len(words), blocks, columns).max(axis=2).sum(axis=1), dtype=np.int64)
