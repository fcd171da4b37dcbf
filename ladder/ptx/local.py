"""Local memory: each lane's own bytes, where arrays live that do not fit in registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladder.errors import KernelFaultError
from ladder.ptx.site import LOCAL_BASE, Site

__all__ = ["LocalMemory"]

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_POISON = np.uint8(0xFF)
"""Bytes that nobody wrote: a NaN, so that reading them shows."""


class LocalMemory:
    """``size_bytes`` for each of (T, B) lanes; ``lane`` names one, by thread and column, for messages."""

    def __init__(self, size_bytes: int, threads: int, blocks: int, *, lane: Callable[[int, int], str]) -> None:
        self.size_bytes = size_bytes
        self._shape = (threads, blocks)
        # Lane-major, and a multiple of 8 bytes a lane, so that elements of any width are a view.
        self._bytes = np.full((threads, blocks, -(-size_bytes // 8) * 8), _POISON, np.uint8)
        self._lane = lane
        self._lanes = np.arange(threads)[:, None], np.arange(blocks)[None, :]

    def load(self, site: Site, address: NDArray[Any], mask: Bool | None) -> tuple[NDArray[Any], ...]:
        """The elements at ``address + site.offset`` of each lane; (T, B) each.

        Raises:
            KernelFaultError: out of bounds or misaligned.
        """
        first = self._index(site, address, mask)
        view = self._bytes.view(site.dtype)
        return tuple(view[(*self._lanes, first + i)] for i in range(site.elements))

    def store(self, site: Site, address: NDArray[Any], values: tuple[NDArray[Any], ...], mask: Bool | None) -> None:
        """Write each lane's elements.

        Raises:
            KernelFaultError: out of bounds or misaligned.
        """
        first = np.broadcast_to(self._index(site, address, mask), self._shape)
        thread, block = np.nonzero(np.broadcast_to(True if mask is None else mask, self._shape))
        view = self._bytes.view(site.dtype)
        for i, value in enumerate(values):
            view[thread, block, first[thread, block] + i] = np.broadcast_to(value, self._shape)[thread, block]

    def _index(self, site: Site, address: NDArray[Any], mask: Bool | None) -> Int:
        """The first element of each lane's access, 0 outside ``mask``."""
        byte = address.astype(np.int64) + (site.offset - LOCAL_BASE)
        self._refuse(site, byte, (byte < 0) | (byte > self.size_bytes - site.width_bytes), mask, "out of bounds")
        self._refuse(site, byte, (byte & (site.width_bytes - 1)) != 0, mask, "misaligned")
        index: Int = byte // site.dtype.itemsize
        return index if mask is None else np.where(mask, index, 0)

    def _refuse(self, site: Site, byte: Int, bad: Bool, mask: Bool | None, kind: str) -> None:
        if mask is not None:
            bad = bad & mask
        if not bad.any():
            return
        block, thread = (int(i[0]) for i in np.nonzero(np.broadcast_to(bad, self._shape).T))
        at = int(np.broadcast_to(byte, self._shape)[thread, block])
        raise KernelFaultError(
            kind,
            site.where,
            f"{site.width_bytes}-byte local access at byte {at} of {self.size_bytes}, by {self._lane(thread, block)}",
        )
