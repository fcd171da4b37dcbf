"""Rungs on a GPU: guarded buffers, launches, event times. The only backend that knows what a second is."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ladder.backends.base import Outcome
from ladder.backends.device_arrays import multiply_device
from ladder.backends.driver import find_gpu, translated
from ladder.backends.gpu import Gpu
from ladder.backends.graphs import captured
from ladder.backends.guard import CANARY_BITS, Slot, change, stray_writes
from ladder.backends.launches import launchers, resident_blocks
from ladder.backends.nvml import Watch, sensor_of, watching
from ladder.backends.timing import COLD_RULE, DEFAULT_RULE, SHORT_S, Sampling, launches_per_sample, measure
from ladder.errors import BackendError, InputError, ShapeError
from ladder.geometry import plan, require_aligned, workspace_bytes
from ladder.model import Device, Method, Resources, Shape, Timing, Traffic, Watched
from ladder.nvrtc import Compiled
from ladder.oracle import POISON_BITS
from ladder.stats import StopRule

__all__ = ["CudaBackend", "find_gpu", "multiply_device"]

F32 = NDArray[np.float32]
U32 = NDArray[np.uint32]

_WARP = 32
_CHUNK_BYTES = 2**26
_SETTLE_S, _WATCH_S = 0.15, 0.15
_GRAPH_LAUNCHES = 8
"""What the host takes to enqueue a graph, in launches."""


class CudaBackend:
    """Runs compiled rungs on one GPU. Not for use by several threads at once.

    After a kernel's fault (an illegal address, say) the driver refuses all further work of this process: every call
    then raises BackendError, and a new process is needed.

    Raises:
        DriverMissingError: there is no driver or no GPU; the message says how to get one.
        BackendError: there is no device of that number, or the driver refuses a context.
    """

    name: Literal["cuda", "emulated"] = "cuda"

    def __init__(self, device_id: int = 0) -> None:
        self.gpu = Gpu(device_id)

    @property
    def device(self) -> Device:
        """The GPU. ``sm_clock_hz`` is the highest clock it is specified for; :meth:`reading` gives that under load."""
        return self.gpu.device

    def run(
        self,
        kernel: Compiled,
        a: F32,
        b: F32,
        *,
        count: bool = False,  # noqa: ARG002 -- counters take a profiled run of their own: ladder.counters
        offsets: tuple[int, int, int] = (0, 0, 0),
    ) -> Outcome:
        """C = A @ B once, with canaries around each array, which are looked at afterwards; A and B as well.

        Args:
            kernel: the rung, compiled for this device.
            a: (M, K) float32, C-contiguous.
            b: (K, N) float32, C-contiguous.
            count: no effect; ``traffic`` is None, since hardware counters need a profiler.
            offsets: elements by which A, B and C are shifted from a 256-byte boundary.

        Raises:
            InputError: an array is not a C-contiguous float32 matrix, or ``offsets`` break the rung's alignment.
            ShapeError: the rung does not support the shape, or the inner sizes differ.
            BackendError: memory is short, or the launch failed; the message has the driver's name for it.
        """
        shape = _shape_of(a, b)
        with self._at_work(kernel, shape), ExitStack() as held:
            arrays = held.enter_context(self._placed(kernel, a, b, offsets))
            for launch in launchers(self.gpu, kernel, shape, arrays.pointers, workspace=arrays.workspace):
                launch()
            self.gpu.stream.sync()
            c = np.empty((shape.m, shape.n), np.float32)
            arrays.read(self.gpu, 2, c)
            return Outcome(c=c, damage=arrays.damage(self.gpu, a, b))

    @property
    def executes_flop(self) -> float:
        """A GPU executes whatever fits its memory."""
        return math.inf

    def replay(self, kernel: Compiled, shape: Shape) -> Traffic:
        """A GPU has nothing to replay.

        Raises:
            BackendError: always.
        """
        raise BackendError(f"rung {kernel.rung.name} at {shape}: a GPU executes it; count with ncu")

    def resources(self, kernel: Compiled) -> Resources:
        """What ptxas gave the kernel, and its occupancy: resident warps over what an SM can hold.

        Raises:
            BackendError: the driver cannot load the kernel.
        """
        rung, device = kernel.rung, self.gpu.device
        self.gpu.activate()
        with translated(f"occupancy of {rung.name} on {device.name}"):
            occupancy = self.gpu.load(kernel).occupancy
            smem_bytes = self.gpu.dynamic_smem_bytes(kernel)
            blocks = int(occupancy.max_active_blocks_per_multiprocessor(rung.threads, smem_bytes))
        warps = blocks * -(-rung.threads // _WARP)
        return replace(kernel.resources, occupancy=warps * _WARP / device.max_threads_per_sm)

    def time(
        self, kernel: Compiled, a: F32, b: F32, *, cold: bool = False, rule: StopRule | None = None
    ) -> Timing | None:
        """Seconds per product between device events; a product of several launches is timed whole.

        Warm, after a warm-up: a short kernel's sample is the mean of several products in a row, in a CUDA graph. A
        kernel that adds into C goes on adding: what C holds does not change its work. Cold, each sample is one product
        after A, B and C were evicted from the L2 cache, by reading twice its size. The card is watched meanwhile.

        Args:
            kernel: the rung, compiled for this device.
            a: (M, K) float32, C-contiguous: full mantissas, since zeros draw less power and run faster.
            b: (K, N) float32, C-contiguous.
            cold: evict all before each sample, and do not warm up: the card is best warm from another product.
            rule: when the samples are enough; by default ``DEFAULT_RULE``, or ``COLD_RULE`` of ``backends.timing``.

        Returns:
            None when the product needs no launch.

        Raises:
            InputError, ShapeError, BackendError: as :meth:`run`.
        """
        with self.prepared(kernel, a, b) as (enqueue, launches), self._at_work(kernel, _shape_of(a, b)):
            if launches == 0:
                return None
            return measure(
                self.sampler(enqueue, launches, cold=cold),
                rule=rule or (COLD_RULE if cold else DEFAULT_RULE),
                warm=not cold,
                watch=self.watching,
            )

    def sampler(self, enqueue: Callable[[], None], launches: int, *, cold: bool = False) -> Sampling:
        """A function that takes one sample: seconds per call of ``enqueue``, which makes ``launches`` launches.

        Products shorter than ``SHORT_S`` are put into a CUDA graph, as many as make a sample; what cannot be captured
        is launched one after the other, as a longer one is, and ``method`` of the result says so.
        """
        enqueue()
        once = self.gpu.elapsed_s(enqueue, launches=launches, flush=cold)
        if cold:
            return self._sampling(lambda: self.gpu.elapsed_s(enqueue, launches=launches, flush=True), "launches")
        repeats = launches_per_sample(once)

        def several() -> None:
            for _ in range(repeats):
                enqueue()

        if once < SHORT_S:
            with contextlib.suppress(BackendError):  # then it is launched: the Timing tells which
                graph = captured(self.gpu, several)
                return self._sampling(
                    lambda: self.gpu.elapsed_s(graph.launch, launches=_GRAPH_LAUNCHES) / repeats, "graph", repeats
                )
        return self._sampling(
            lambda: self.gpu.elapsed_s(several, launches=repeats * launches) / repeats, "launches", repeats
        )

    def _sampling(self, take: Callable[[], float], method: Method, products: int = 1) -> Sampling:
        return Sampling(take, method, products, lambda: self.gpu.was_late)

    def watching(self) -> AbstractContextManager[Watch]:
        """Clock, power and limits of this GPU while a block runs; see :func:`ladder.backends.nvml.watching`."""
        return watching(self.gpu.pci_bus_id)

    @contextmanager
    def prepared(self, kernel: Compiled, a: F32, b: F32) -> Iterator[tuple[Callable[[], None], int]]:
        """A and B on the device; gives a function that enqueues the product, and how many launches that is.

        Raises:
            InputError, ShapeError, BackendError: as :meth:`run`.
        """
        shape = _shape_of(a, b)
        with self._at_work(kernel, shape), ExitStack() as held:
            arrays = held.enter_context(self._placed(kernel, a, b, (0, 0, 0)))
            sequence = launchers(self.gpu, kernel, shape, arrays.pointers, workspace=arrays.workspace)

            def enqueue() -> None:
                for launch in sequence:
                    launch()

            yield enqueue, len(sequence)
            self.gpu.stream.sync()

    def reading(self, enqueue: Callable[[], None], *, seconds_each: float) -> Watched:
        """The card while ``enqueue`` is repeated, which takes ``seconds_each`` on the device; a third of a second."""
        if sensor_of(self.gpu.pci_bus_id) is None:
            return Watched()
        repeats = max(1, round(0.02 / seconds_each))

        def keep_busy(seconds: float) -> None:
            until = time.perf_counter() + seconds
            while time.perf_counter() < until:
                for _ in range(repeats):
                    enqueue()
                self.gpu.stream.sync()

        keep_busy(_SETTLE_S)
        with self.watching() as watch:
            keep_busy(_WATCH_S)
        return watch.result

    def close(self) -> None:
        """Free what the backend holds on the device."""
        self.gpu.close()

    @contextmanager
    def _at_work(self, kernel: Compiled, shape: Shape) -> Iterator[None]:
        self.gpu.activate()
        with translated(f"rung {kernel.rung.name} at {shape} on {self.gpu.device.name}"):
            yield

    @contextmanager
    def _placed(self, kernel: Compiled, a: F32, b: F32, offsets: tuple[int, int, int]) -> Iterator[_Placed]:
        """A, B, C and a packed operand in guarded buffers: A and B copied, C poisoned or zeroed, the last poisoned."""
        shape, rung = _shape_of(a, b), kernel.rung
        plan(rung, shape)  # refuses what the rung cannot do, before memory is taken
        shifts = (4 * offsets[0], 4 * offsets[1], 4 * offsets[2])
        require_aligned(rung, shifts, fix=f"give offsets that are multiples of {rung.align_bytes // 4} elements")
        sizes = (a.nbytes, b.nbytes, 4 * shape.m * shape.n)
        slots = [Slot(nbytes=size, offset=offset) for size, offset in zip(sizes, offsets, strict=True)]
        names = ["A", "B", "C"]
        if rung.pack is not None:
            resident = resident_blocks(self.gpu, kernel)
            slots.append(Slot(nbytes=workspace_bytes(rung, shape, resident=resident)))
            names.append(f"packed {rung.pack.of}")
        needed = sum(slot.total_bytes for slot in slots)
        what = f"rung {rung.name} at {shape}: memory for {', '.join(names[:-1])} and {names[-1]}, {needed} bytes in all"
        with ExitStack() as held:
            buffers = []
            for slot in slots:
                buffer = self.gpu.allocate(slot.total_bytes, what)
                held.callback(buffer.close)
                self.gpu.fill(buffer, 0, slot.total_bytes, CANARY_BITS)
                buffers.append(buffer)
            for array, buffer, slot in zip((a, b), buffers, slots, strict=False):
                self.gpu.upload(buffer, slot.start, array)
            for buffer, slot in zip(buffers[2:], slots[2:], strict=True):
                zero = buffer is buffers[2] and rung.c_init == "zero"
                self.gpu.fill(buffer, slot.start, slot.nbytes, 0 if zero else POISON_BITS)
            yield _Placed(tuple(names), tuple(buffers), tuple(slots))


class _Placed:
    """Buffers with an array in each: A, B, C, and a packed operand where there is one."""

    def __init__(self, names: tuple[str, ...], buffers: tuple[Any, ...], slots: tuple[Slot, ...]) -> None:
        self.names, self.buffers, self.slots = names, buffers, slots

    @property
    def pointers(self) -> tuple[int, int, int]:
        """Addresses of the first elements of A, B and C."""
        a, b, c = (self._address(which) for which in range(3))
        return a, b, c

    @property
    def workspace(self) -> int | None:
        """Where a packed operand goes; None when nothing is packed."""
        return self._address(3) if len(self.buffers) > 3 else None

    def _address(self, which: int) -> int:
        return int(self.buffers[which].handle) + self.slots[which].start

    def read(self, gpu: Gpu, which: int, into: NDArray[Any], *, skip_bytes: int = 0) -> None:
        """Copy array ``which`` to the host, from ``skip_bytes`` on."""
        gpu.download(self.buffers[which], self.slots[which].start + skip_bytes, into)

    def damage(self, gpu: Gpu, a: F32, b: F32) -> str | None:
        """What the kernel wrote where it must not, in one line."""
        found = [self._stray(gpu, which, name) for which, name in enumerate(self.names)]
        found += [self._changed(gpu, which, array) for which, array in enumerate((a, b))]
        return "; ".join(text for text in found if text is not None) or None

    def _stray(self, gpu: Gpu, which: int, name: str) -> str | None:
        slot = self.slots[which]
        before: U32 = np.empty(slot.start // 4, np.uint32)
        after: U32 = np.empty((slot.total_bytes - slot.end) // 4, np.uint32)
        gpu.download(self.buffers[which], 0, before)
        gpu.download(self.buffers[which], slot.end, after)
        return stray_writes(name, before, after)

    def _changed(self, gpu: Gpu, which: int, array: F32) -> str | None:
        row_bytes = array.nbytes // len(array) if len(array) else 0
        if row_bytes == 0:
            return None
        rows = max(1, _CHUNK_BYTES // row_bytes)
        for first in range(0, len(array), rows):
            expected = array[first : first + rows]
            got = np.empty_like(expected)
            self.read(gpu, which, got, skip_bytes=first * row_bytes)
            text = change("AB"[which], expected, got, first_row=first)
            if text is not None:
                return text
        return None


def _shape_of(a: F32, b: F32) -> Shape:
    for name, array in (("A", a), ("B", b)):
        if array.ndim != 2 or array.dtype.str != "<f4" or not array.flags.c_contiguous:
            raise InputError(f"{name} is {array.dtype} {array.shape}; a backend takes C-contiguous float32 matrices")
    if a.shape[1] != b.shape[0]:
        raise ShapeError(f"A {a.shape} and B {b.shape} do not multiply: {a.shape[1]} columns, {b.shape[0]} rows")
    return Shape(m=a.shape[0], n=b.shape[1], k=a.shape[1])
