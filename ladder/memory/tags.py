"""Lines and tags: which 128-byte lines a global request can look up at once, and what lines that are missing cost.

L1 looks up four lines of a request in one pass, one in each of four tag banks. Hits of all passes leave as one access
to the data banks, but each pass with a line that has to be fetched is an access of its own, since its data come back on
their own. A reduction never hits: each of its passes is an access.

Measured on an H200: ``l1tex__t_set_conflicts_pipe_lsu`` and ``l1tex__data_pipe_lsu_wavefronts_mem_lgds`` of the
launches of ``cuda_src/probes/wavefronts.cu``, which ``bench/results/nvidia-h200/wavefront-probe.json`` holds and the
tests compare.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["LINE_BYTES", "TAG_BANKS", "line_gone", "tag_bank", "tag_passes", "tag_passes_array"]

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

LINE_BYTES = 128
"""What one tag of L1 stands for: four sectors."""

TAG_BANKS = 4

_LINE_SHIFT = 7
_FOLDS = (24, 12, 6, 3)
"""Shifts by multiples of three add bits of one residue to each other; addresses have fewer than 48 + 9 bits."""


def tag_bank(line: int) -> int:
    """The tag bank, 0 .. 3, of a line (address // 128).

    Its low two bits, to which the others are added as a polynomial over GF(2) modulo x^2 + x + 1. So the four lines of
    an aligned 512 bytes never meet. Exact for the set conflicts of all 237 single-block launches of loads, stores and
    copies that were measured, but for three that replay stores.
    """
    high = line >> 2
    for shift in _FOLDS:
        high ^= high >> shift
    return line & 3 ^ ((high ^ high >> 2) & 1 | ((high >> 1 ^ high >> 2) & 1) << 1)


def tag_passes(lanes: Mapping[int, int]) -> dict[int, int]:
    """The pass, from 0, in which the line of each lane (lane -> address) is looked up; lines come in lane order."""
    taken: Counter[int] = Counter()
    pass_of: dict[int, int] = {}
    for address in lanes.values():
        line = address // LINE_BYTES
        if line not in pass_of:
            bank = tag_bank(line)
            pass_of[line] = taken[bank]
            taken[bank] += 1
    return {lane: pass_of[address // LINE_BYTES] for lane, address in lanes.items()}


def tag_passes_array(addresses: IntArray, active: BoolArray) -> IntArray:
    """``tag_passes`` of each row: (R, 32) byte addresses and active lanes -> (R, 32); any number for inactive ones."""
    line = addresses >> _LINE_SHIFT
    lane = np.arange(line.shape[1])
    # The first lane on each lane's line, whose place in the queue of its bank is the pass.
    same = (line[:, :, None] == line[:, None, :]) & active[:, None, :]
    first = same.argmax(axis=2)
    leads = (first == lane) & active
    bank = _banks(line)
    ahead = (bank[:, :, None] == bank[:, None, :]) & leads[:, None, :] & (lane[None, :] < lane[:, None])
    return np.take_along_axis(ahead.sum(axis=2), first, axis=1)


def line_gone(addresses: IntArray, gone: BoolArray) -> BoolArray:
    """Lanes (R, 32) whose line has a lane of ``gone``: a line with any sector missing is looked up as missing."""
    line = addresses >> _LINE_SHIFT
    return np.asarray(((line[:, :, None] == line[:, None, :]) & gone[:, None, :]).any(axis=2))


def _banks(line: IntArray) -> IntArray:
    high = line >> 2
    for shift in _FOLDS:
        high = high ^ high >> shift
    return line & 3 ^ ((high ^ high >> 2) & 1 | ((high >> 1 ^ high >> 2) & 1) << 1)
