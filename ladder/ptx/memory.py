"""Global memory of an emulated launch: buffers with red zones, and what a bad address is told."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladder.ptx.site import Site

__all__ = ["Buffer", "GlobalMemory"]

ALIGNMENT_BYTES = 256
"""What cudaMalloc guarantees, so what pointers are aligned to before an offset is added."""

RED_ZONE_BYTES = 1 << 20
"""No two buffers are nearer than this: a stray index hits nothing rather than a neighbour."""

_FIRST_BASE = 1 << 40


class Buffer:
    """A named stretch of global memory holding a (rows, columns) matrix of float32.

    Attributes:
        base: address of its first byte; ``end`` the one past its last.
        start: ``base`` rounded down to 256 bytes; sectors are counted from here.
        first_sector: the number of its first sector among those of all buffers.
    """

    def __init__(self, name: str, base: int, shape: tuple[int, int], *, first_sector: int = 0) -> None:
        self.name = name
        self.first_sector = first_sector
        self.shape = shape
        self.base = base
        self.size_bytes = 4 * shape[0] * shape[1]
        self.end = base + self.size_bytes
        self.start = base // ALIGNMENT_BYTES * ALIGNMENT_BYTES
        self._lead = base - self.start
        whole = -(-(self._lead + self.size_bytes) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        self._bytes: NDArray[np.uint8] = np.zeros(whole, np.uint8)
        self._views: dict[np.dtype[Any], NDArray[Any]] = {}

    @property
    def sectors(self) -> int:
        """32-byte sectors that the buffer touches."""
        return len(self._bytes) // 32

    def view(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        """The memory from ``start`` on, as ``dtype``."""
        if dtype not in self._views:
            self._views[dtype] = self._bytes.view(dtype)
        return self._views[dtype]

    @property
    def matrix(self) -> NDArray[np.float32]:
        """The matrix itself, a writable view."""
        floats = self.view(np.dtype(np.float32))[self._lead // 4 :]
        return floats[: self.shape[0] * self.shape[1]].reshape(self.shape)

    def describe(self, address: int) -> str:
        """Where an address lies relative to this buffer."""
        rows, columns = self.shape
        what = f"{self.name} ({rows}x{columns} f32, {self.size_bytes} bytes)"
        if address < self.base:
            return f"{self.base - address} bytes before {what}"
        if address >= self.end:
            return f"{address - self.end} bytes past the end of {what}"
        row, column = divmod((address - self.base) // 4, columns)
        return f"{self.name}[{row}][{column}]"


class GlobalMemory:
    """The buffers of a launch, far apart from each other."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self._next = _FIRST_BASE

    def allocate(self, name: str, shape: tuple[int, int], *, offset_bytes: int = 0) -> Buffer:
        """A buffer whose address is ``offset_bytes`` past a multiple of 256."""
        buffer = Buffer(name, self._next + offset_bytes, shape, first_sector=self.sectors)
        self._next += -(-(offset_bytes + buffer.size_bytes + RED_ZONE_BYTES) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        self.buffers.append(buffer)
        return buffer

    @property
    def sectors(self) -> int:
        """Sectors of all buffers together."""
        return sum(buffer.sectors for buffer in self.buffers)

    def holding(self, low: int, high: int) -> Buffer | None:
        """The buffer that contains all of ``low .. high`` (exclusive)."""
        for buffer in self.buffers:
            if buffer.base <= low and high <= buffer.end:
                return buffer
        return None

    def explain(self, address: int, site: Site) -> tuple[str, str]:
        """Kind and detail of a fault at ``address``."""
        if address % site.width_bytes:
            return "misaligned", f"{site.width_bytes}-byte access at address {address:#x}, {self._nearest(address)}"
        return "out of bounds", f"{site.width_bytes}-byte access at address {address:#x}, {self._nearest(address)}"

    def _nearest(self, address: int) -> str:
        if not self.buffers:
            return "there is no buffer"
        nearest = min(self.buffers, key=lambda b: max(b.base - address, address - b.end + 1, 0))
        distance = max(nearest.base - address, address - nearest.end, 0)
        return nearest.describe(address) if distance <= RED_ZONE_BYTES else "far from every buffer"
