"""Which sectors each threadblock of a batch touched: a set of (block, sector) pairs that takes many at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["PairSet"]

Int = NDArray[np.int64]

_DENSE = 16
"""A list of pairs becomes a map once it is as long as a sixteenth of the map: sorting it would then cost more."""


class PairSet:
    """Pairs below (blocks, sectors); ``sectors`` is a multiple of 8. A list while few, then a map of cells."""

    def __init__(self, blocks: int, sectors: int) -> None:
        self._shape = (blocks, sectors)
        self._few: list[Int] = []
        self._count = 0
        self._map: NDArray[np.bool_] | None = None

    def add(self, block: NDArray[np.intp], sector: Int) -> None:
        """Add the pairs of two arrays that broadcast together."""
        if self._map is not None:
            self._map[block, sector] = True
            return
        keys = (block * self._shape[1] + sector).reshape(-1)
        self._few.append(keys)
        self._count += len(keys)
        if self._count > self._shape[0] * self._shape[1] // _DENSE:
            self._to_map()

    def has(self, block: NDArray[np.intp], sector: Int) -> NDArray[np.bool_]:
        """Which pairs of two arrays that broadcast together are in the set."""
        return np.asarray(self._to_map()[block, sector])

    def _to_map(self) -> NDArray[np.bool_]:
        if self._map is None:
            self._map = np.zeros(self._shape, np.bool_)
            if self._few:
                self._map.reshape(-1)[np.concatenate(self._few)] = True
            self._few = []
        return self._map

    def pairs(self) -> tuple[Int, Int]:
        """The blocks and the sectors of all pairs, each once, sorted by block."""
        if self._map is None:
            keys = np.unique(np.concatenate(self._few)) if self._few else np.zeros(0, np.int64)
        else:
            # Eight cells at a glance: most of the map is empty.
            words = np.flatnonzero(self._map.reshape(-1).view(np.uint64))
            word, cell = np.nonzero(self._map.reshape(-1, 8)[words])
            keys = words[word] * 8 + cell
        block, sector = np.divmod(keys, self._shape[1])
        return block, sector
