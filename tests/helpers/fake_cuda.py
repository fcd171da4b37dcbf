"""A double of the part of ``cuda.core`` that the backend uses: host memory, kernels in Python, a clock of its own.

It shows what the backend hands to CUDA and what it makes of the answers; ``tests/gpu`` shows that CUDA takes it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import cuda
import numpy as np
import pytest
from cuda.core._utils.cuda_utils import CUDAError
from numpy.typing import NDArray

from ladder.backends import driver, gpu

__all__ = ["FakeCuda", "floats", "installed", "multiply"]

MEMORY_BYTES = 2**33
MAX_SMEM_BYTES = 227 * 1024
LAUNCH_S = 1e-3

Kernel = Callable[["Launch"], None]


def floats(pointer: int, count: int) -> NDArray[np.float32]:
    """``count`` floats of memory at an address, writeable."""
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(pointer)) if count else np.empty(0, np.float32)


OF_TIMING = frozenset(("hold", "evict"))
"""Kernels that are launched around a product and compute nothing."""


@dataclass
class Launch:
    """One launch as the driver got it; ``lowered`` is the kernel's mangled name, with its template arguments."""

    kernel: str
    config: Any
    arguments: tuple[Any, ...]
    lowered: str = ""

    def operands(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """A, B and C of a rung's launch, in place."""
        a, b, c, m, n, k = (int(argument) for argument in self.arguments[:6])
        return floats(a, m * k).reshape(m, k), floats(b, k * n).reshape(k, n), floats(c, m * n).reshape(m, n)


def multiply(launch: Launch) -> None:
    """What every rung does."""
    a, b, c = launch.operands()
    c[...] = a @ b


@dataclass
class FakeCuda:
    """The module, and what was done through it."""

    kernels: dict[str, Kernel] = field(default_factory=dict)
    """What a kernel does, by its rung's name or its own lowered one."""
    structures: dict[str, str] = field(default_factory=dict)
    """Arguments of kernels that take structures, by lowered name: ``p`` a pointer, ``i`` an int, ``m`` a tensor map."""
    launches: list[Launch] = field(default_factory=list)
    fills: list[int] = field(default_factory=list)
    opted_in: list[int] = field(default_factory=list)
    overlapped: list[str] = field(default_factory=list)
    live: list[Any] = field(default_factory=list)
    now_s: float = 0.0
    launch_s: float = LAUNCH_S
    gap_s: float = 0.0
    """What a launch takes more when it is not in a graph."""
    late: int = 0
    capturing: list[Callable[[], None]] | None = None
    """What a graph under capture holds so far."""
    graphs: list[list[Callable[[], None]]] = field(default_factory=list)
    """Those that are not destroyed."""
    uncapturable: bool = False
    fault: str | None = None
    free_bytes: int = MEMORY_BYTES

    @property
    def rung_launches(self) -> list[Launch]:
        """Launches of rungs: all but those that hold the stream and empty the L2 cache."""
        return [launch for launch in self.launches if launch.kernel not in OF_TIMING]

    def check(self) -> None:
        if self.fault is not None:
            raise CUDAError(self.fault)

    def launched(self, kernel: str, config: Any, arguments: tuple[Any, ...], lowered: str = "") -> None:
        made = Launch(kernel, config, arguments, lowered)

        def execute() -> None:
            self.launches.append(made)
            if kernel not in OF_TIMING:
                self.kernels.get(kernel, multiply)(made)
                self.now_s += self.launch_s

        if self.capturing is not None:
            execute.__name__ = lowered or kernel
            self.capturing.append(execute)
            return
        execute()
        self.now_s += self.gap_s

    def launched_raw(self, lowered: str, dims: tuple[int, ...], addresses: int) -> None:
        """A launch through the driver: each argument is read from where its address points."""
        kinds = self.structures[lowered]
        values: list[Any] = []
        for kind, at in zip(kinds, (ctypes.c_uint64 * len(kinds)).from_address(addresses), strict=True):
            if kind == "m":
                assert at % 64 == 0
                values.append(ctypes.string_at(at, 128))
            elif kind == "p":
                values.append(ctypes.c_uint64.from_address(at).value)
            else:
                values.append(np.int32(ctypes.c_int32.from_address(at).value))
        config = SimpleNamespace(grid=dims[:3], block=dims[3:6], shmem_size=dims[6])
        self.launched(lowered, config, tuple(values))

    def module(self) -> SimpleNamespace:
        """What ``from cuda import core`` gives."""
        world = self

        class Buffer:
            def __init__(self, pointer: int, size: int, owner: object) -> None:
                self.handle, self.size, self.owner = pointer, size, owner

            @staticmethod
            def from_handle(ptr: int, size: int, *, owner: object = None) -> Buffer:
                return Buffer(ptr, size, owner)

            def fill(self, value: int | bytes, *, stream: object) -> None:
                world.fills.append(self.size)
                word = value if isinstance(value, bytes) else bytes([value])
                assert self.size % len(word) == 0
                np.ctypeslib.as_array((ctypes.c_uint8 * self.size).from_address(self.handle)).reshape(-1, len(word))[
                    ...
                ] = np.frombuffer(word, np.uint8)

            def copy_from(self, source: Buffer, *, stream: object) -> None:
                world.check()
                assert source.size == self.size
                world.now_s += LAUNCH_S
                ctypes.memmove(self.handle, source.handle, self.size)

            def copy_to(self, target: Buffer, *, stream: object) -> None:
                target.copy_from(self, stream=stream)

            def close(self) -> None:
                world.live.remove(self)

        class Event:
            at = 0.0

            @property
            def is_done(self) -> bool:
                world.late -= 1
                return world.late >= 0

            def sync(self) -> None:
                world.check()

            def __sub__(self, other: Event) -> float:
                return 1e3 * (self.at - other.at)

        class Stream:
            handle = 7

            def record(self, event: Event) -> None:
                event.at = world.now_s

            def sync(self) -> None:
                world.check()

            def close(self) -> None:
                pass

        class Device:
            def __init__(self, device_id: int) -> None:
                self.device_id, self.name, self.compute_capability = device_id, "Fake GPU", (9, 0)
                self.uuid = "fake-uuid"
                self.properties = SimpleNamespace(
                    multiprocessor_count=4, l2_cache_size=2**20, max_shared_memory_per_multiprocessor=228 * 1024,
                    max_registers_per_multiprocessor=65536, max_threads_per_multiprocessor=2048,
                    max_blocks_per_multiprocessor=32, clock_rate=1_980_000, pci_domain_id=0, pci_bus_id=0x1E,
                    pci_device_id=0, max_shared_memory_per_block_optin=MAX_SMEM_BYTES,
                )  # fmt: skip

            def set_current(self) -> None:
                pass

            def create_stream(self) -> Stream:
                return Stream()

            def create_event(self, options: object) -> Event:
                return Event()

            def allocate(self, size: int, *, stream: object) -> Buffer:
                if size > world.free_bytes:
                    raise CUDAError("CUDA_ERROR_OUT_OF_MEMORY: no room")
                memory = np.empty(size // 8 + 32, np.uint64)
                buffer = Buffer(memory.ctypes.data + -memory.ctypes.data % 256, size, memory)
                world.live.append(buffer)
                return buffer

        def launch(stream: object, config: Any, kernel: Any, *arguments: Any) -> None:
            world.launched(kernel.name, config, arguments, kernel.lowered)

        def get_kernel(name: str, lowered: str) -> Any:
            world.check()
            name = lowered if lowered in world.kernels else name
            blocks = SimpleNamespace(max_active_blocks_per_multiprocessor=lambda threads, _: 2048 // threads // 2)
            return SimpleNamespace(name=name, lowered=lowered, handle=lowered, occupancy=blocks)

        def from_cubin(cubin: bytes, *, name: str) -> Any:
            assert cubin.startswith(b"\x7fELF")
            return SimpleNamespace(get_kernel=lambda lowered: get_kernel(name, lowered))

        return SimpleNamespace(
            Device=Device,
            Buffer=Buffer,
            EventOptions=lambda timing_enabled: timing_enabled,
            LaunchConfig=lambda grid, block, shmem_size: SimpleNamespace(grid=grid, block=block, shmem_size=shmem_size),
            ObjectCode=SimpleNamespace(from_cubin=from_cubin),
            launch=launch,
        )


def graph_calls(world: FakeCuda) -> dict[str, Callable[..., tuple[Any, ...]]]:
    """The driver's functions for graphs: a graph is the list of what it executes."""
    from cuda.bindings import driver as bindings  # noqa: PLC0415

    done = bindings.CUresult.CUDA_SUCCESS
    kernel = bindings.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL

    def begin(stream: int, mode: Any) -> tuple[Any, ...]:
        assert world.capturing is None
        world.capturing = []
        return (done,)

    def end(stream: int) -> tuple[Any, ...]:
        made, world.capturing = world.capturing, None
        if world.uncapturable:
            return bindings.CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, None
        return done, made

    def instantiate(graph: list[Callable[[], None]], flags: int) -> tuple[Any, ...]:
        world.graphs.append(graph)
        return done, graph

    def launch(graph: list[Callable[[], None]], stream: int) -> tuple[Any, ...]:
        if world.fault is not None:
            return (bindings.CUresult.CUDA_ERROR_LAUNCH_FAILED,)
        for execute in graph:
            execute()
        return (done,)

    def destroy(graph: list[Callable[[], None]]) -> tuple[Any, ...]:
        world.graphs[:] = [each for each in world.graphs if each is not graph]
        return (done,)

    return {
        "cuStreamBeginCapture": begin,
        "cuStreamEndCapture": end,
        "cuGraphInstantiate": instantiate,
        "cuGraphUpload": lambda *_: (done,),
        "cuGraphLaunch": launch,
        "cuGraphGetNodes": lambda graph, count: (done, graph[:count], len(graph)),
        "cuGraphNodeGetType": lambda _: (done, kernel),
        "cuGraphKernelNodeGetParams": lambda node: (done, SimpleNamespace(func=0, kern=node)),
        "cuKernelGetName": lambda node: (done, node.__name__.encode()),
        "cuGraphExecDestroy": destroy,
        "cuGraphDestroy": lambda _: (done,),
    }


@contextmanager
def installed(**state: Any) -> Iterator[FakeCuda]:
    """Have the backend find the double instead of ``cuda.core``, and one GPU."""
    world = FakeCuda(**state)

    def opt_in(attribute: Any, size: int, kernel: object, device: int) -> tuple[Any]:
        from cuda.bindings import driver as bindings  # noqa: PLC0415

        assert attribute == bindings.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        world.opted_in.append(size)
        return (bindings.CUresult.CUDA_SUCCESS,)

    def launch_raw(kernel: str, *rest: Any) -> tuple[Any]:
        from cuda.bindings import driver as bindings  # noqa: PLC0415

        *dims, _, addresses, extra = rest
        assert (len(dims), extra) == (7, 0)
        if world.fault is not None:
            return (bindings.CUresult.CUDA_ERROR_LAUNCH_FAILED,)
        world.launched_raw(kernel, tuple(dims), addresses)
        return (bindings.CUresult.CUDA_SUCCESS,)

    def launch_overlapping(config: Any, kernel: str, addresses: int, extra: int) -> tuple[Any]:
        (attribute,) = config.attrs
        assert attribute.value.programmaticStreamSerializationAllowed == 1
        world.overlapped.append(kernel)
        dims = (config.gridDimX, config.gridDimY, config.gridDimZ, config.blockDimX, config.blockDimY, config.blockDimZ)
        return launch_raw(kernel, *dims, config.sharedMemBytes, config.hStream, addresses, extra)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda, "core", world.module(), raising=False)
        patch.setattr("cuda.bindings.driver.cuLaunchKernel", launch_raw)
        patch.setattr("cuda.bindings.driver.cuLaunchKernelEx", launch_overlapping)
        patch.setattr("cuda.bindings.driver.cuKernelSetAttribute", opt_in)
        for name, call in graph_calls(world).items():
            patch.setattr(f"cuda.bindings.driver.{name}", call)
        for module in (gpu, driver):
            patch.setattr(module, "find_gpu", lambda: None)
            patch.setattr(module, "device_count", lambda: 1)
            patch.setattr(module, "driver_version", lambda _: "580.1")
        yield world
