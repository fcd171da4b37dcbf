"""Wavefronts of ``cp.async`` (LDGSTS): copies from global to shared memory that pass by the registers.

``cp.async.cg`` fills shared memory straight from L2 and takes no wavefront of the data pipe. ``cp.async.ca`` goes
through L1: its lanes are served in groups of 32, 16 or 8 for 4, 8 and 16 bytes, as stores are. Each group reads its
words from the L1's banks and writes them to shared memory's, one word a bank at a time, the first write with the last
read. Lanes are never merged, not even when they name one word.

Measured on an H200: the 47 copies in ``bench/results/nvidia-h200/wavefront-probe.json``; exact for all but the 3 whose
sources lie on more than four lines that miss, for which nothing is added here. ncu counts these wavefronts neither as
loads nor as stores, but within ``l1tex__data_pipe_lsu_wavefronts``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ladder.memory.request import BANKS, WARP_LANES, WORD_BYTES

__all__ = ["copy_wavefronts_batch"]

_ROUND_BYTES = BANKS * WORD_BYTES


def copy_wavefronts_batch(
    sources: NDArray[np.int64],
    targets: NDArray[np.int64],
    width_bytes: int,
    *,
    reading: NDArray[np.bool_],
    writing: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Wavefronts of each row of ``cp.async.ca``.

    Args:
        sources: (R, 32) byte addresses in global memory, multiples of the width where ``reading``.
        targets: (R, 32) byte offsets in shared memory, multiples of the width where ``writing``.
        width_bytes: 4, 8 or 16.
        reading: (R, 32) bool, lanes that read their source (the others write zeros).
        writing: (R, 32) bool, lanes that take part.

    Returns:
        (R,) int64.
    """
    reads, writes = _passes(sources, width_bytes, reading), _passes(targets, width_bytes, writing)
    together: NDArray[np.int64] = (reads + writes - ((reads > 0) & (writes > 0))).sum(axis=1)
    return together


def _passes(places: NDArray[np.int64], width_bytes: int, active: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The most lanes that meet in one bank, (R, groups of lanes)."""
    slots = _ROUND_BYTES // width_bytes
    group = np.arange(WARP_LANES) // slots
    key = (np.arange(len(places))[:, None] * (WARP_LANES // slots) + group) * slots + places // width_bytes % slots
    met = np.bincount(key[active], minlength=len(places) * WARP_LANES).reshape(len(places), -1, slots)
    most: NDArray[np.int64] = met.max(axis=2)
    return most
