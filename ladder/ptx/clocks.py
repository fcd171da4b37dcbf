"""Which shared-memory accesses are ordered, in kernels that synchronise less than a whole threadblock at a time.

Vector clocks, one a warp (Fidge 1988, Mattern 1988): ``know[v, u]`` is how many epochs of warp u are over as far as
warp v can tell; a warp's own entry is the epoch it is in. A warp's epoch ends when it passes ``__syncwarp`` or comes to
a barrier, and who leaves a barrier knows what all who came to it knew. An access of epoch e of warp u happens before
what warp v does now if ``e < know[v, u]``. For each granule of memory the last write and each warp's last read are
kept, which is enough to find a race if there is one (Flanagan and Freund, "FastTrack", PLDI 2009).

A ``__syncwarp`` of some lanes of a warp is taken to order the whole warp: a race between the lanes in its mask and the
others of that warp is not seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ladder.ptx.site import Site

__all__ = ["Clocks", "Report"]

WARP = 32
_NOBODY, _SEVERAL = -1, -2

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Known = NDArray[np.int32]


class Report(Protocol):
    """Raises the fault of two accesses to one granule that nothing orders."""

    def __call__(self, first: Site, lane: int, second: Site, other: int, granule: int, column: int) -> None:
        """``lane`` and ``other`` are threads; ``first`` came first in this run."""


@dataclass(slots=True)
class _Shadow:
    """The last access of one kind to each granule: its epoch + 1 (0 for none), its thread, its site's number."""

    epoch: NDArray[np.int32]
    thread: NDArray[np.int16]
    site: NDArray[np.int32]

    @classmethod
    def of(cls, *shape: int) -> _Shadow:
        return cls(np.zeros(shape, np.int32), np.full(shape, _NOBODY, np.int16), np.zeros(shape, np.int32))

    def widen(self, columns: int) -> _Shadow:
        return _Shadow(
            np.repeat(self.epoch, columns, axis=-1),
            np.repeat(self.thread, columns, axis=-1),
            np.repeat(self.site, columns, axis=-1),
        )


class Clocks:
    """Watches the shared memory of ``blocks`` threadblocks of ``threads`` threads, in ``granules`` granules.

    While all blocks do the same, one column stands for them all.
    """

    def __init__(self, granules: int, granule_bytes: int, threads: int, blocks: int, report: Report) -> None:
        self.threads, self.blocks = threads, blocks
        self._granule = granule_bytes
        self._report = report
        self._warps = -(-threads // WARP)
        self._columns = 1
        self._know: Known = np.zeros((self._warps, self._warps, 1), np.int32)
        self._write = _Shadow.of(granules, 1)
        self._read = _Shadow.of(granules, self._warps, 1)
        self._atomic: _Shadow | None = None
        self._sites: list[Site] = []
        self._number: dict[int, int] = {}

    # Order ------------------------------------------------------------------------------------------------------

    def sync_warps(self, mask: Bool | None) -> None:
        """``__syncwarp`` in the warps that have a lane in ``mask``."""
        lanes = np.ones((self.threads, 1), np.bool_) if mask is None else mask
        starts = np.arange(0, self.threads, WARP)
        whole = np.broadcast_to(lanes, (self.threads, lanes.shape[1]))
        self._tick(np.logical_or.reduceat(whole, starts, axis=0))

    def barrier(self, columns: Bool | None = None) -> None:
        """A barrier of all threads, in some of the blocks (None for all)."""
        if columns is not None and not columns.all():
            self._widen()
        chosen = slice(None) if columns is None or self._columns == 1 else columns
        own = np.diagonal(self._know)[chosen]  # (C, W)
        self._know[:, :, chosen] = own.T[None] + 1

    def depart(self, warps: Bool) -> Known:
        """Warps (W, B) come to a barrier: what they know together (W, B), and a new epoch for each of them."""
        mine = self._fit(warps)
        after = self._know + np.eye(self._warps, dtype=np.int32)[:, :, None]
        known: Known = np.where(mine[:, None, :], after, 0).max(axis=0)
        self._tick(mine)
        return np.broadcast_to(known, (self._warps, self.blocks))

    def join(self, warps: Bool, known: Known) -> None:
        """Warps (W, B) leave a barrier and know what those knew who came to it."""
        if self._columns == 1 and not (known == known[:, :1]).all():
            self._widen()
        mine = self._fit(warps)
        told = known[:, : mine.shape[1]] if self._columns == 1 else known
        self._know = np.where(mine[:, None, :], np.maximum(self._know, told[None]), self._know)

    def _tick(self, warps: Bool) -> None:
        mine = self._fit(warps)
        index = np.arange(self._warps)
        self._know[index, index] += mine

    def _fit(self, warps: Bool) -> Bool:
        """``warps`` in as many columns as the clocks have."""
        if self._columns == 1:
            if (warps == warps[:, :1]).all():
                return warps[:, :1]
            self._widen()
        return np.broadcast_to(warps, (self._warps, self.blocks))

    def _widen(self) -> None:
        if self._columns == self.blocks:
            return
        self._columns = self.blocks
        self._know = np.repeat(self._know, self.blocks, axis=2)
        self._write, self._read = self._write.widen(self.blocks), self._read.widen(self.blocks)
        if self._atomic is not None:
            self._atomic = self._atomic.widen(self.blocks)

    # Accesses ---------------------------------------------------------------------------------------------------

    def note(self, site: Site, byte: Int, mask: Bool | None) -> None:
        """Judge an access by what came before it, and remember it."""
        if byte.shape[1] > 1 or (mask is not None and mask.shape[1] > 1):
            self._widen()
        shape = (self.threads, self._columns)
        thread, column = np.nonzero(np.broadcast_to(True if mask is None else mask, shape))
        first = np.broadcast_to(byte, shape)[thread, column] // self._granule
        if id(site) not in self._number:
            self._number[id(site)] = len(self._sites)
            self._sites.append(site)
        for i in range(max(site.width_bytes // self._granule, 1)):
            self._access(site, first + i, thread, column)

    def _access(self, site: Site, granule: Int, thread: Int, column: Int) -> None:
        self._against_writes(site, granule, thread, column)
        if site.kind in {"red", "atom"}:
            self._against_each_warp(self._read, site, granule, thread, column)
            if self._atomic is None:
                self._atomic = _Shadow.of(*self._read.epoch.shape)
            self._keep(self._atomic, site, granule, thread, column)
            return
        if self._atomic is not None:
            self._against_each_warp(self._atomic, site, granule, thread, column)
        if site.kind == "ld":
            self._keep(self._read, site, granule, thread, column)
            return
        self._against_each_warp(self._read, site, granule, thread, column)
        self._write.thread[granule, column] = thread
        self._write.epoch[granule, column] = self._now(thread, column) + 1
        self._write.site[granule, column] = self._number[id(site)]
        # Two lanes of this very instruction may have met: only one of them is remembered.
        self._complain(
            self._write.thread[granule, column] != thread, self._write, (granule, column), site, granule, thread, column
        )

    def _against_writes(self, site: Site, granule: Int, thread: Int, column: Int) -> None:
        shadow, at = self._write, (granule, column)
        writer = shadow.thread[at].astype(np.int64)
        known = self._know[thread // WARP, np.maximum(writer, 0) // WARP, column]
        self._complain(
            (writer >= 0) & (writer != thread) & (shadow.epoch[at] > known), shadow, at, site, granule, thread, column
        )

    def _against_each_warp(self, shadow: _Shadow, site: Site, granule: Int, thread: Int, column: Int) -> None:
        warp = thread // WARP
        for same in (False, True):
            for other in range(self._warps):
                at = (granule, np.full_like(granule, other), column)
                unordered = ((warp == other) == same) & (shadow.epoch[at] > self._know[warp, other, column])
                self._complain(unordered & (shadow.thread[at] != thread), shadow, at, site, granule, thread, column)

    def _now(self, thread: Int, column: Int) -> Known:
        warp = thread // WARP
        epoch: Known = self._know[warp, warp, column]
        return epoch

    def _keep(self, shadow: _Shadow, site: Site, granule: Int, thread: Int, column: Int) -> None:
        at, now = (granule, thread // WARP, column), self._now(thread, column)
        crowded = (shadow.epoch[at] == now + 1) & (shadow.thread[at] != thread)
        shadow.epoch[at] = now + 1
        shadow.site[at] = self._number[id(site)]
        shadow.thread[at] = thread
        crowded |= shadow.thread[at] != thread
        shadow.thread[tuple(part[crowded] for part in at)] = _SEVERAL

    def _complain(
        self, bad: Bool, shadow: _Shadow, at: tuple[Any, ...], site: Site, granule: Int, thread: Int, column: Int
    ) -> None:
        if not bad.any():
            return
        # A race of two warps is told first: it asks for more than a race within one.
        apart = bad & (shadow.thread[at] // WARP != thread // WARP)
        worst = int(np.flatnonzero(apart if apart.any() else bad)[0])
        place = tuple(part[worst] for part in at)
        first = int(shadow.thread[place])
        if first == _SEVERAL:
            # Any other lane of that warp will do for the message.
            first = int(at[1][worst]) * WARP
            first += first == int(thread[worst])
        self._report(
            self._sites[int(shadow.site[place])],
            first,
            site,
            int(thread[worst]),
            int(granule[worst]),
            int(column[worst]),
        )
