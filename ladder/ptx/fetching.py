"""What global loads take more of the data pipe because lines are missing from L1, threadblock by threadblock.

A line is missing when a sector that the request needs has not been loaded before by its threadblock; requests of one
instruction come warp after warp. That leaves out what an earlier block of the SM has left in L1 and what L1 has had to
give up, which take wavefronts away and add some, and lines that are under way, for which a GPU makes other warps wait
as if they missed too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ladder.memory import SECTOR_BYTES, fetching_wavefronts_batch, place_matters, wavefronts_batch
from ladder.ptx.lanes import rows_of_warps
from ladder.ptx.touched import PairSet

__all__ = ["fetch_wavefronts", "first_touches"]

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


def fetch_wavefronts(
    address: Int, lanes: Bool | None, width_bytes: int, *, start: int, blocks: Int, loaded: PairSet
) -> int:
    """The wavefronts of one load instruction beyond what its banks take.

    Args:
        address: (T, B) byte addresses, those of ``blocks``.
        lanes: (T,) lanes that take part; None for all.
        width_bytes: bytes a lane loads.
        start: where the buffer begins.
        blocks: (B,) positions of the threadblocks in their batch.
        loaded: the buffer's (block, sector) pairs that were loaded before.
    """
    threads = len(address)
    rows = np.ascontiguousarray(np.moveaxis(rows_of_warps(address, threads), 2, 0))
    active = rows_of_warps(np.ones(threads, np.bool_) if lanes is None else lanes, threads)
    taking = np.broadcast_to(active, rows.shape).reshape(-1, 32)
    owner = np.repeat(blocks, rows.shape[1])
    flat = rows.reshape(-1, 32)
    several = np.flatnonzero(place_matters(flat, width_bytes, active=taking, reduces=False))
    if not len(several):
        return 0
    sector = np.where(taking, flat - start, 0) // SECTOR_BYTES
    gone = taking & ~loaded.has(owner[:, None], sector)
    gone &= first_touches(owner, sector, gone)
    chosen = several[gone[several].any(axis=1)]
    if not len(chosen):
        return 0
    some, mine = flat[chosen], taking[chosen]
    plain = wavefronts_batch(some, width_bytes, space="global", active=mine)
    return int((fetching_wavefronts_batch(some, width_bytes, active=mine, missing=gone[chosen]) - plain).sum())


def first_touches(owner: Int, sector: Int, gone: Bool) -> Bool:
    """Lanes (R, 32) of ``gone`` whose row is the first to touch its owner's sector."""
    row, lane = np.nonzero(gone)
    keys = owner[row] * (int(sector.max(initial=0)) + 1) + sector[row, lane]
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    out = np.zeros(gone.shape, np.bool_)
    out[row, lane] = row[first][inverse.reshape(-1)] == row
    return out
