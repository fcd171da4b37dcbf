"""A batch of threadblocks: what generated code calls, and the names that messages give to lanes and blocks."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladder.errors import BackendError, KernelFaultError
from ladder.ptx.async_copy import AsyncCopies
from ladder.ptx.atomics import apply_global, apply_shared
from ladder.ptx.barriers import NamedBarriers
from ladder.ptx.clocks import Clocks
from ladder.ptx.counting import Counters
from ladder.ptx.local import LocalMemory
from ladder.ptx.matrix_load import MatrixLoads
from ladder.ptx.memory import Buffer, GlobalMemory
from ladder.ptx.program import Program
from ladder.ptx.shared import SharedMemory
from ladder.ptx.site import LOCAL_BASE, Site
from ladder.ptx.warp import Warps

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
            variable=self.variable_name,
            partial_syncs=program.partial_syncs,
        )
        gone = {index for index, basic in enumerate(program.blocks) if basic.leaves} | {len(program.blocks)}
        self.warps = Warps(self.threads, self.blocks, thread=self.thread_name, block=self.block_name, gone=gone)
        order = self.shared.order
        self.barriers = NamedBarriers(
            self.warps,
            thread=self.thread_name,
            block=self.block_name,
            clocks=order if isinstance(order, Clocks) else None,
        )
        self.copies = AsyncCopies(self)
        self.matrices = MatrixLoads(self)
        self._local = LocalMemory(program.local_bytes, self.threads, self.blocks, lane=self.lane_name)
        self._unwritten = {dtype: np.zeros((1, 1), dtype) for dtype in self.program.storage}
        self._unwritten_ids = {id(array) for array in self._unwritten.values()}
        self.registers = self._first_registers()

    def _first_registers(self) -> list[Any]:
        slots = self.program.slots
        registers: list[Any] = [self._unwritten[dtype] for dtype in self.program.storage]
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
        return new if id(old) in self._unwritten_ids else np.where(mask, new, old)

    def trap(self, where: str, mask: Bool | None) -> None:
        """``trap``: the kernel gave up."""
        lanes = np.broadcast_to(True if mask is None else mask, (self.threads, self.blocks))
        if lanes.any():
            block, thread = (int(i[0]) for i in np.nonzero(lanes.T))
            raise KernelFaultError("trap", where, f"reached by {self.lane_name(thread, block)}")

    def load(self, site: Site, address: NDArray[Any], mask: Bool | None) -> tuple[NDArray[Any], ...]:
        """The elements that each lane loads."""
        space = self._space(site, address, mask)
        if mask is not None and not mask.any():
            return tuple(np.zeros((1, 1), site.dtype) for _ in range(site.elements))
        if space == "shared":
            # Counted once it is known to be in bounds and aligned.
            loaded = self.shared.load(site, address, mask)
            if self.counters is not None:
                self.counters.shared(site, address, mask)
            return loaded
        if space == "local":
            return self._local.load(site, address, mask)
        return self.fetch(site, address, mask)

    def fetch(
        self, site: Site, address: NDArray[Any], mask: Bool | None, *, count: bool = True
    ) -> tuple[NDArray[Any], ...]:
        """The elements that each lane finds in global memory; anything outside ``mask``."""
        if mask is not None and not mask.any():
            return tuple(np.zeros((1, 1), site.dtype) for _ in range(site.elements))
        buffer, index = self._global(site, address, mask, count=count)
        view = buffer.view(site.dtype)
        return tuple(view.take(index + i if i else index) for i in range(site.elements))

    def store(self, site: Site, address: NDArray[Any], values: tuple[NDArray[Any], ...], mask: Bool | None) -> None:
        """Store each lane's elements."""
        space = self._space(site, address, mask)
        if mask is not None and not mask.any():
            return
        if space == "shared":
            self.shared.store(site, address, values, mask)
            if self.counters is not None:
                self.counters.shared(site, address, mask)
        elif space == "local":
            self._local.store(site, address, values, mask)
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
        if not lanes.any():
            return np.zeros((1, 1), site.dtype)
        if self._space(site, address, mask) == "shared":
            byte = self.shared.atomic(site, address, mask)
            if self.counters is not None:
                self.counters.shared(site, address, mask)
            return apply_shared(site, self.shared.words, byte, values, lanes)
        buffer, index = self._global(site, address, mask)
        return apply_global(site, buffer.view(site.dtype), index, values, lanes)

    # Addresses --------------------------------------------------------------------------------------------------

    def _space(self, site: Site, address: NDArray[Any], mask: Bool | None) -> str:
        if site.space != "generic":
            return site.space
        if mask is None:
            some = address
        else:
            shape = np.broadcast_shapes(address.shape, mask.shape)
            some = np.broadcast_to(address, shape)[np.broadcast_to(mask, shape)]
        first = int(some.flat[0]) if some.size else 0
        return "shared" if first < LOCAL_BASE else "local" if first < 2 * LOCAL_BASE else "global"

    def _global(
        self, site: Site, address: NDArray[Any], mask: Bool | None, *, count: bool = True
    ) -> tuple[Buffer, NDArray[np.int64]]:
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
        if count and self.counters is not None:
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
                    f"{detail}, by {self.lane_name(int(thread), int(column))}",
                )
        raise BackendError(f"{site.where}: `{site.op}`: one instruction touches several buffers, which is not emulated")

    # Names ------------------------------------------------------------------------------------------------------

    def thread_name(self, lane: int) -> str:
        """``(x, y, z)`` of a lane."""
        x, y, _ = self._block
        return f"({lane % x}, {lane // x % y}, {lane // (x * y)})"

    def lane_name(self, lane: int, column: int) -> str:
        """A thread and its threadblock."""
        return f"thread {self.thread_name(lane)} of block {self.block_name(column)}"

    def block_name(self, column: int) -> str:
        """``(x, y, z)`` of a threadblock of the batch."""
        number = int(self.numbers[column])
        x, y, _ = self._grid
        return f"({number % x}, {number // x % y}, {number // (x * y)})"

    def variable_name(self, byte: int) -> str:
        """The shared array that holds a byte, and how far into it."""
        name, base = "shared memory", 0
        for variable in self.program.function.variables:
            start = self.program.addresses[variable.name]
            if variable.space == "shared" and start <= byte and start >= base:
                name, base = _source_name(variable.name), start
        return f"{name}+{byte - base} bytes"


def _source_name(name: str) -> str:
    """What the source calls a shared variable: a mangled local ends in its name's length and its name, ``E2As``."""
    for match in re.finditer(r"E(\d+)(?=(\w+))", name):
        length, rest = int(match[1]), match[2]
        if length <= len(rest) and re.fullmatch(r"(_\d+)?", rest[length:]):
            return rest[:length]
    return name
