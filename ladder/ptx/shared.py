"""Shared memory of a batch of threadblocks, watched: bounds, alignment, reads of unwritten bytes, and races.

Storage is (words, blocks): the lanes of many blocks that read one word take one contiguous row. Races are judged by
meaning, not by the order in which lanes happened to run: two threads, one word, at least one write, and no barrier in
between. So a lucky schedule hides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ladder.errors import KernelFaultError
from ladder.ptx.clocks import Clocks
from ladder.ptx.races import Epochs
from ladder.ptx.site import Site

__all__ = ["SharedMemory"]

POISON = np.uint32(0xFFFFFFFF)
"""Unwritten words: a NaN, should the check for unwritten reads ever be passed by."""

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


class SharedMemory:
    """``size_bytes`` of shared memory for each of ``blocks`` threadblocks of ``threads`` threads.

    ``thread`` and ``block`` name a lane and a column for messages; ``variable`` names a byte offset.
    ``partial_syncs`` says that the kernel has barriers of less than a threadblock, which its races are judged by.

    Attributes:
        guard: called with site, bytes and mask of every access that is in bounds; it may raise.
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
        partial_syncs: bool = False,
    ) -> None:
        self.size_bytes = size_bytes
        self.threads, self.blocks = threads, blocks
        self.words = np.full((-(-size_bytes // 4), blocks), POISON, np.uint32)
        self._floats = self.words.view(np.float32)
        self.granule_bytes = granule_bytes
        self.guard: Callable[[Site, Int, Bool | None], None] | None = None
        granules = -(-size_bytes // granule_bytes)
        self._written = np.zeros((granules, 1), np.bool_)
        order = Clocks if partial_syncs else Epochs
        self.order: Clocks | Epochs = order(granules, granule_bytes, threads, blocks, self._race)
        self._proved: dict[int, tuple[Any, Any, Int]] = {}
        self._thread, self._block, self._variable = thread, block, variable
        self._columns = np.arange(blocks)[None, :]

    # Access -----------------------------------------------------------------------------------------------------

    def load(self, site: Site, address: NDArray[Any], mask: Bool | None) -> tuple[NDArray[Any], ...]:
        """The elements at ``address + site.offset`` for every lane, each broadcastable to (T, B)."""
        byte = self.locate(site, address, mask, reading=True)
        self.order.note(site, byte, mask)
        size = site.dtype.itemsize
        return tuple(self.get(byte + size * i if i else byte, site.dtype) for i in range(site.elements))

    def store(self, site: Site, address: NDArray[Any], values: tuple[NDArray[Any], ...], mask: Bool | None) -> None:
        """Write one element per lane and vector position."""
        byte = self.locate(site, address, mask, reading=False)
        self.order.note(site, byte, mask)
        for i, value in enumerate(values):
            self.put(byte + site.dtype.itemsize * i, value, mask, site.dtype)
        self.mark(byte, mask, site.width_bytes)

    def atomic(self, site: Site, address: NDArray[Any], mask: Bool | None) -> Int:
        """Check an atomic access and return its byte offsets; atomics do not race with each other."""
        byte = self.locate(site, address, mask, reading=True)
        self.order.note(site, byte, mask)
        return byte

    def get(self, byte: Int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """One element a lane, unwatched."""
        size = dtype.itemsize
        if size == 8:
            low, high = self.get(byte, np.dtype(np.uint32)), self.get(byte + 4, np.dtype(np.uint32))
            both: NDArray[Any] = ((high.astype(np.uint64) << np.uint64(32)) | low).view(dtype)
            return both
        words = self._floats if dtype == np.float32 else self.words
        index = byte >> 2
        got: NDArray[Any] = words.take(index[:, 0], axis=0) if index.shape[1] == 1 else words[index, self._columns]
        if size == 4:
            return got if got.dtype == dtype else got.view(dtype)
        shifted = got >> ((byte & 3) * 8).astype(np.uint32)
        return shifted.astype(np.dtype(f"u{size}")).view(dtype)

    def put(self, byte: Int, value: NDArray[Any], mask: Bool | None, dtype: np.dtype[Any]) -> None:
        """Write one element a lane, unwatched."""
        size = dtype.itemsize
        if size == 8:
            both = value.view(np.uint64)
            self.put(byte, both.astype(np.uint32), mask, np.dtype(np.uint32))
            self.put(byte + 4, (both >> np.uint64(32)).astype(np.uint32), mask, np.dtype(np.uint32))
            return
        bits = value.view(np.dtype(f"u{size}"))
        if size < 4:
            # Two lanes may hold parts of one word: each part is merged on its own.
            for part in range(0, 4, size):
                here = (byte & 3) == part
                chosen = here if mask is None else here & mask
                if chosen.any():
                    old = self.get(byte & ~np.int64(3), np.dtype(np.uint32))
                    keep = ~np.uint32((2 ** (8 * size) - 1) << (8 * part))
                    merged = (old & keep) | (bits.astype(np.uint32) << np.uint32(8 * part))
                    self.put(byte & ~np.int64(3), merged, chosen, np.dtype(np.uint32))
            return
        index = byte >> 2
        if index.shape[1] == 1 and (mask is None or mask.shape[1] == 1):
            rows = index[:, 0]
            if len(rows) == 1 and (mask is not None or len(bits) > 1):
                rows = np.broadcast_to(rows, (self.threads,))
            if mask is not None:
                lanes = np.flatnonzero(np.broadcast_to(mask[:, 0], (len(rows),)))
                rows = rows[lanes]
                bits = bits[lanes] if len(bits) > 1 else bits
            self.words[rows] = bits
            return
        shape = (self.threads, self.blocks)
        chosen = np.ones(shape, np.bool_) if mask is None else np.broadcast_to(mask, shape)
        where_t, where_b = np.nonzero(chosen)
        self.words[np.broadcast_to(index, shape)[where_t, where_b], where_b] = np.broadcast_to(bits, shape)[
            where_t, where_b
        ]

    # Faults -----------------------------------------------------------------------------------------------------

    def locate(self, site: Site, address: NDArray[Any], mask: Bool | None, *, reading: bool) -> Int:
        """Byte offsets of the lanes, proved in bounds, aligned and (for reads) written."""
        known = self._proved.get(site.index)
        if known is not None and known[0] is address and known[1] is mask:
            byte, proved = known[2], True
        else:
            byte = address.astype(np.int64) + site.offset
            # Memory only ever goes from unwritten to written, so what was proved once stays proved.
            proved = known is not None and mask is None and known[1] is None and np.array_equal(byte, known[2])
        if not proved:
            bad = (byte < 0) | (byte > self.size_bytes - site.width_bytes)
            self._refuse(site, byte, bad, mask, "out of bounds")
            if mask is not None:
                byte = np.where(mask, byte, 0)
            bad = (byte & (site.width_bytes - 1)) != 0
            self._refuse(site, byte, bad, mask, "misaligned")
        if self.guard is not None:
            self.guard(site, byte, mask)
        if reading and not proved:
            unit = byte // self.granule_bytes
            bad = np.zeros(np.broadcast_shapes(unit.shape, (1, self._written.shape[1])), np.bool_)
            for i in range(max(site.width_bytes // self.granule_bytes, 1)):
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

    def mark(self, byte: Int, mask: Bool | None, width_bytes: int) -> None:
        """Note that somebody has written these bytes."""
        shape = (self.threads, self.blocks)
        uniform = byte.shape[1] == 1 and (mask is None or mask.shape[1] == 1)
        if not uniform and self._written.shape[1] == 1:
            self._written = np.repeat(self._written, self.blocks, axis=1)
        for i in range(max(width_bytes // self.granule_bytes, 1)):
            unit = byte // self.granule_bytes + i
            if uniform:
                rows = np.broadcast_to(unit[:, 0], (self.threads,))
                self._written[rows if mask is None else rows[np.broadcast_to(mask[:, 0], (self.threads,))]] = True
            else:
                chosen = np.nonzero(np.broadcast_to(True if mask is None else mask, shape))
                self._written[np.broadcast_to(unit, shape)[chosen], chosen[1]] = True

    # Races ------------------------------------------------------------------------------------------------------

    def sync_warps(self, mask: Bool | None) -> None:
        """``__syncwarp``: accesses of one warp before and after it are ordered."""
        if isinstance(self.order, Clocks):
            self.order.sync_warps(mask)

    def close(self, blocks: Bool | None = None) -> None:
        """A barrier of all threads of some blocks (None for all)."""
        self.order.barrier(blocks)

    def _race(self, first: Site, lane: int, second: Site, other: int, granule: int, column: int) -> NoReturn:
        verb = {"ld": "read", "st": "written", "red": "updated", "atom": "updated"}
        at = granule * self.granule_bytes
        raise KernelFaultError(
            "race",
            second.where,
            f"{self._variable(at)} is {verb[first.kind]} by thread {self._thread(lane)} at {first.where} and "
            f"{verb[second.kind]} by thread {self._thread(other)} at {second.where}, block "
            f"{self._block(column)}, with no barrier between. "
            f"Add {'__syncwarp()' if lane // 32 == other // 32 else '__syncthreads()'}.",
        )
