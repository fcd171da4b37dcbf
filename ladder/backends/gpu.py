"""One GPU through ``cuda.core``: memory, copies, loaded kernels, launches and event times. Knows no matrices."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladder import catalog
from ladder.backends.driver import device_count, driver_version, find_gpu, translated
from ladder.errors import BackendError, DriverMissingError
from ladder.model import Device, Rung
from ladder.nvrtc import Compiled, compile_rung
from ladder.occupancy import padded_smem_bytes

__all__ = ["Gpu", "probe"]

DEFAULT_SMEM_BYTES = 48 * 1024
"""Shared memory of a block, static and dynamic, above which a kernel has to opt in (CUDA C++ Programming Guide)."""

L1_KIB = {(7, 5): 96, (8, 0): 192, (8, 6): 128, (8, 7): 192, (8, 9): 128, (9, 0): 256, (10, 0): 256, (12, 0): 128}
"""L1 and shared memory of an SM together, which no device attribute tells (CUDA C++ Programming Guide, compute
capabilities)."""

_EVICT_BLOCKS_AN_SM, _EVICT_THREADS = 8, 256
_HOLD_S = 20e-6
_HOLD_A_LAUNCH_S = 15e-6
_MAX_STRETCH = 8.0


def probe(name: str, kernel: str, *, block: int, **params: int) -> Rung:
    """A kernel of ``cuda_src/probes``, as :func:`ladder.nvrtc.compile_rung` takes it; its tile means nothing."""
    path = catalog.cuda_src() / "probes" / f"{name}.cu"
    return Rung(
        name=name,
        number=0,
        kind="law",
        title=name,
        kernel=kernel,
        params=params,
        tile=(1, 1),
        block=(block, 1, 1),
        path=path,
        source=path.read_text(encoding="utf-8"),
    )


class Gpu:
    """A device, one stream and the kernels loaded on it.

    Raises:
        DriverMissingError: there is no driver or no GPU; the message says how to get one.
        BackendError: there is no device of that number, or the driver refuses a context.
    """

    def __init__(self, device_id: int = 0) -> None:
        reason = find_gpu()
        if reason is not None:
            raise DriverMissingError(reason)
        count = device_count()
        if not 0 <= device_id < count:
            raise BackendError(f"there is no GPU {device_id}; the driver lists {count}, counted from 0")
        from cuda import core  # noqa: PLC0415 -- loads the CUDA bindings

        self.core: Any = core
        with translated(f"opening GPU {device_id}"):
            self.handle: Any = core.Device(device_id)
            self.handle.set_current()
            self.stream: Any = self.handle.create_stream()
            timed = core.EventOptions(timing_enabled=True)
            self._start, self._stop = (self.handle.create_event(timed) for _ in range(2))
            found = self.handle.properties
            self.pci_bus_id = f"{found.pci_domain_id:08x}:{found.pci_bus_id:02x}:{found.pci_device_id:02x}.0"
            self.device = self._describe()
            self.max_smem_bytes = int(found.max_shared_memory_per_block_optin)
        self._kernels: dict[tuple[str, bytes], Any] = {}
        self._foreign: Any = None
        self._evict: Callable[[], None] | None = None
        self._workspace: Any = None
        self._holder: Any = None
        self._stretch = 1.0
        self.was_late = False

    def _describe(self) -> Device:
        properties = self.handle.properties
        major, minor = (int(part) for part in self.handle.compute_capability)
        return Device(
            backend="cuda",
            name=str(self.handle.name),
            compute_capability=(major, minor),
            sm_count=int(properties.multiprocessor_count),
            l2_bytes=int(properties.l2_cache_size),
            smem_per_sm_bytes=int(properties.max_shared_memory_per_multiprocessor),
            l1_bytes=1024 * L1_KIB.get((major, minor), 0),
            registers_per_sm=int(properties.max_registers_per_multiprocessor),
            max_threads_per_sm=int(properties.max_threads_per_multiprocessor),
            max_blocks_per_sm=int(properties.max_blocks_per_multiprocessor),
            driver=driver_version(self.pci_bus_id),
            sm_clock_hz=1e3 * int(properties.clock_rate),
        )

    def activate(self) -> None:
        """Make this GPU the calling thread's."""
        self.handle.set_current()

    def allocate(self, nbytes: int, what: str) -> Any:
        """Device memory, at least one byte.

        Raises:
            BackendError: the device has not got it; the message gives the bytes.
        """
        try:
            with translated(what):
                return self.handle.allocate(max(1, nbytes), stream=self.stream)
        except BackendError as error:
            raise BackendError(f"{error} (asked for {nbytes} bytes on {self.device.name})") from error.__cause__

    def part(self, buffer: Any, start: int, nbytes: int) -> Any:
        """``nbytes`` of ``buffer`` from byte ``start``; ``buffer`` stays the owner."""
        return self.core.Buffer.from_handle(int(buffer.handle) + start, nbytes, owner=buffer)

    def fill(self, buffer: Any, start: int, nbytes: int, word: int) -> None:
        """Set ``nbytes``, a multiple of 4, to the 32-bit ``word``."""
        if nbytes:
            self.part(buffer, start, nbytes).fill(word.to_bytes(4, "little"), stream=self.stream)

    def upload(self, buffer: Any, start: int, array: NDArray[Any]) -> None:
        """Copy a C-contiguous host array to byte ``start`` of ``buffer``; returns when it is there."""
        if array.nbytes:
            host = self.core.Buffer.from_handle(array.ctypes.data, array.nbytes, owner=array)
            self.part(buffer, start, array.nbytes).copy_from(host, stream=self.stream)
            self.stream.sync()

    def download(self, buffer: Any, start: int, array: NDArray[Any]) -> None:
        """Fill a C-contiguous host array from byte ``start`` of ``buffer``, after all work on the stream."""
        if array.nbytes:
            host = self.core.Buffer.from_handle(array.ctypes.data, array.nbytes, owner=array)
            self.part(buffer, start, array.nbytes).copy_to(host, stream=self.stream)
        self.stream.sync()

    def workspace(self, nbytes: int, what: str) -> int:
        """The address of at least ``nbytes`` that are this object's own, until it is asked for more; 0 for none.

        Raises:
            BackendError: as :meth:`allocate`.
        """
        if nbytes == 0:
            return 0
        if self._workspace is None or self._workspace.size < nbytes:
            if self._workspace is not None:
                self._workspace.close()
                self._workspace = None
            self._workspace = self.allocate(nbytes, f"{what}: memory for a packed operand")
        return int(self._workspace.handle)

    def load(self, compiled: Compiled, *, pack: bool = False) -> Any:
        """The compiled kernel on this device, ready to launch with its rung's dynamic shared memory.

        Args:
            compiled: the rung.
            pack: load the kernel that packs an operand for it.

        Raises:
            BackendError: it wants more shared memory than a block can have, or the driver cannot load it.
        """
        name = compiled.pack_lowered_name if pack else compiled.lowered_name
        if name is None:
            raise BackendError(f"rung {compiled.rung.name} was compiled without a kernel that packs; compile it again")
        key = (name, compiled.cubin)
        if key not in self._kernels:
            what = f"loading {compiled.rung.name} for {compiled.arch} on {self.device.name}"
            dynamic = 0 if pack else self.dynamic_smem_bytes(compiled)
            needed = 0 if pack else compiled.resources.smem_bytes - compiled.rung.smem_bytes + dynamic
            if needed > self.max_smem_bytes:
                raise BackendError(
                    f"{what}: it needs {needed} bytes of shared memory a block, and a block has at most "
                    f"{self.max_smem_bytes}; use smaller tiles"
                )
            with translated(what):
                module = self.core.ObjectCode.from_cubin(compiled.cubin, name=compiled.rung.name)
                kernel = module.get_kernel(name)
                if dynamic and needed > DEFAULT_SMEM_BYTES:
                    self._opt_in(kernel, dynamic, what)
            self._kernels[key] = kernel
        return self._kernels[key]

    def dynamic_smem_bytes(self, compiled: Compiled) -> int:
        """What a launch of the rung asks for: its declared dynamic shared memory, and what keeps other blocks away."""
        own, rung = compiled.resources.smem_bytes, compiled.rung
        return rung.smem_bytes + padded_smem_bytes(self.device, smem_bytes=own, most=rung.blocks_per_sm) - own

    def _opt_in(self, kernel: Any, dynamic_smem_bytes: int, what: str) -> None:
        """Allow more than 48 KiB; cuda.core reads this attribute and has no way to set it."""
        from cuda.bindings import driver  # noqa: PLC0415 -- loads the CUDA bindings

        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        (status,) = driver.cuKernelSetAttribute(attribute, dynamic_smem_bytes, kernel.handle, self.handle.device_id)
        if status != driver.CUresult.CUDA_SUCCESS:
            raise BackendError(f"{what}: {dynamic_smem_bytes} bytes of dynamic shared memory: {status.name}")

    def launcher(
        self,
        kernel: Any,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        *arguments: Any,
        smem_bytes: int = 0,
        overlap: bool = False,
    ) -> Callable[[], None]:
        """A function that enqueues one launch each time it is called.

        Integers of Python are passed as 64-bit pointers, numpy's scalars and arrays by value as what they are. With
        ``overlap`` the kernel may start before the one enqueued before it ends, and waits itself where it must.

        Raises:
            BackendError: an argument is a Python float, which would be passed as a double.
        """
        for argument in arguments:
            if isinstance(argument, float):
                raise BackendError(
                    f"kernel argument {argument!r} is a Python float, which is passed as a double; "
                    f"give numpy.float32({float(argument)!r}) for a float parameter"
                )
        if overlap or any(isinstance(argument, np.ndarray) for argument in arguments):
            return self._launcher_by_value(kernel, grid, block, arguments, smem_bytes, overlap=overlap)
        config = self.core.LaunchConfig(grid=grid, block=block, shmem_size=smem_bytes)
        return partial(self.core.launch, self.stream, config, kernel, *arguments)

    def _launcher_by_value(
        self,
        kernel: Any,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: tuple[Any, ...],
        smem_bytes: int,
        *,
        overlap: bool,
    ) -> Callable[[], None]:
        """The same for what cuda.core does not take: structures, as the bytes of an array, and overlapping kernels."""
        from cuda.bindings import driver  # noqa: PLC0415 -- loads the CUDA bindings

        values = [np.asarray(a, np.uint64 if isinstance(a, int) else None) for a in arguments]
        addresses = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))

        def enqueue(_alive: object = values) -> None:
            if overlap:
                config = _overlapping(grid, block, smem_bytes, int(self.stream.handle))
                (status,) = driver.cuLaunchKernelEx(config, kernel.handle, ctypes.addressof(addresses), 0)
            else:
                (status,) = driver.cuLaunchKernel(
                    kernel.handle, *grid, *block, smem_bytes, self.stream.handle, ctypes.addressof(addresses), 0
                )
            if status != driver.CUresult.CUDA_SUCCESS:
                raise BackendError(f"launching on {self.device.name}: {status.name}")

        return enqueue

    def elapsed_s(self, enqueue: Callable[[], None], *, launches: int, flush: bool = False) -> float:
        """Seconds on the device between two events around what ``enqueue`` puts on the stream.

        The stream is held meanwhile, so that the host has queued everything before the first event passes: short
        kernels are timed at the GPU's pace, not the host's. When the hold was too short it is repeated with a longer,
        up to eight times as long; ``was_late`` is then true when even that was too short.

        Args:
            enqueue: puts work on ``self.stream``, and nothing else.
            launches: about how many launches that is.
            flush: evict everything from L2 first.
        """
        while True:
            if flush:
                self.evict_l2()
            self._hold(self._stretch * (_HOLD_S + launches * _HOLD_A_LAUNCH_S))
            self.stream.record(self._start)
            enqueue()
            self.stream.record(self._stop)
            late = self.was_late = bool(self._start.is_done)
            self._stop.sync()
            if not late or self._stretch >= _MAX_STRETCH:
                return float(self._stop - self._start) * 1e-3
            self._stretch *= 2

    def _hold(self, seconds: float) -> None:
        if self._holder is None:
            self._holder = self.load(compile_rung(probe("hold", "hold", block=1), arch=self.device.arch))
        self.launcher(self._holder, (1, 1, 1), (1, 1, 1), np.uint64(round(seconds * 1e9)))()

    def evict_l2(self) -> None:
        """Enqueue reads of twice the L2's size, after which it holds nothing else, and nothing to write back.

        Raises:
            BackendError: the memory for that is not there, or the kernel cannot be launched.
        """
        if self._evict is None:
            nbytes = 2 * self.device.l2_bytes
            self._foreign = self.allocate(nbytes, "a buffer to read until the L2 cache holds nothing else")
            self._foreign.fill(0, stream=self.stream)
            kernel = self.load(compile_rung(probe("evict", "evict", block=_EVICT_THREADS), arch=self.device.arch))
            address = int(self._foreign.handle)
            grid = (_EVICT_BLOCKS_AN_SM * self.device.sm_count, 1, 1)
            quads = np.uint64(nbytes // 16)
            self._evict = self.launcher(kernel, grid, (_EVICT_THREADS, 1, 1), address, quads, address)
            self._evict()  # what the fill has left there goes back to memory now
        self._evict()

    def close(self) -> None:
        """Wait for what is enqueued and free the stream and the buffers of this object."""
        for buffer in (self._foreign, self._workspace):
            if buffer is not None:
                buffer.close()
        self._kernels.clear()
        self.stream.close()


def _overlapping(grid: tuple[int, int, int], block: tuple[int, int, int], smem_bytes: int, stream: int) -> Any:
    """A launch that need not wait for the kernel before it (CUDA Driver API, programmatic stream serialization)."""
    from cuda.bindings import driver  # noqa: PLC0415 -- loads the CUDA bindings

    value = driver.CUlaunchAttributeValue()
    value.programmaticStreamSerializationAllowed = 1
    attribute = driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    attribute.value = value
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid
    config.blockDimX, config.blockDimY, config.blockDimZ = block
    config.sharedMemBytes, config.hStream = smem_bytes, driver.CUstream(stream)
    config.attrs, config.numAttrs = [attribute], 1
    return config
