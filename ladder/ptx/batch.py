"""A batch of threadblocks: what generated code calls, and the names that messages give to lanes and blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladder.errors import BackendError, KernelFaultError
from ladder.ptx.atomics import apply_global, apply_shared
from ladder.ptx.counting import Counters
from ladder.ptx.memory import Buffer, GlobalMemory
from ladder.ptx.program import Program
from ladder.ptx.shared import SharedMemory
from ladder.ptx.site import LOCAL_BASE, Site

__all__ = ["Batch"]

Bool = NDArray[np.bool_]


class Batch:
    """``len(numbers)`` threadblocks of a grid, with their registers, shared and local memory.

    Args:
        program: what they run.
        memory: the buffers that its pointers name.
        arguments: the parameter block's values by byte offset.
        numbers: linear indices of the threadblocks.
        grid, block: (x, y, z) threadblocks and threads.
        smem_bytes: dynamic shared memory.
        counters: where to add the traffic, or None.
    """

    def __init__(
        self,
        program: Program,
        memory: GlobalMemory,
        arguments: dict[int, int],
        *,
        numbers: NDArray[np.int64],
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        smem_bytes: int,
        counters: Counters | None,
    ) -> None:
        self.program = program
        self.memory = memory
        self.arguments = arguments
        self.counters = counters
        self.threads, self.blocks = block[0] * block[1] * block[2], len(numbers)
        self.keep = 0
        self._grid, self._block, self.numbers = grid, block, numbers
        sizes = [s.dtype.itemsize for s in program.sites if s.space in {"shared", "generic"}]
        self.shared = SharedMemory(
            program.static_smem_bytes + smem_bytes,
            self.threads,
            self.blocks,
            granule_bytes=min([4, *sizes]),
            thread=self.thread_name,
            block=self.block_name,
            variable=self._variable,
        )
        words = -(-program.local_bytes // 4)
        self._local = np.zeros((words, self.threads, self.blocks), np.uint32) if words else None
        self.registers = self._first_registers()

    def _first_registers(self) -> list[Any]:
        slots = self.program.slots
        registers: list[Any] = [_ZERO] * len(slots)
        for slot, value in self.program.constants.items():
            registers[slot] = value
        thread = np.arange(self.threads, dtype=np.uint32)[:, None]
        number = self.numbers[None, :]
        divisor = 1
        for axis, size, count in zip("xyz", self._block, self._grid, strict=True):
            registers[slots[f"%tid.{axis}"]] = (thread // np.uint32(divisor)) % np.uint32(size)
            registers[slots[f"%ntid.{axis}"]] = np.array([[size]], np.uint32)
            registers[slots[f"%ctaid.{axis}"]] = (number % count).astype(np.uint32)
            registers[slots[f"%nctaid.{axis}"]] = np.array([[count]], np.uint32)
            number = number // count
            divisor *= size
        registers[slots["%laneid"]] = thread % np.uint32(32)
        registers[slots["%warpid"]] = thread // np.uint32(32)
        return registers

    # What generated code calls ----------------------------------------------------------------------------------

    def param(self, offset: int, dtype: Any) -> NDArray[Any]:
        """A kernel argument as a (1, 1) array."""
        value = self.arguments[offset]
        size = np.dtype(dtype).itemsize
        return np.array([[value & (2 ** (8 * size) - 1)]], f"u{size}").view(dtype)

    def merge(self, slot: int, new: NDArray[Any], mask: Bool) -> NDArray[Any]:
        """``new`` in the active lanes; the old value elsewhere, unless no waiting lane will ever read it."""
        if self.keep >> slot & 1:
            return self.select(self.registers[slot], new, mask)
        return new

    def select(self, old: NDArray[Any], new: NDArray[Any], mask: Bool) -> NDArray[Any]:
        """``new`` where ``mask`` holds, else ``old``."""
        return new if old is _ZERO else np.where(mask, new, old)

    def sync_warps(self, mask: Bool | None) -> None:
        """``bar.warp.sync``."""
        self.shared.sync_warps(mask)

    def trap(self, where: str, mask: Bool | None) -> None:
        """``trap``: the kernel gave up."""
        raise KernelFaultError(
            "trap", where, f"reached by block {self.block_name(0)}" if mask is None or mask.any() else "reached"
        )

    def load(self, site: Site, address: NDArray[Any], mask: Bool | None) -> tuple[NDArray[Any], ...]:
        """The elements that each lane loads."""
        space = self._space(site, address, mask)
        if mask is not None and not mask.any():
            return tuple(np.zeros((1, 1), site.dtype) for _ in range(site.elements))
        if space == "shared":
            if self.counters is not None:
                self.counters.shared(site, address, mask)
            return self.shared.load(site, address, mask)
        if space == "local":
            return tuple(self._local_load(site, address, i) for i in range(site.elements))
        buffer, index = self._global(site, address, mask)
        view = buffer.view(site.dtype)
        return tuple(view.take(index + i if i else index) for i in range(site.elements))

    def store(self, site: Site, address: NDArray[Any], values: tuple[NDArray[Any], ...], mask: Bool | None) -> None:
        """Store each lane's elements."""
        space = self._space(site, address, mask)
        if mask is not None and not mask.any():
            return
        if space == "shared":
            if self.counters is not None:
                self.counters.shared(site, address, mask)
            self.shared.store(site, address, values, mask)
        elif space == "local":
            for i, value in enumerate(values):
                self._local_store(site, address, i, value, mask)
        else:
            buffer, index = self._global(site, address, mask)
            view = buffer.view(site.dtype)
            shape = np.broadcast_shapes(index.shape, *(v.shape for v in values), (1, 1) if mask is None else mask.shape)
            index = np.broadcast_to(index, shape)
            lanes = ... if mask is None else np.broadcast_to(mask, shape)
            for i, value in enumerate(values):
                view[index[lanes] + i] = np.broadcast_to(value, shape)[lanes]

    def atomic(
        self, site: Site, address: NDArray[Any], values: tuple[NDArray[Any], ...], mask: Bool | None
    ) -> NDArray[Any]:
        """Update memory lane after lane; the old values (zeros for a reduction)."""
        shape = (self.threads, self.blocks)
        lanes = np.broadcast_to(True if mask is None else mask, shape)
        if self._space(site, address, mask) == "shared":
            if self.counters is not None:
                self.counters.shared(site, address, mask)
            byte = self.shared.atomic(site, address, mask)
            return apply_shared(site, self.shared.words, byte, values, lanes)
        buffer, index = self._global(site, address, mask)
        return apply_global(site, buffer.view(site.dtype), index, values, lanes)

    # Addresses --------------------------------------------------------------------------------------------------

    def _space(self, site: Site, address: NDArray[Any], mask: Bool | None) -> str:
        if site.space != "generic":
            return site.space
        some = (
            int(np.broadcast_to(address, np.broadcast_shapes(address.shape, mask.shape))[mask][0])
            if mask is not None and mask.any()
            else int(address.flat[0])
        )
        return "shared" if some < LOCAL_BASE else "local" if some < 2 * LOCAL_BASE else "global"

    def _global(self, site: Site, address: NDArray[Any], mask: Bool | None) -> tuple[Buffer, NDArray[np.int64]]:
        """The buffer that all lanes of an access fall in, and their elements' indices; 0 for lanes outside ``mask``."""
        signed: NDArray[np.int64] = address.view(np.int64) if address.dtype == np.uint64 else address.astype(np.int64)
        if mask is None:
            active = signed
        else:
            shape = np.broadcast_shapes(signed.shape, mask.shape)
            active = np.broadcast_to(signed, shape)[np.broadcast_to(mask, shape)]
        low, high = int(active.min()) + site.offset, int(active.max()) + site.offset
        buffer = self.memory.holding(low, high + site.width_bytes)
        bits = site.offset | int(np.bitwise_or.reduce(active, axis=None)) if site.width_bytes > 1 else 0
        if buffer is None or bits & (site.width_bytes - 1):
            self._refuse(site, signed, mask)
        assert buffer is not None
        if self.counters is not None:
            self.counters.global_(site, address, mask, buffer)
        shift = site.dtype.itemsize.bit_length() - 1
        index = (signed - (buffer.start - site.offset)) >> shift
        return buffer, index if mask is None else np.where(mask, index, 0)

    def _refuse(self, site: Site, address: NDArray[np.int64], mask: Bool | None) -> None:
        shape = (self.threads, self.blocks)
        lanes = np.argwhere(np.broadcast_to(True if mask is None else mask, shape).T)
        full = np.broadcast_to(address, shape)
        for column, thread in lanes:
            at = int(full[thread, column]) + site.offset
            inside = self.memory.holding(at, at + site.width_bytes)
            if inside is None or at % site.width_bytes:
                kind, detail = self.memory.explain(at, site)
                raise KernelFaultError(
                    kind,
                    site.where,
                    f"{detail}, by thread {self.thread_name(int(thread))} of block {self.block_name(int(column))}",
                )
        raise BackendError(f"{site.where}: `{site.op}`: one instruction touches several buffers, which is not emulated")

    def _local_index(self, site: Site, address: NDArray[Any], position: int) -> Any:
        byte = np.broadcast_to(
            address.astype(np.int64) + (site.offset + 4 * position - LOCAL_BASE), (self.threads, self.blocks)
        )
        if site.dtype.itemsize != 4:
            raise BackendError(f"{site.where}: `{site.op}`: only 4-byte elements of local memory are emulated")
        thread, column = np.ogrid[: self.threads, : self.blocks]
        return byte >> 2, thread, column

    def _local_load(self, site: Site, address: NDArray[Any], position: int) -> NDArray[Any]:
        assert self._local is not None
        word, thread, column = self._local_index(site, address, position)
        got: NDArray[Any] = self._local[np.clip(word, 0, len(self._local) - 1), thread, column].view(site.dtype)
        return got

    def _local_store(
        self, site: Site, address: NDArray[Any], position: int, value: NDArray[Any], mask: Bool | None
    ) -> None:
        assert self._local is not None
        word, _, _ = self._local_index(site, address, position)
        lanes = np.nonzero(np.broadcast_to(True if mask is None else mask, word.shape))
        self._local[word[lanes], lanes[0], lanes[1]] = np.broadcast_to(value, word.shape).view(np.uint32)[lanes]

    # Names ------------------------------------------------------------------------------------------------------

    def thread_name(self, lane: int) -> str:
        """``(x, y, z)`` of a lane."""
        x, y, _ = self._block
        return f"({lane % x}, {lane // x % y}, {lane // (x * y)})"

    def block_name(self, column: int) -> str:
        """``(x, y, z)`` of a threadblock of the batch."""
        number = int(self.numbers[column])
        x, y, _ = self._grid
        return f"({number % x}, {number // x % y}, {number // (x * y)})"

    def _variable(self, byte: int) -> str:
        """The shared array that holds a byte, and how far into it."""
        name, base = "shared memory", 0
        for variable in self.program.function.variables:
            start = self.program.addresses[variable.name]
            if variable.space == "shared" and start <= byte and start >= base:
                # A mangled local ends in its length and name: ..._2As.
                name, base = variable.name.rsplit("E", 1)[-1].lstrip("0123456789"), start
        return f"{name}+{byte - base} bytes"


_ZERO: NDArray[Any] = np.zeros((1, 1), np.uint32)
