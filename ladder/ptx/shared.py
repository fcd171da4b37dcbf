"""Shared memory of a batch of threadblocks, watched: bounds, alignment, reads of unwritten bytes, and races.

Storage is (words, blocks): the lanes of many blocks that read one word take one contiguous row. Races are judged by
meaning, not by the order in which lanes happened to run: two threads, one word, at least one write, and no barrier in
between. So a lucky schedule hides nothing. Accesses are noted as they come and judged when a barrier ends their epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ladder.errors import KernelFaultError
from ladder.ptx.site import Site

__all__ = ["SharedMemory"]

POISON = np.uint32(0xFFFFFFFF)
"""Unwritten words: a NaN, should the check for unwritten reads ever be passed by."""

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


@dataclass(slots=True)
class _Access:
    """One instruction's accesses: first byte of each lane, (T, 1) or (T, B), and who took part."""

    site: Site
    byte: Int
    mask: Bool | None
    warp_epoch: NDArray[np.int32]


class SharedMemory:
    """``size_bytes`` of shared memory for each of ``blocks`` threadblocks of ``threads`` threads.

    ``thread`` and ``block`` name a lane and a column for messages; ``variable`` names a byte offset.
    """

    def __init__(
        self,
        size_bytes: int,
        threads: int,
        blocks: int,
        *,
        granule_bytes: int,
        thread: Callable[[int], str],
        block: Callable[[int], str],
        variable: Callable[[int], str],
    ) -> None:
        self.size_bytes = size_bytes
        self.threads, self.blocks = threads, blocks
        self.words = np.full((-(-size_bytes // 4), blocks), POISON, np.uint32)
        self._floats = self.words.view(np.float32)
        self._granule = granule_bytes
        self._written = np.zeros((-(-size_bytes // granule_bytes), 1), np.bool_)
        self._open: list[_Access] = []
        self._warp_epoch = np.zeros(-(-threads // 32), np.int32)
        self._warps_synced = False
        self._proved: dict[int, tuple[Any, Any, Int]] = {}
        self._thread, self._block, self._variable = thread, block, variable
        self._columns = np.arange(blocks)[None, :]

    # Access -----------------------------------------------------------------------------------------------------

    def load(self, site: Site, address: NDArray[Any], mask: Bool | None) -> tuple[NDArray[Any], ...]:
        """The elements at ``address + site.offset`` for every lane, each broadcastable to (T, B)."""
        byte = self._locate(site, address, mask, reading=True)
        self._open.append(_Access(site, byte, mask, self._warp_epoch))
        size = site.dtype.itemsize
        return tuple(self._get(byte + size * i if i else byte, site.dtype) for i in range(site.elements))

    def store(self, site: Site, address: NDArray[Any], values: tuple[NDArray[Any], ...], mask: Bool | None) -> None:
        """Write one element per lane and vector position."""
        byte = self._locate(site, address, mask, reading=False)
        self._open.append(_Access(site, byte, mask, self._warp_epoch))
        for i, value in enumerate(values):
            self._put(byte + site.dtype.itemsize * i, value, mask, site.dtype)
        self._mark(byte, mask, site.width_bytes)

    def atomic(self, site: Site, address: NDArray[Any], mask: Bool | None) -> Int:
        """Check an atomic access and return its byte offsets; atomics do not race with each other."""
        byte = self._locate(site, address, mask, reading=True)
        self._open.append(_Access(site, byte, mask, self._warp_epoch))
        return byte

    def _get(self, byte: Int, dtype: np.dtype[Any]) -> NDArray[Any]:
        size = dtype.itemsize
        if size == 8:
            low, high = self._get(byte, np.dtype(np.uint32)), self._get(byte + 4, np.dtype(np.uint32))
            both: NDArray[Any] = ((high.astype(np.uint64) << np.uint64(32)) | low).view(dtype)
            return both
        words = self._floats if dtype == np.float32 else self.words
        index = byte >> 2
        got: NDArray[Any] = words.take(index[:, 0], axis=0) if index.shape[1] == 1 else words[index, self._columns]
        if size == 4:
            return got if got.dtype == dtype else got.view(dtype)
        shifted = got >> ((byte & 3) * 8).astype(np.uint32)
        return shifted.astype(np.dtype(f"u{size}")).view(dtype)

    def _put(self, byte: Int, value: NDArray[Any], mask: Bool | None, dtype: np.dtype[Any]) -> None:
        size = dtype.itemsize
        if size == 8:
            both = value.view(np.uint64)
            self._put(byte, both.astype(np.uint32), mask, np.dtype(np.uint32))
            self._put(byte + 4, (both >> np.uint64(32)).astype(np.uint32), mask, np.dtype(np.uint32))
            return
        bits = value.view(np.dtype(f"u{size}"))
        if size < 4:
            # Two lanes may hold parts of one word: each part is merged on its own.
            for part in range(0, 4, size):
                here = (byte & 3) == part
                chosen = here if mask is None else here & mask
                if chosen.any():
                    old = self._get(byte & ~np.int64(3), np.dtype(np.uint32))
                    keep = ~np.uint32((2 ** (8 * size) - 1) << (8 * part))
                    merged = (old & keep) | (bits.astype(np.uint32) << np.uint32(8 * part))
                    self._put(byte & ~np.int64(3), merged, chosen, np.dtype(np.uint32))
            return
        index = byte >> 2
        if index.shape[1] == 1 and (mask is None or mask.shape[1] == 1):
            rows = index[:, 0]
            if mask is not None:
                lanes = np.flatnonzero(np.broadcast_to(mask[:, 0], len(rows)) if len(rows) > 1 else mask[:, 0])
                if len(rows) == 1:
                    rows, lanes = (
                        np.broadcast_to(rows, (self.threads,)),
                        np.flatnonzero(np.broadcast_to(mask[:, 0], (self.threads,))),
                    )
                rows = rows[lanes]
                bits = bits[lanes] if bits.shape[0] > 1 else bits
            self.words[rows] = bits
            return
        shape = (self.threads, self.blocks)
        chosen = np.ones(shape, np.bool_) if mask is None else np.broadcast_to(mask, shape)
        where_t, where_b = np.nonzero(chosen)
        self.words[np.broadcast_to(index, shape)[where_t, where_b], where_b] = np.broadcast_to(bits, shape)[
            where_t, where_b
        ]

    # Faults -----------------------------------------------------------------------------------------------------

    def _locate(self, site: Site, address: NDArray[Any], mask: Bool | None, *, reading: bool) -> Int:
        """Byte offsets of the lanes, proved in bounds, aligned and (for reads) written."""
        known = self._proved.get(site.index)
        if known is not None and known[0] is address and known[1] is mask:
            return known[2]
        byte = address.astype(np.int64) + site.offset
        if known is not None and mask is None and known[1] is None and np.array_equal(byte, known[2]):
            # Memory only ever goes from unwritten to written, so what was proved once stays proved.
            self._proved[site.index] = (address, mask, known[2])
            return known[2]
        bad = (byte < 0) | (byte > self.size_bytes - site.width_bytes)
        self._refuse(site, byte, bad, mask, "out of bounds")
        if mask is not None:
            byte = np.where(mask, byte, 0)
        bad = (byte & (site.width_bytes - 1)) != 0
        self._refuse(site, byte, bad, mask, "misaligned")
        if reading:
            unit = byte // self._granule
            bad = np.zeros(np.broadcast_shapes(unit.shape, (1, self._written.shape[1])), np.bool_)
            for i in range(max(site.width_bytes // self._granule, 1)):
                bad |= ~self._seen(unit + i)
            self._refuse(site, byte, bad, mask, "uninitialised")
        self._proved[site.index] = (address, mask, byte)
        return byte

    def _seen(self, unit: Int) -> Bool:
        if self._written.shape[1] == 1:
            seen: Bool = self._written[unit, 0]
        elif unit.shape[1] == 1:
            seen = self._written[unit[:, 0]]
        else:
            seen = self._written[unit, self._columns]
        return seen

    def _refuse(self, site: Site, byte: Int, bad: Bool, mask: Bool | None, kind: str) -> None:
        if mask is not None and bad.any():
            bad = bad & mask
        if not bad.any():
            return
        shape = (self.threads, self.blocks)
        block, thread = (int(i[0]) for i in np.nonzero(np.broadcast_to(bad, shape).T))
        at = int(np.broadcast_to(byte, shape)[thread, block])
        what = {
            "out of bounds": f"{site.width_bytes}-byte shared access at byte {at} of {self.size_bytes}",
            "misaligned": f"{site.width_bytes}-byte shared access at byte {at} ({self._variable(at)})",
            "uninitialised": f"read of shared memory that nobody wrote, {self._variable(at)}",
        }[kind]
        raise KernelFaultError(
            kind, site.where, f"{what}, by thread {self._thread(thread)} of block {self._block(block)}"
        )

    def _mark(self, byte: Int, mask: Bool | None, width_bytes: int) -> None:
        shape = (self.threads, self.blocks)
        uniform = byte.shape[1] == 1 and (mask is None or mask.shape[1] == 1)
        if not uniform and self._written.shape[1] == 1:
            self._written = np.repeat(self._written, self.blocks, axis=1)
        for i in range(max(width_bytes // self._granule, 1)):
            unit = byte // self._granule + i
            if uniform:
                rows = np.broadcast_to(unit[:, 0], (self.threads,))
                self._written[rows if mask is None else rows[np.broadcast_to(mask[:, 0], (self.threads,))]] = True
            else:
                chosen = np.nonzero(np.broadcast_to(True if mask is None else mask, shape))
                self._written[np.broadcast_to(unit, shape)[chosen], chosen[1]] = True

    # Races ------------------------------------------------------------------------------------------------------

    def sync_warps(self, mask: Bool | None) -> None:
        """``__syncwarp``: accesses of one warp before and after it are ordered."""
        if self._open:
            epoch = self._warp_epoch.copy()
            lanes = np.broadcast_to(True if mask is None else mask.any(axis=1), (self.threads,))
            epoch[np.unique(np.flatnonzero(lanes) // 32)] += 1
            self._warp_epoch, self._warps_synced = epoch, True

    def close(self, blocks: Bool | None = None) -> None:
        """A barrier: judge the epoch's accesses of the blocks (all of them for None) and forget them."""
        if blocks is None or blocks.all():
            self._judge(self._open)
            self._open, self._warps_synced = [], False
            return
        mine: list[_Access] = []
        rest: list[_Access] = []
        for access in self._open:
            mask = np.broadcast_to(True if access.mask is None else access.mask, (self.threads, self.blocks))
            for chosen, kept in ((mine, mask & blocks), (rest, mask & ~blocks)):
                if kept.any():
                    chosen.append(_Access(access.site, access.byte, kept, access.warp_epoch))
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
        owner = np.full(len(self._written) * columns, -1, np.int64)
        written, writer = np.concatenate(keys[True]), np.concatenate(lanes[True])
        owner[written] = writer
        contested = [written[owner[written] != writer]]
        if keys[False]:
            read, reader = np.concatenate(keys[False]), np.concatenate(lanes[False])
            contested.append(read[(owner[read] >= 0) & (owner[read] != reader)])
        for key in np.unique(np.concatenate(contested)):
            self._compare(accesses, int(key), columns)

    def _flatten(self, access: _Access, columns: int) -> tuple[Int, Int]:
        """Granule keys and threads of the lanes that took part, one entry for every granule."""
        shape = (self.threads, columns)
        chosen = np.nonzero(np.broadcast_to(True if access.mask is None else access.mask, shape))
        first = np.broadcast_to(access.byte, shape)[chosen] // self._granule
        count = max(access.site.width_bytes // self._granule, 1)
        key = np.concatenate([(first + i) * columns + chosen[1] for i in range(count)])
        return key, np.tile(chosen[0], count)

    def _compare(self, accesses: list[_Access], key: int, columns: int) -> None:
        """All pairs on one contested granule; raises for one that nothing orders, of two warps if there is one.

        A pair of one warp asks for less than the barrier that a pair of two warps needs, so it is the second choice.
        """
        entries = []
        found = None
        for access in accesses:
            keys, lanes = self._flatten(access, columns)
            entries += [(access, int(lane)) for lane in np.unique(lanes[keys == key])]
        for position, (first, lane) in enumerate(entries):
            for second, other in entries[position + 1 :]:
                if lane == other or (first.site.kind == "ld" and second.site.kind == "ld"):
                    continue
                if first.site.kind == second.site.kind == "atom" or {first.site.kind, second.site.kind} <= {
                    "atom",
                    "red",
                }:
                    continue
                same_warp = lane // 32 == other // 32
                if same_warp and first.warp_epoch[lane // 32] != second.warp_epoch[lane // 32]:
                    continue
                if not same_warp:
                    self._race(first, lane, second, other, key, columns, same_warp=False)
                found = found or (first, lane, second, other)
        if found is not None:
            self._race(*found, key, columns, same_warp=True)

    def _race(
        self, first: _Access, lane: int, second: _Access, other: int, key: int, columns: int, *, same_warp: bool
    ) -> NoReturn:
        column = key % columns
        verb = {"ld": "read", "st": "written", "red": "updated", "atom": "updated"}
        at = key // columns * self._granule
        raise KernelFaultError(
            "race",
            second.site.where,
            f"{self._variable(at)} is {verb[first.site.kind]} by thread {self._thread(lane)} at {first.site.where} and "
            f"{verb[second.site.kind]} by thread {self._thread(other)} at {second.site.where}, block "
            f"{self._block(column)}, with no barrier between. "
            f"Add {'__syncwarp()' if same_warp else '__syncthreads()'}.",
        )
