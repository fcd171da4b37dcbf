"""``ldmatrix``: a warp loads up to four 8 x 8 matrices of 16-bit elements from shared memory, a row an address.

Lane 8 j + i gives the address of row i of matrix j, 16 bytes; register j of lane l then holds elements 2 (l % 4) and
2 (l % 4) + 1 of row l // 4, or, transposed, of column l // 4 (PTX ISA, ``ldmatrix``). Each matrix is one wavefront when
its rows meet no bank twice. Bounds and alignment are judged by the lane that gives an address, races by the lanes that
receive what it points to.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ladder.ptx.site import Site
from ladder.ptx.warp import WARP

if TYPE_CHECKING:
    from ladder.ptx.batch import Batch

__all__ = ["MatrixLoads"]

Bool = NDArray[np.bool_]
Int = NDArray[np.int64]

_WORD, _HALF = np.dtype(np.uint32), np.dtype(np.uint16)


class MatrixLoads:
    """The matrix loads of a batch of threadblocks."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._lane = (np.arange(batch.threads) % WARP)[:, None]
        self._first = np.arange(batch.threads)[:, None] // WARP * WARP
        self._pieces: dict[tuple[int, np.dtype[Any]], Site] = {}

    def load(
        self, site: Site, address: NDArray[Any], count: int, mask: Bool | None, *, transposed: bool
    ) -> tuple[NDArray[np.uint32], ...]:
        """The ``count`` registers of each lane.

        Raises:
            KernelFaultError: ``divergent warp collective``, or what is wrong with a row.
        """
        batch, lane = self._batch, self._lane
        there = batch.warps.whole(site.where, site.op, mask)
        giving: Bool = lane < 8 * count
        if there is not None:
            if not there.any():
                return tuple(np.zeros((1, 1), np.uint32) for _ in range(count))
            giving = giving & batch.warps.spread(there)
        byte = batch.shared.locate(site, address, giving, reading=True)
        # Counted once it is known to be in bounds and aligned.
        if batch.counters is not None:
            batch.counters.shared(site, address, giving)
        rows = np.broadcast_to(byte, (batch.threads, byte.shape[1]))
        registers = []
        for matrix in range(count):
            if transposed:
                low, high = (
                    self._read(site, rows, 8 * matrix + 2 * (lane % 4) + i, 2 * (lane // 4), mask, _HALF)
                    for i in (0, 1)
                )
                registers.append(low.astype(np.uint32) | (high.astype(np.uint32) << np.uint32(16)))
            else:
                registers.append(self._read(site, rows, 8 * matrix + lane // 4, 4 * (lane % 4), mask, _WORD))
        return tuple(registers)

    def _read(
        self, site: Site, rows: Int, giver: Int, within: Int, mask: Bool | None, dtype: np.dtype[Any]
    ) -> NDArray[Any]:
        """What each lane finds ``within`` bytes into the row whose address lane ``giver`` of its warp gave."""
        key = site.index, dtype
        if key not in self._pieces:
            self._pieces[key] = replace(site, kind="ld", dtype=dtype, elements=1)
        # Only lanes of a partial last warp reach past the end, and those take no part.
        thread = np.minimum(self._first + giver, self._batch.threads - 1)
        byte = rows[thread[:, 0]] + within
        self._batch.shared.order.note(self._pieces[key], byte, mask)
        return self._batch.shared.get(byte, dtype)
