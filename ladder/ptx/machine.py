"""The machine: all lanes of a batch of threadblocks in lockstep, block of code by block of code.

Groups of lanes that went different ways wait at the lowest program counter first, which reconverges structured code.
A barrier parks a group until every live lane of its threadblock has come (lanes that have exited do not count).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ladder.errors import BackendError, KernelFaultError
from ladder.ptx.atomics import apply_global, apply_shared
from ladder.ptx.counting import Counters
from ladder.ptx.memory import Buffer, GlobalMemory
from ladder.ptx.program import Program
from ladder.ptx.shared import SharedMemory
from ladder.ptx.site import LOCAL_BASE, Site

__all__ = ["Machine", "Order"]

Order = Literal["lockstep", "warp_serial", "warp_serial_reversed"]

LANES_A_BATCH = 32768
"""Enough lanes to hide the interpreter, few enough for temporaries to stay in a core's L2 cache."""

STEP_LIMIT = 20_000_000
"""Instructions of one batch after which a launch is called endless: a K loop of a million steps stays below it."""

Bool = NDArray[np.bool_]


@dataclass(slots=True)
class _State:
    """Groups of lanes by what they wait for: ``ready`` at a block of code, ``parked`` behind a barrier."""

    ready: dict[int, Bool | None]
    parked: dict[int, Bool | None]


class Machine:
    """Runs one program over a grid.

    Args:
        program: what to run.
        memory: the buffers that its pointers name.
        arguments: the parameter block's values by byte offset.
        order: ``"lockstep"``, or one warp after the other between barriers, forwards or backwards: a kernel whose
            result depends on it has a race.
        counters: where to add the traffic, or None.
    """

    def __init__(
        self,
        program: Program,
        memory: GlobalMemory,
        arguments: dict[int, int],
        *,
        order: Order = "lockstep",
        counters: Counters | None = None,
        step_limit: int = STEP_LIMIT,
    ) -> None:
        self.program = program
        self.memory = memory
        self.arguments = arguments
        self.order = order
        self.counters = counters
        self.step_limit = step_limit
        self.keep = 0
        sizes = [s.dtype.itemsize for s in program.sites if s.space in {"shared", "generic"}]
        self._granule = min([4, *sizes])

    def launch(
        self,
        *,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        smem_bytes: int = 0,
        blocks: Iterable[int] | None = None,
    ) -> None:
        """Run the grid, or just the threadblocks whose linear indices are ``blocks``.

        Raises:
            KernelFaultError: the kernel did something undefined.
        """
        threads = block[0] * block[1] * block[2]
        chosen = range(grid[0] * grid[1] * grid[2]) if blocks is None else list(blocks)
        size = max(1, LANES_A_BATCH // threads)
        with np.errstate(all="ignore"):
            for start in range(0, len(chosen), size):
                self._batch(np.asarray(chosen[start : start + size], np.int64), grid, block, smem_bytes)

    def _batch(self, numbers: NDArray[np.int64], grid: tuple[int, int, int], block: tuple[int, int, int], smem_bytes: int) -> None:
        self.threads, self.blocks = block[0] * block[1] * block[2], len(numbers)
        self._grid, self._block, self._numbers = grid, block, numbers
        self.shared = SharedMemory(
            self.program.static_smem_bytes + smem_bytes,
            self.threads,
            self.blocks,
            granule_bytes=self._granule,
            thread=self.thread_name,
            block=self.block_name,
            variable=self._variable,
        )
        words = -(-self.program.local_bytes // 4)
        self._local = np.zeros((words, self.threads, self.blocks), np.uint32) if words else None
        if self.counters is not None:
            self.counters.enter(self.threads, self.blocks)
        self._run(self._registers())
        if self.counters is not None:
            self.counters.leave()

    def _registers(self) -> list[Any]:
        slots = self.program.slots
        registers: list[Any] = [_ZERO] * len(slots)
        for slot, value in self.program.constants.items():
            registers[slot] = value
        thread = np.arange(self.threads, dtype=np.uint32)[:, None]
        number = self._numbers[None, :]
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

    # Control ----------------------------------------------------------------------------------------------------

    def _agents(self) -> list[Bool | None]:
        """The groups that run one after the other between barriers."""
        if self.order == "lockstep":
            return [None]
        warp = (np.arange(self.threads) // 32)[:, None]
        order = range(int(warp.max()) + 1)
        return [warp == w for w in (order if self.order == "warp_serial" else reversed(order))]

    def _run(self, registers: list[Any]) -> None:
        self._registers_now = registers
        self._steps = 0
        agents = self._agents()
        states = [_State({0: mask}, {}) for mask in agents]
        while any(s.ready for s in states):
            for number, state in enumerate(states):
                others = [s for i, s in enumerate(states) if i != number]
                self._until_parked(state, registers, others)
            self._release(states)
        self.shared.close()

    def _until_parked(self, state: _State, registers: list[Any], others: list[_State]) -> None:
        blocks = self.program.blocks
        elsewhere = 0
        for other in others:
            for index in (*other.ready, *other.parked):
                elsewhere |= blocks[index].live_in
        while state.ready:
            index = min(state.ready)
            mask = state.ready.pop(index)
            if index >= len(blocks):
                continue
            code = blocks[index]
            self._steps += len(code.instructions)
            if self._steps > self.step_limit:
                raise KernelFaultError(
                    "endless loop", code.where, f"still running after {self.step_limit} instructions of block {self.block_name(0)}"
                )
            if mask is None:
                code.run(self, registers)
            else:
                keep = elsewhere
                for waiting in (*state.ready, *state.parked):
                    if waiting < len(blocks):
                        keep |= blocks[waiting].live_in
                self.keep = keep
                code.run_masked(self, registers, mask)
            self._leave(state, index, mask, registers)

    def _leave(self, state: _State, index: int, mask: Bool | None, registers: list[Any]) -> None:
        code = self.program.blocks[index]
        if code.end == "fall":
            self._join(state.ready, index + 1, mask)
        elif code.end == "bar":
            self._join(state.parked, index + 1, mask)
        elif code.guard is None:
            if code.end == "bra":
                self._join(state.ready, code.target, mask)
        else:
            predicate = registers[code.guard[0]]
            if code.guard[1]:
                predicate = ~predicate
            taken = predicate if mask is None else mask & predicate
            some = bool(taken.any())
            if some and bool(predicate.all()):
                rest: Bool | None = _NO_LANE
                taken = mask
            else:
                rest = mask if not some else (~predicate if mask is None else mask & ~predicate)
            if some and code.end == "bra":
                self._join(state.ready, code.target, taken)
            if rest is None or rest.any():
                self._join(state.ready, index + 1, rest)

    def _join(self, waiting: dict[int, Bool | None], index: int, mask: Bool | None) -> None:
        if index not in waiting:
            waiting[index] = mask
            return
        old = waiting[index]
        both = None if old is None or mask is None else old | mask
        if both is not None and both.shape == (self.threads, self.blocks) and both.all():
            both = None
        elif both is not None and both.all():
            both = None
        waiting[index] = both

    def _release(self, states: list[_State]) -> None:
        """Let every parked lane go on, when the lanes of each threadblock all wait behind the same barrier."""
        waiting: dict[int, Bool] = {}
        shape = (self.threads, self.blocks)
        for state in states:
            for index, mask in state.parked.items():
                full = np.broadcast_to(True if mask is None else mask, shape)
                waiting[index] = waiting[index] | full if index in waiting else full
        if not waiting:
            return
        if len(waiting) > 1:
            self._refuse_divergence(waiting)
        arrived = np.zeros(self.blocks, np.bool_)
        for mask in waiting.values():
            arrived |= mask.any(axis=0)
        self.shared.close(arrived)
        for state in states:
            state.ready, state.parked = state.parked, {}

    def _refuse_divergence(self, waiting: dict[int, Bool]) -> None:
        places = sorted(waiting)
        for position, first in enumerate(places):
            for second in places[position + 1 :]:
                both = waiting[first].any(axis=0) & waiting[second].any(axis=0)
                if both.any():
                    column = int(np.flatnonzero(both)[0])
                    one, other = (int(np.flatnonzero(waiting[p][:, column])[0]) for p in (first, second))
                    here, there = (self.program.blocks[p - 1].where for p in (first, second))
                    raise KernelFaultError(
                        "divergent barrier",
                        here,
                        f"block {self.block_name(column)}: thread {self.thread_name(one)} waits here, thread "
                        f"{self.thread_name(other)} at {there}. All threads of a block must reach the same __syncthreads().",
                    )

    # What generated code calls ----------------------------------------------------------------------------------

    def param(self, offset: int, dtype: Any) -> NDArray[Any]:
        """A kernel argument as a (1, 1) array."""
        value = self.arguments[offset]
        size = np.dtype(dtype).itemsize
        return np.array([[value & (2 ** (8 * size) - 1)]], f"u{size}").view(dtype)

    def merge(self, slot: int, new: NDArray[Any], mask: Bool) -> NDArray[Any]:
        """``new`` in the active lanes; the old value elsewhere, unless no waiting lane will ever read it."""
        if self.keep >> slot & 1:
            return self.select(self._registers_now[slot], new, mask)
        return new

    def select(self, old: NDArray[Any], new: NDArray[Any], mask: Bool) -> NDArray[Any]:
        """``new`` where ``mask`` holds, else ``old``."""
        return new if old is _ZERO else np.where(mask, new, old)

    def sync_warps(self, mask: Bool | None) -> None:
        """``bar.warp.sync``."""
        self.shared.sync_warps(mask)

    def trap(self, where: str, mask: Bool | None) -> None:
        """``trap``: the kernel gave up."""
        raise KernelFaultError("trap", where, f"reached by block {self.block_name(0)}" if mask is None or mask.any() else "reached")

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
            for i, value in enumerate(values):
                value = np.broadcast_to(value, shape)
                if mask is None:
                    view[index + i] = value
                else:
                    lanes = np.broadcast_to(mask, shape)
                    view[index[lanes] + i] = value[lanes]

    def atomic(self, site: Site, address: NDArray[Any], values: tuple[NDArray[Any], ...], mask: Bool | None) -> NDArray[Any]:
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
        some = int(np.broadcast_to(address, np.broadcast_shapes(address.shape, mask.shape))[mask][0]) if mask is not None and mask.any() else int(address.flat[0])
        return "shared" if some < LOCAL_BASE else "local" if some < 2 * LOCAL_BASE else "global"

    def _global(self, site: Site, address: NDArray[Any], mask: Bool | None) -> tuple[Buffer, NDArray[np.int64]]:
        """The buffer that all lanes of an access fall in and the index of their elements; lanes outside ``mask`` get 0."""
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
                    kind, site.where, f"{detail}, by thread {self.thread_name(int(thread))} of block {self.block_name(int(column))}"
                )
        raise BackendError(f"{site.where}: `{site.op}`: one instruction touches several buffers, which is not emulated")

    def _local_index(self, site: Site, address: NDArray[Any], position: int) -> Any:
        byte = np.broadcast_to(address.astype(np.int64) + (site.offset + 4 * position - LOCAL_BASE), (self.threads, self.blocks))
        if site.dtype.itemsize != 4:
            raise BackendError(f"{site.where}: `{site.op}`: only 4-byte elements of local memory are emulated")
        thread, column = np.ogrid[: self.threads, : self.blocks]
        return byte >> 2, thread, column

    def _local_load(self, site: Site, address: NDArray[Any], position: int) -> NDArray[Any]:
        assert self._local is not None
        word, thread, column = self._local_index(site, address, position)
        return self._local[np.clip(word, 0, len(self._local) - 1), thread, column].view(site.dtype)

    def _local_store(self, site: Site, address: NDArray[Any], position: int, value: NDArray[Any], mask: Bool | None) -> None:
        assert self._local is not None
        word, thread, column = self._local_index(site, address, position)
        lanes = np.nonzero(np.broadcast_to(True if mask is None else mask, word.shape))
        self._local[word[lanes], lanes[0], lanes[1]] = np.broadcast_to(value, word.shape).view(np.uint32)[lanes]

    # Names ------------------------------------------------------------------------------------------------------

    def thread_name(self, lane: int) -> str:
        """``(x, y, z)`` of a lane."""
        x, y, _ = self._block
        return f"({lane % x}, {lane // x % y}, {lane // (x * y)})"

    def block_name(self, column: int) -> str:
        """``(x, y, z)`` of a threadblock of the batch."""
        number = int(self._numbers[column])
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
_NO_LANE: Bool = np.zeros((1, 1), np.bool_)
