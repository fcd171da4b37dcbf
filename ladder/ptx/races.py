"""Which shared-memory accesses are ordered, in kernels whose only barrier is ``__syncthreads()``.

Then nothing orders two threads within an epoch, and everything from one epoch to the next: accesses are noted as they
come and judged all at once when a barrier ends their epoch. Kernels that synchronise less than a threadblock need
:mod:`ladder.ptx.clocks`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ladder.ptx.clocks import WARP, Report
from ladder.ptx.site import Site

__all__ = ["Epochs"]

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_ATOMIC = frozenset(["red", "atom"])


@dataclass(slots=True)
class _Access:
    """One instruction's accesses: first byte of each lane, (T, 1) or (T, B), and who took part."""

    site: Site
    byte: Int
    mask: Bool | None


class Epochs:
    """Watches the shared memory of ``blocks`` threadblocks of ``threads`` threads, in ``granules`` granules."""

    def __init__(self, granules: int, granule_bytes: int, threads: int, blocks: int, report: Report) -> None:
        self.threads, self.blocks = threads, blocks
        self._granules, self._granule = granules, granule_bytes
        self._report = report
        self._open: list[_Access] = []

    def note(self, site: Site, byte: Int, mask: Bool | None) -> None:
        """Remember an access until a barrier ends its epoch."""
        self._open.append(_Access(site, byte, mask))

    def barrier(self, columns: Bool | None = None) -> None:
        """A barrier of all threads in some blocks (None for all): judge their accesses and forget them."""
        if columns is None or columns.all():
            self._judge(self._open)
            self._open = []
            return
        mine: list[_Access] = []
        rest: list[_Access] = []
        for access in self._open:
            mask = np.broadcast_to(True if access.mask is None else access.mask, (self.threads, self.blocks))
            for chosen, kept in ((mine, mask & columns), (rest, mask & ~columns)):
                if kept.any():
                    chosen.append(_Access(access.site, access.byte, kept))
        self._judge(mine)
        self._open = rest

    def _judge(self, accesses: list[_Access]) -> None:
        if not any(a.site.kind != "ld" for a in accesses):
            return
        columns = (
            1
            if all(a.byte.shape[1] == 1 and (a.mask is None or a.mask.shape[1] == 1) for a in accesses)
            else self.blocks
        )
        keys: dict[bool, list[Int]] = {False: [], True: []}
        lanes: dict[bool, list[Int]] = {False: [], True: []}
        for access in accesses:
            key, lane = self._flatten(access, columns)
            writes = access.site.kind != "ld"
            keys[writes].append(key)
            lanes[writes].append(lane)
        owner = np.full(self._granules * columns, -1, np.int64)
        written, writer = np.concatenate(keys[True]), np.concatenate(lanes[True])
        owner[written] = writer
        key, lane = np.concatenate(keys[False] + keys[True]), np.concatenate(lanes[False] + lanes[True])
        contested = (owner[key] >= 0) & (owner[key] != lane)
        apart = contested & (owner[key] // WARP != lane // WARP)
        # Races of two warps are told first: they ask for more than a race within one.
        first = np.unique(key[apart])
        for candidate in (*first, *np.setdiff1d(key[contested], first)):
            self._compare(accesses, int(candidate), columns)

    def _flatten(self, access: _Access, columns: int) -> tuple[Int, Int]:
        """Granule keys and threads of the lanes that took part, one entry for every granule."""
        shape = (self.threads, columns)
        chosen = np.nonzero(np.broadcast_to(True if access.mask is None else access.mask, shape))
        first = np.broadcast_to(access.byte, shape)[chosen] // self._granule
        count = max(access.site.width_bytes // self._granule, 1)
        key = np.concatenate([(first + i) * columns + chosen[1] for i in range(count)])
        return key, np.tile(chosen[0], count)

    def _compare(self, accesses: list[_Access], key: int, columns: int) -> None:
        """All pairs on one contested granule; reports one that nothing orders, of two warps if there is one.

        A pair of one warp asks for less than the barrier that a pair of two warps needs, so it is the second choice.
        """
        entries = []
        found: tuple[Site, int, Site, int] | None = None
        for access in accesses:
            keys, lanes = self._flatten(access, columns)
            entries += [(access.site, int(lane)) for lane in np.unique(lanes[keys == key])]
        for position, (first, lane) in enumerate(entries):
            for second, other in entries[position + 1 :]:
                kinds = {first.kind, second.kind}
                if lane == other or kinds == {"ld"} or kinds <= _ATOMIC:
                    continue
                if lane // WARP != other // WARP:
                    self._report(first, lane, second, other, key // columns, key % columns)
                found = found or (first, lane, second, other)
        if found is not None:
            self._report(*found, key // columns, key % columns)
