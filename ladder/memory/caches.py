"""L1, L2 and DRAM below the exact counts: a model, at the grain of threadblocks.

What a threadblock touches is exact; when it is evicted depends on the order in which a GPU runs blocks and warps, which
is free. The model's assumptions, each with its reason:

* An L1 keeps what its threadblock reads again while the block runs: the blocks of a tiled kernel stream through K, and
  what they return to is near.
* Blocks are issued in order. The first wave goes to the SMs in order; after that a block goes to whichever SM is free
  first, which is modelled as a fixed random order within every wave of as many blocks as there are SMs.
* Between blocks an L1 is least recently used, as large as shared memory leaves it. Stores and reductions go through.
* Blocks run in step in groups, and a group fetches from L2's point of view once what its blocks share. Where the SM's
  data pipe is what binds, the warp scheduler favours the oldest of an SM's blocks and the others lag behind it: a group
  is one block an SM. Otherwise all resident blocks advance together.
* L2 is least recently used between groups and writes back; reductions read and write there.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["CacheModel", "Caches", "Touched", "UnitLru"]

Sectors = NDArray[np.int64]

_SEED = 20090401  # any fixed number: the same launch must give the same counts on every machine


class Touched(NamedTuple):
    """(threadblock, sector) pairs, each once: the blocks' positions in their batch and the sectors' numbers."""

    block: Sectors
    sector: Sectors


class Caches(Protocol):
    """Takes the footprints of threadblocks, in order."""

    def blocks(self, numbers: Sectors, *, reads: Touched, updates: Touched, writes: Touched) -> None:
        """The next threadblocks, by linear index, and the sectors they touch, as pairs sorted by block."""
        ...


class UnitLru:
    """``caches`` least recently used, fully associative caches of ``capacity`` sectors each, side by side.

    What they hold are sectors, or objects of ``weights`` sectors each that come and go whole.

    Time passes in units, in each of which a cache takes one set of sectors, in the same order as the unit before. So
    between two uses of a sector lies as much as one unit takes, plus what the units in between took: once that exceeds
    the capacity, the sector is gone. A unit too large for the cache finds nothing of the one before.
    """

    def __init__(self, caches: int, sectors: int, capacity: int, *, weights: Sectors | None = None) -> None:
        self._sectors = sectors
        self._capacity = capacity
        self._weights = weights
        self._last = np.full(caches * sectors, -1, np.int32)
        self._dirty = np.zeros(caches * sectors, np.bool_)
        self._held = np.zeros((16, caches), np.int64)
        self._held_dirty = np.zeros((16, caches), np.int64)
        self._oldest = np.zeros(caches, np.int64)
        self._resident = np.zeros(caches, np.int64)
        self._now = -1
        self.written_back = 0

    def advance(self) -> None:
        """Begin the next unit."""
        self._now += 1
        if self._now == len(self._held):
            self._held = np.concatenate([self._held, np.zeros_like(self._held)])
            self._held_dirty = np.concatenate([self._held_dirty, np.zeros_like(self._held_dirty)])

    def touch(self, cache: Sectors, sector: Sectors, *, written: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
        """Use distinct (cache, sector) pairs in this unit; returns which were resident. ``written`` ones become dirty.

        A cache is used in one call a unit.
        """
        place = cache * self._sectors + sector
        weight = np.ones(len(sector), np.int64) if self._weights is None else self._weights[sector]
        own = np.zeros(len(self._oldest), np.int64)
        np.add.at(own, cache, weight)
        self._evict(own)
        before = self._last[place]
        hit: NDArray[np.bool_] = before >= self._oldest[cache]
        np.subtract.at(self._held, (before[hit], cache[hit]), weight[hit])
        dirty = self._dirty[place] & hit
        np.subtract.at(self._held_dirty, (before[dirty], cache[dirty]), weight[dirty])
        if written is not None:
            dirty |= written
        self._dirty[place] = dirty
        self._last[place] = self._now
        np.add.at(self._held[self._now], cache, weight)
        np.add.at(self._held_dirty[self._now], cache[dirty], weight[dirty])
        np.add.at(self._resident, cache[~hit], weight[~hit])
        return hit

    def _evict(self, own: Sectors) -> None:
        """Drop the oldest units that what came after them, and what each cache now takes, push out."""
        while True:
            held = self._held[self._oldest, np.arange(len(self._oldest))]
            newer = self._resident - held
            full = np.flatnonzero((own > 0) & (newer + own > self._capacity) & (self._oldest < self._now))
            if not len(full):
                return
            oldest = self._oldest[full]
            self._resident[full] = newer[full]
            self.written_back += int(self._held_dirty[oldest, full].sum())
            self._oldest[full] += 1


class CacheModel:
    """Feeds the footprints of a launch's threadblocks, in order, through per-SM L1 caches and one L2.

    Args:
        sectors: 32-byte sectors of all buffers together; sector numbers lie below it.
        sm_count: SMs of the device.
        l1_bytes: L1 left to an SM beside the shared memory of its resident blocks.
        l2_bytes: the device's L2.
        in_step: threadblocks that advance together, over all SMs.
    """

    def __init__(self, sectors: int, *, sm_count: int, l1_bytes: int, l2_bytes: int, in_step: int) -> None:
        self._sm_count = sm_count
        self._l1 = UnitLru(sm_count, sectors, l1_bytes // 32)
        self._l2 = UnitLru(1, sectors, l2_bytes // 32)
        self._in_step = in_step
        self._random = np.random.default_rng(_SEED)
        self._wave = self._group = -1
        self._order = np.arange(sm_count)
        self._fetched = np.zeros(sectors, np.bool_)
        self._written = np.zeros(sectors, np.bool_)
        self.l2_read_sectors = 0
        self.dram_read_sectors = 0

    def blocks(self, numbers: Sectors, *, reads: Touched, updates: Touched, writes: Touched) -> None:
        """The next threadblocks, by linear index, which never falls within a launch, and the sectors they touch.

        Reductions and atomics are ``updates``. Pairs are sorted by block.
        """
        waves, groups = numbers // self._sm_count, numbers // self._in_step
        cuts = np.flatnonzero((np.diff(waves) != 0) | (np.diff(groups) != 0)) + 1
        for first, last in zip([0, *cuts], [*cuts, len(numbers)], strict=True):
            if groups[first] != self._group:
                self._end_group()
                self._group = int(groups[first])
            self._start_wave(int(waves[first]))
            part = _between(reads, first, last)
            sm = self._order[numbers[part.block] % self._sm_count]
            missed = part.sector[~self._l1.touch(sm, part.sector)]
            self.l2_read_sectors += len(missed)
            updated = _between(updates, first, last).sector
            self._fetched[missed] = True
            self._fetched[updated] = True
            self._written[updated] = True
            self._written[_between(writes, first, last).sector] = True

    def end_launch(self) -> None:
        """Blocks of the next launch start at 0 again; the caches keep what they hold."""
        self._end_group()
        self._wave = self._group = -1

    @property
    def dram_write_sectors(self) -> int:
        """Dirty sectors that have left L2 so far."""
        return self._l2.written_back

    def _start_wave(self, wave: int) -> None:
        if wave == self._wave:
            return
        self._wave = wave
        self._l1.advance()
        self._order = self._random.permutation(self._sm_count) if wave else np.arange(self._sm_count)

    def _end_group(self) -> None:
        touched = np.flatnonzero(self._fetched | self._written)
        if len(touched):
            self._l2.advance()
            hit = self._l2.touch(np.zeros_like(touched), touched, written=self._written[touched])
            # A store brings whole sectors of its own, so only what was read or updated comes from DRAM.
            self.dram_read_sectors += int(np.count_nonzero(~hit & self._fetched[touched]))
        self._fetched[:] = False
        self._written[:] = False


def _between(pairs: Touched, first: int, last: int) -> Touched:
    start, end = np.searchsorted(pairs.block, (first, last))
    return Touched(pairs.block[start:end], pairs.sector[start:end])
