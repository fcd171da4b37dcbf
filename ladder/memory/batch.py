"""Wavefronts and sectors of many warp requests at once, in numpy.

The scalar functions of ``banks`` and ``sectors`` are the definition; these agree with them, request by request. They
are made for an emulator's inner loop, where the warps of all blocks issue the same instruction and most requests are
the same pattern at another place: each distinct pattern is counted once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from ladder.errors import InputError
from ladder.memory.arrays import (
    BoolArray,
    IntArray,
    first_of_run,
    log2,
    most_hit,
    sectors_array,
    sort_rows,
    wavefronts_array,
)
from ladder.memory.banks import Space, check_reduction_width, check_space, wavefronts
from ladder.memory.request import BANKS, FULL_WARP, SECTOR_BYTES, WARP_LANES, WORD_BYTES, check_width
from ladder.memory.sectors import reduction_sectors, sectors
from ladder.memory.tags import LINE_BYTES, line_gone, tag_passes_array

__all__ = [
    "fetching_wavefronts_batch",
    "place_matters",
    "reduction_sectors_batch",
    "reduction_wavefronts_batch",
    "sectors_batch",
    "unique_sectors",
    "wavefronts_batch",
]

_ROW_BYTES = WARP_LANES * 8
_FEW = 8
"""Up to so many distinct patterns are counted by the scalar definition, whose results are remembered."""

_SMALL = 256
"""Up to so many requests, comparing bytes is quicker than numpy's overhead."""

_ROWS_A_CHUNK = 512
"""Requests counted together by the array forms: their temporaries stay in the CPU's cache."""

_MIX: IntArray = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, WARP_LANES + 1, dtype=np.int64) | 1


@dataclass(frozen=True, slots=True, eq=False)
class _Rule:
    """What is counted: the scalar definition, the array form, and the shift in bytes that changes nothing."""

    period_bytes: int
    scalar: Callable[[IntArray, int], int]
    array: Callable[[IntArray, BoolArray | None], IntArray]


def wavefronts_batch(
    offsets: NDArray[np.integer],
    width_bytes: int,
    *,
    space: Space = "shared",
    store: bool = False,
    active: BoolArray | None = None,
) -> IntArray:
    """``wavefronts`` of each row.

    Args:
        offsets: (R, 32) byte offsets, multiples of the width where active.
        width_bytes: 1, 2, 4, 8 or 16.
        space: ``"shared"`` or ``"global"``.
        store: stores rather than loads.
        active: (R, 32) bool, the lanes that take part; None when all do.

    Returns:
        (R,) int64.

    Raises:
        InputError: wrong shape, dtype, width, space, or a misaligned offset.
    """
    check_space(space)
    check_width(width_bytes)
    merges = space == "shared" and not store and width_bytes > WORD_BYTES
    return _count(offsets, width_bytes, active, _wavefront_rule(width_bytes, merges))


def sectors_batch(addresses: NDArray[np.integer], width_bytes: int, *, active: BoolArray | None = None) -> IntArray:
    """``sectors`` of each row: (R, 32) byte addresses -> (R,) int64.

    Raises:
        InputError: wrong shape, dtype or width, or a misaligned address.
    """
    check_width(width_bytes)
    return _count(addresses, width_bytes, active, _sector_rule(width_bytes))


def fetching_wavefronts_batch(
    addresses: NDArray[np.integer], width_bytes: int, *, active: BoolArray, missing: BoolArray
) -> IntArray:
    """``fetching_wavefronts`` of each row: (R, 32) byte addresses, active lanes and missing ones -> (R,) int64.

    Raises:
        InputError: wrong shape, dtype or width, or a misaligned address.
    """
    check_width(width_bytes)
    filled, _ = _requests(addresses, width_bytes, active)
    counts = np.zeros(len(filled), np.int64)
    for start in range(0, len(filled), _ROWS_A_CHUNK):
        part = slice(start, start + _ROWS_A_CHUNK)
        rows, lanes = filled[part], active[part]
        gone = line_gone(rows, missing[part] & lanes) & lanes
        counts[part] = wavefronts_batch(rows, width_bytes, space="global", active=lanes & ~gone)
        turn = np.where(gone, tag_passes_array(rows, lanes), -1)
        for number in range(int(turn.max(initial=-1)) + 1):
            counts[part] += wavefronts_batch(rows, width_bytes, space="global", active=turn == number)
    return counts


def place_matters(addresses: NDArray[np.integer], width_bytes: int, *, active: BoolArray, reduces: bool) -> BoolArray:
    """Rows whose count may depend on which lines L1 looks up together, and so on where they are in memory.

    For the others any parting of the lines costs the same: one line, or lines whose banks conflict anyway.

    Args:
        addresses: (R, 32) byte addresses, multiples of the width where active; a shift of all by 128 changes nothing.
        width_bytes: bytes a lane accesses; 4 for reductions.
        active: (R, 32) lanes that take part.
        reduces: ``red`` rather than loads.

    Returns:
        (R,) bool.
    """
    filled, _ = _requests(addresses, width_bytes, active)
    if reduces:
        together = _count(filled, width_bytes, active, _REDUCTION_TOGETHER)
        return np.asarray(together != _count(filled, width_bytes, active, _REDUCTION_BY_LINES))
    out = np.zeros(len(filled), np.bool_)
    several = np.flatnonzero(((filled // LINE_BYTES) != (filled[:, :1] // LINE_BYTES)).any(axis=1))
    for start in range(0, len(several), _ROWS_A_CHUNK):
        part = several[start : start + _ROWS_A_CHUNK]
        rows, left = filled[part], active[part].copy()
        together = wavefronts_batch(rows, width_bytes, space="global", active=left)
        apart = np.zeros(len(part), np.int64)
        while left.any():
            # One line of each row after the other.
            first = rows[np.arange(len(part)), left.argmax(axis=1)]
            line = left & (rows // LINE_BYTES == first[:, None] // LINE_BYTES)
            apart += wavefronts_batch(rows, width_bytes, space="global", active=line)
            left &= ~line
        out[part] = apart != together
    return out


def reduction_wavefronts_batch(
    addresses: NDArray[np.integer], width_bytes: int = 4, *, active: BoolArray | None = None
) -> IntArray:
    """``reduction_wavefronts`` of each row: (R, 32) byte addresses -> (R,) int64.

    Raises:
        InputError: wrong shape, dtype or width, or a misaligned address.
    """
    check_reduction_width(width_bytes)
    filled, mask = _requests(addresses, width_bytes, active)
    lanes = np.ones(filled.shape, np.bool_) if mask is None else mask
    counts = _count(filled, width_bytes, mask, _REDUCTION_TOGETHER)
    placed = np.flatnonzero(counts != _count(filled, width_bytes, mask, _REDUCTION_BY_LINES))
    for start in range(0, len(placed), _ROWS_A_CHUNK):
        part = placed[start : start + _ROWS_A_CHUNK]
        rows = filled[part]
        turn = np.where(lanes[part], tag_passes_array(rows, lanes[part]), -1)
        counts[part] = sum(_together(rows, turn == number) for number in range(int(turn.max()) + 1))
    return counts


def reduction_sectors_batch(
    addresses: NDArray[np.integer], width_bytes: int = 4, *, active: BoolArray | None = None
) -> IntArray:
    """``reduction_sectors`` of each row: (R, 32) byte addresses -> (R,) int64.

    Raises:
        InputError: wrong shape, dtype or width, or a misaligned address.
    """
    check_reduction_width(width_bytes)
    return _count(addresses, width_bytes, active, _REDUCTION_SECTORS)


def unique_sectors(
    addresses: NDArray[np.integer], width_bytes: int, *, active: BoolArray | None = None
) -> tuple[IntArray, IntArray]:
    """The sectors that each request touches, for a cache model.

    Args:
        addresses: (R, 32) byte addresses, multiples of the width where active.
        width_bytes: 1, 2, 4, 8 or 16.
        active: (R, 32) bool; None when all lanes take part.

    Returns:
        (S,) request number and (S,) sector number (address // 32), by request, then by sector; S is the sum of
        ``sectors_batch``.

    Raises:
        InputError: wrong shape, dtype or width, or a misaligned address.
    """
    check_width(width_bytes)
    values, mask = _requests(addresses, width_bytes, active)
    ordered = sort_rows(values >> log2(SECTOR_BYTES), mask)
    request, position = np.nonzero(first_of_run(ordered))
    return request, ordered[request, position]


def _requests(
    values: NDArray[np.integer], width_bytes: int, active: BoolArray | None
) -> tuple[IntArray, BoolArray | None]:
    """int64 offsets and the mask, None when every lane is active; inactive lanes hold their row's first active offset.

    A row without an active lane holds zeros.
    """
    if values.ndim != 2 or values.shape[1] != WARP_LANES or values.dtype.kind not in "iu":
        raise InputError(f"offsets of shape {values.shape}, {values.dtype}: give integers of shape (requests, 32)")
    filled: IntArray = values.view(np.int64) if values.dtype == np.uint64 else values.astype(np.int64, copy=False)
    mask = None
    if active is not None:
        if active.shape != values.shape or active.dtype != np.bool_:
            raise InputError(f"active mask of shape {active.shape}, {active.dtype}: give bool of shape {values.shape}")
        if not active.all():
            mask = active
            first = np.arange(len(filled)), mask.argmax(axis=1)
            filled = np.where(mask, filled, (filled[first] * mask[first])[:, None])
    if width_bytes > 1 and int(np.bitwise_or.reduce(filled, axis=None)) & (width_bytes - 1):
        row, lane = (int(i[0]) for i in np.nonzero(filled & (width_bytes - 1)))
        raise InputError(
            f"request {row}, lane {lane}: offset {filled[row, lane]} is not a multiple of the width, {width_bytes} "
            f"bytes; align it or access it in narrower pieces"
        )
    return filled, mask


def _count(values: NDArray[np.integer], width_bytes: int, active: BoolArray | None, rule: _Rule) -> IntArray:
    """Apply ``rule`` to each row, once for each distinct pattern."""
    filled, mask = _requests(values, width_bytes, active)
    rows = len(filled)
    if rows == 0:
        return np.zeros(0, dtype=np.int64)
    pattern = filled - (filled[:, :1] & -rule.period_bytes)
    bits = None if mask is None else np.packbits(mask, axis=1, bitorder="little").view("<u4")[:, 0]
    if _same(pattern, bits):
        return np.full(rows, _remembered(rule, pattern[0].tobytes(), FULL_WARP if bits is None else int(bits[0])))
    if rows <= _FEW:
        picked, inverse = np.arange(rows), None
    else:
        picked, inverse = _distinct(pattern, bits)
    if len(picked) <= _FEW:
        blob = pattern[picked].tobytes()
        masks = [FULL_WARP] * len(picked) if bits is None else bits[picked].tolist()
        counts = np.array(
            [_remembered(rule, blob[i * _ROW_BYTES : (i + 1) * _ROW_BYTES], m) for i, m in enumerate(masks)],
            dtype=np.int64,
        )
    else:
        counts = np.concatenate(
            [
                rule.array(pattern[part], None if mask is None else mask[part])
                for part in (picked[start : start + _ROWS_A_CHUNK] for start in range(0, len(picked), _ROWS_A_CHUNK))
            ]
        )
    return counts if inverse is None else counts[inverse]


def _same(pattern: IntArray, bits: NDArray[np.uint32] | None) -> bool:
    if bits is not None and (bits != bits[0]).any():
        return False
    if len(pattern) <= _SMALL:
        blob = pattern.tobytes()
        return blob == blob[:_ROW_BYTES] * len(pattern)
    return bool((pattern == pattern[0]).all())


def _distinct(pattern: IntArray, bits: NDArray[np.uint32] | None) -> tuple[IntArray, IntArray | None]:
    """Rows that stand for all, and for each row its stand-in; (all rows, None) when grouping does not pay.

    Rows are grouped by a 64-bit hash and then compared, so that a collision costs time and never a wrong count.
    """
    rows = len(pattern)
    keys = pattern @ _MIX[:WARP_LANES]
    if bits is not None:
        keys += bits.astype(np.int64) * _MIX[WARP_LANES]
    _, picked, inverse = np.unique(keys, return_index=True, return_inverse=True)
    if (
        len(picked) > rows // 2
        or not np.array_equal(pattern, pattern[picked][inverse])
        or (bits is not None and not np.array_equal(bits, bits[picked][inverse]))
    ):
        return np.arange(rows), None
    return picked, inverse


@lru_cache(maxsize=4096)
def _remembered(rule: _Rule, pattern: bytes, active: int) -> int:
    return rule.scalar(np.frombuffer(pattern, dtype=np.int64), active)


@cache
def _wavefront_rule(width_bytes: int, merges: bool) -> _Rule:
    space: Space = "shared" if merges else "global"
    return _Rule(
        WORD_BYTES,
        lambda offsets, active: wavefronts(offsets, width_bytes, space=space, active=active),
        lambda offsets, mask: wavefronts_array(offsets, width_bytes, merges, mask),
    )


@cache
def _sector_rule(width_bytes: int) -> _Rule:
    return _Rule(
        SECTOR_BYTES,
        lambda addresses, active: sectors(addresses, width_bytes, active=active),
        sectors_array,
    )


def _together(addresses: IntArray, mask: BoolArray | None) -> IntArray:
    """The most lanes in one bank, wherever their lines are."""
    return most_hit(addresses & (LINE_BYTES - 1), mask, LINE_BYTES, BANKS)


def _by_lines(addresses: IntArray, mask: BoolArray | None) -> IntArray:
    """The same with each line on its own."""
    return most_hit(addresses, mask, LINE_BYTES, BANKS)


def _alone(array: Callable[[IntArray, BoolArray | None], IntArray]) -> Callable[[IntArray, int], int]:
    """An array form for one request and its mask's bits."""

    def count(addresses: IntArray, active: int) -> int:
        mask = (active >> np.arange(WARP_LANES) & 1).astype(np.bool_)
        return int(array(addresses[None, :], mask[None, :])[0])

    return count


_REDUCTION_TOGETHER = _Rule(WORD_BYTES, _alone(_together), _together)
_REDUCTION_BY_LINES = _Rule(LINE_BYTES, _alone(_by_lines), _by_lines)
_REDUCTION_SECTORS = _Rule(
    SECTOR_BYTES,
    lambda addresses, active: reduction_sectors(addresses, active=active),
    lambda addresses, mask: most_hit(addresses, mask, SECTOR_BYTES, SECTOR_BYTES // WORD_BYTES),
)
