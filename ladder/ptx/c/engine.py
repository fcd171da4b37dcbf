"""The C engine: the numpy engine's Machine, with each basic block a compiled function.

It gives the numpy engine's bits and counts, and stops at everything that may be a fault. It does not explain faults:
the numpy engine does, by running the launch again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladder.errors import BackendError, KernelFaultError
from ladder.memory.caches import Touched
from ladder.ptx.c.build import HEADERS, load
from ladder.ptx.c.cgen import translate
from ladder.ptx.counting import Counters
from ladder.ptx.machine import LANES_A_BATCH, STEP_LIMIT, Order
from ladder.ptx.memory import GlobalMemory
from ladder.ptx.program import Program

__all__ = ["CKernel", "CMachine", "SuspectError", "compile_program", "runtime"]

_ORDERS = {"lockstep": 0, "warp_serial": 1, "warp_serial_reversed": 2}
_SUSPECT, _ENDLESS, _NO_MEMORY = -1, -2, -3
_PAIRS_A_CALL = 1 << 21
_LANES_A_CALL = 2 * LANES_A_BATCH
"""Threadblocks of so many lanes run in one call, and footprints are taken after so many (block, sector) pairs: an
interrupt waits for the end of a call."""

_READ, _UPDATED, _WRITTEN = range(3)

_TOTALS = ("asked_bytes", "read_sectors", "write_sectors", "global_wavefronts", "global_requests")
_MORE_TOTALS = ("fetch_wavefronts", "barriers", "copy_groups", "global_loads", "global_stores")
"""Attributes of :class:`Counters` that both engines add to."""

_I32, _I64 = ctypes.c_int32, ctypes.c_int64


class SuspectError(Exception):
    """A launch may have done something undefined: the numpy engine has to run it and say what."""


class _Buffer(ctypes.Structure):
    """``struct buffer`` of machine.h."""

    _fields_ = (
        ("base", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("start", ctypes.c_uint64),
        ("host", ctypes.c_void_p),
        ("first_sector", _I64),
    )


class _Launch(ctypes.Structure):
    """``struct launch`` of runtime.c."""

    _fields_ = (
        ("params", ctypes.c_char_p),
        ("buffers", ctypes.POINTER(_Buffer)),
        ("shared_bytes", _I64),
        ("step_limit", _I64),
        ("sectors", _I64),
        ("most_blocks", _I64),
        ("grid", _I32 * 3),
        ("buffer_count", _I32),
        ("order", _I32),
        ("counting", _I32),
    )


class _Totals(ctypes.Structure):
    """``struct totals`` of run.h."""

    _fields_ = (
        *((name, _I64) for name in _TOTALS),
        ("shared_wavefronts", _I64 * 2),
        ("shared_requests", _I64 * 2),
        *((name, _I64) for name in _MORE_TOTALS),
        ("thread_instructions", _I64),
        ("fp32", _I64 * 3),
        ("endless_block", _I32),
    )


class _Footprints(ctypes.Structure):
    """``struct footprints`` of run.h."""

    _fields_ = (
        ("sectors", ctypes.POINTER(_I64) * 3),
        ("count", _I64 * 3),
        ("capacity", _I64 * 3),
        ("per_block", ctypes.POINTER(_I64) * 3),
    )


@cache
def runtime() -> ctypes.CDLL:
    """The compiled runtime: runs kernels, and has the rules of :mod:`ladder.memory` for one request at a time."""
    library = load((HEADERS / "runtime.c").read_text(encoding="utf-8"), optimise="-O3")
    library.ladder_open.restype = ctypes.c_void_p
    library.ladder_open.argtypes = (ctypes.c_void_p, ctypes.POINTER(_Launch))
    library.ladder_run.restype = _I32
    library.ladder_run.argtypes = (ctypes.c_void_p, ctypes.c_void_p, _I64, _I64, ctypes.POINTER(_I64))
    library.ladder_close.restype = None
    library.ladder_close.argtypes = (ctypes.c_void_p,)
    library.ladder_totals.restype = ctypes.POINTER(_Totals)
    library.ladder_totals.argtypes = (ctypes.c_void_p,)
    library.ladder_footprints.restype = ctypes.POINTER(_Footprints)
    library.ladder_footprints.argtypes = (ctypes.c_void_p,)
    library.ladder_wavefronts.argtypes = (ctypes.c_void_p, _I32, _I32, ctypes.c_uint32)
    for name in ("ladder_sectors", "ladder_reduction_wavefronts", "ladder_reduction_sectors"):
        getattr(library, name).argtypes = (ctypes.c_void_p, ctypes.c_uint32)
    return library


@dataclass(frozen=True, slots=True)
class CKernel:
    """A program compiled for threadblocks of ``block`` threads."""

    program: Program
    block: tuple[int, int, int]
    library: ctypes.CDLL
    table: int
    """Address of its ``struct kernel``."""


def compile_program(program: Program, block: tuple[int, int, int]) -> CKernel:
    """Translate ``program`` to C and build it, or take it from the cache.

    Raises:
        UnsupportedPtxError: something that the C engine does not do.
        EngineUnavailableError: there is no compiler, or it fails.
    """
    runtime()
    library = load(translate(program, block))
    table = ctypes.addressof(ctypes.c_char.in_dll(library, "ladder_kernel"))
    return CKernel(program, block, library, table)


class CMachine:
    """Runs one compiled program over a grid, threadblock after threadblock.

    Args:
        kernel: what to run.
        memory: the buffers that its pointers name.
        arguments: the parameter block's values by byte offset.
        order: how warps interleave between barriers, as :class:`ladder.ptx.machine.Machine` has it.
        counters: where to add the traffic, or None.
        step_limit: instructions of one threadblock after which the launch is called endless.
    """

    def __init__(
        self,
        kernel: CKernel,
        memory: GlobalMemory,
        arguments: dict[int, int],
        *,
        order: Order = "lockstep",
        counters: Counters | None = None,
        step_limit: int = STEP_LIMIT,
    ) -> None:
        self.kernel = kernel
        self.memory = memory
        self.counters = counters
        self.order: Order = order
        self.step_limit = step_limit
        self.thread_instructions = 0
        """Executed instructions times the lanes that took part, over all launches."""
        self._params = _parameter_block(kernel.program, arguments)

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
            SuspectError: a lane may have done something undefined; buffers and counters are of no more use.
            KernelFaultError: a threadblock passed the step limit.
        """
        if block != self.kernel.block:
            raise ValueError(f"compiled for blocks of {self.kernel.block} threads, launched with {block}")
        total = grid[0] * grid[1] * grid[2]
        numbers = np.arange(total, dtype=np.int64) if blocks is None else np.asarray(list(blocks), np.int64)
        most = max(1, _LANES_A_CALL // (block[0] * block[1] * block[2]))
        library = runtime()
        caches = None if self.counters is None else self.counters.caches
        buffers = (_Buffer * len(self.memory.buffers))(
            *(
                _Buffer(b.base, b.end, b.start, b.view(np.dtype(np.uint8)).ctypes.data, b.first_sector)
                for b in self.memory.buffers
            )
        )
        launch = _Launch(
            params=self._params,
            buffers=buffers,
            shared_bytes=self.kernel.program.static_smem_bytes + smem_bytes,
            step_limit=self.step_limit,
            sectors=0 if caches is None else self.memory.sectors,
            most_blocks=most,
            grid=(_I32 * 3)(*grid),
            buffer_count=len(buffers),
            order=_ORDERS[self.order],
            counting=self.counters is not None,
        )
        run = library.ladder_open(self.kernel.table, ctypes.byref(launch))
        if not run:
            raise BackendError("the C engine has no memory for the launch's state")
        try:
            for part in self._run(run, numbers, most, grid):
                if caches is not None:
                    footprints = library.ladder_footprints(run).contents
                    reads, updates, writes = (_pairs(footprints, how, len(part)) for how in (_READ, _UPDATED, _WRITTEN))
                    caches.blocks(part, reads=reads, updates=updates, writes=writes)
            self._add(library.ladder_totals(run).contents)
        finally:
            library.ladder_close(run)

    def _run(
        self, run: int, numbers: NDArray[np.int64], most: int, grid: tuple[int, int, int]
    ) -> Iterator[NDArray[np.int64]]:
        """Run all threadblocks, some at a time so that an interrupt is served; yields those that have just run."""
        library = runtime()
        done = _I64()
        start = 0
        while start < len(numbers):
            part = np.ascontiguousarray(numbers[start : start + most])
            code = library.ladder_run(run, part.ctypes.data, len(part), _PAIRS_A_CALL, ctypes.byref(done))
            if code == _ENDLESS:
                raise self._endless(library.ladder_totals(run).contents.endless_block, int(part[done.value]), grid)
            if code == _NO_MEMORY:
                raise BackendError("the C engine has no memory for the threadblocks' footprints")
            if code:
                raise SuspectError
            yield part[: done.value]
            start += done.value

    def _endless(self, index: int, number: int, grid: tuple[int, int, int]) -> KernelFaultError:
        x, y, _ = grid
        name = f"({number % x}, {number // x % y}, {number // (x * y)})"
        return KernelFaultError(
            "endless loop",
            self.kernel.program.blocks[index].where,
            f"still running after {self.step_limit} instructions, block {name}",
        )

    def _add(self, totals: Any) -> None:
        self.thread_instructions += totals.thread_instructions
        if self.counters is None:
            return
        for name in (*_TOTALS, *_MORE_TOTALS):
            setattr(self.counters, name, getattr(self.counters, name) + getattr(totals, name))
        self.counters.fp32_known &= self.kernel.program.fp32_known
        self.counters.execute((totals.fp32[0], totals.fp32[1], totals.fp32[2]), 1)
        for position, kind in enumerate(("ld", "st")):
            self.counters.shared_wavefronts[kind] += totals.shared_wavefronts[position]
            self.counters.shared_requests[kind] += totals.shared_requests[position]


def _parameter_block(program: Program, arguments: dict[int, int]) -> bytes:
    size = max((p.offset + p.size for p in program.function.params), default=0)
    content = bytearray(size)
    for parameter in program.function.params:
        value = arguments[parameter.offset] & (2 ** (8 * parameter.size) - 1)
        content[parameter.offset : parameter.offset + parameter.size] = value.to_bytes(parameter.size, "little")
    return bytes(content)


def _pairs(footprints: Any, how: int, blocks: int) -> Touched:
    """The (block, sector) pairs of one kind of access, sorted by block."""
    count = footprints.count[how]
    if not count:
        return Touched(np.zeros(0, np.int64), np.zeros(0, np.int64))
    sector = np.ctypeslib.as_array(footprints.sectors[how], (count,)).copy()
    per_block = np.ctypeslib.as_array(footprints.per_block[how], (blocks,))
    return Touched(np.repeat(np.arange(blocks), per_block), sector)
