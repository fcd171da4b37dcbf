"""Products of arrays that are already on a GPU (torch, cupy, numba ...), through DLPack or the CUDA array interface."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ladder.backends.driver import find_gpu, translated
from ladder.backends.gpu import Gpu
from ladder.backends.launches import launchers
from ladder.errors import DriverMissingError, InputError, ShapeError
from ladder.geometry import plan, require_aligned
from ladder.model import Device, Rung, Shape
from ladder.nvrtc import compile_rung

__all__ = ["multiply_device"]

MAX_ADDRESS_BYTES = 256

_ALIGNED_COPY = "give a copy of it, which starts where its library's memory does, or use a rung without that need"


def multiply_device(rung: Rung | Callable[[Shape, Device, int], Rung], a: Any, b: Any, *, out: Any = None) -> Any:
    """C = A @ B on the GPU that holds ``a`` and ``b``, without a copy; returns when C is there.

    The product waits for what the arrays' own library has enqueued on them (its current stream).

    Args:
        rung: the kernel, which is compiled for the arrays' device; or a function that gives it for the shape, the
            device, and the largest power of two up to 256 that the addresses of A, B and C are multiples of.
        a: (M, K) float32, row-major.
        b: (K, N) float32, row-major, on the same device.
        out: (M, N) float32, row-major, on the same device, apart from ``a`` and ``b``; None for a new array of ``a``'s
            library, which torch and cupy can give.

    Returns:
        ``out``, or the new array.

    Raises:
        InputError: an array is not float32, not a row-major matrix, on another device, read-only, not as aligned as
            the rung needs, or overlaps C.
        ShapeError: the sizes do not fit, or the rung does not support them.
        CompileError, BackendError: the rung does not compile or its launch failed.
        DriverMissingError: there is no driver or no GPU.
    """
    reason = find_gpu()
    if reason is not None:
        raise DriverMissingError(reason)
    gpu = _gpu(_view("a", a, -1).device_id)
    gpu.activate()
    with translated(f"arrays on {gpu.device.name}"):
        stream = int(gpu.stream.handle)
        left, right = (_matrix(name, array, gpu, stream) for name, array in (("a", a), ("b", b)))
        if left.shape[1] != right.shape[0]:
            raise ShapeError(
                f"a {left.shape} and b {right.shape} do not multiply: {left.shape[1]} columns, {right.shape[0]} rows"
            )
        shape = Shape(m=left.shape[0], n=right.shape[1], k=left.shape[1])
        result = _new_like(a, shape) if out is None else out
        c = _matrix("out", result, gpu, stream)
        _require_fit(c, shape, {"a": left, "b": right})
        if not isinstance(rung, Rung):
            addresses = left.ptr | right.ptr | c.ptr | MAX_ADDRESS_BYTES
            rung = rung(shape, gpu.device, addresses & -addresses)
        _require_able(rung, shape, gpu)
        require_aligned(rung, (left.ptr, right.ptr, c.ptr), fix=_ALIGNED_COPY)
        nbytes = 4 * shape.m * shape.n
        if nbytes and rung.c_init == "zero":
            gpu.core.Buffer.from_handle(c.ptr, nbytes, owner=result).fill(0, stream=gpu.stream)
        kernel = compile_rung(rung, arch=rung.arch_for(gpu.device))
        for launch in launchers(gpu, kernel, shape, (left.ptr, right.ptr, c.ptr)):
            launch()
        gpu.stream.sync()
    return result


@lru_cache(maxsize=8)
def _gpu(device_id: int) -> Gpu:
    return Gpu(device_id)


def _view(name: str, array: Any, stream: int) -> Any:
    """A view of a device array that waits on ``stream`` for its producer; -1 waits for nothing."""
    from cuda.core.utils import StridedMemoryView  # noqa: PLC0415 -- loads the CUDA bindings

    try:
        view = StridedMemoryView.from_any_interface(array, stream_ptr=stream)
    except (BufferError, TypeError, NotImplementedError, RuntimeError) as error:
        raise InputError(f"{name} ({type(array).__name__}) gives no view of its memory: {error}") from error
    if view.device_id < 0:
        raise InputError(f"{name} is {type(array).__name__} on the CPU; move it to the GPU of the others")
    return view


def _matrix(name: str, array: Any, gpu: Gpu, stream: int) -> Any:
    view = _view(name, array, stream)
    if view.device_id != gpu.handle.device_id:
        raise InputError(f"{name} is on GPU {view.device_id} and a on GPU {gpu.handle.device_id}; move one of them")
    try:
        dtype = view.dtype
    except (NotImplementedError, TypeError) as error:
        raise InputError(f"{name} has a type that rungs do not know ({error}); give float32") from error
    if dtype != np.dtype("<f4"):
        raise InputError(f"{name} is {dtype} and rungs multiply float32; convert it first")
    if len(view.shape) != 2:
        raise InputError(f"{name} has {len(view.shape)} dimensions {tuple(view.shape)}; give a matrix")
    if not _row_major(tuple(view.shape), view.strides):
        raise InputError(
            f"{name} has strides {tuple(view.strides)} for shape {tuple(view.shape)}; rungs read row-major memory: "
            f"give {name}.contiguous() (torch) or cupy.ascontiguousarray({name})"
        )
    return view


def _row_major(shape: tuple[int, ...], strides: tuple[int, ...] | None) -> bool:
    """Whether elements lie one after the other; ``strides`` in elements, None means that they do."""
    rows, cols = shape
    if strides is None or rows * cols == 0:
        return True
    return (cols == 1 or strides[1] == 1) and (rows == 1 or strides[0] == cols)


def _require_able(rung: Rung, shape: Shape, gpu: Gpu) -> None:
    reason = rung.why_not_on(gpu.device)
    if reason is not None:
        raise ShapeError(f"rung {rung.name} {reason}")
    plan(rung, shape)


def _require_fit(c: Any, shape: Shape, operands: dict[str, Any]) -> None:
    if tuple(c.shape) != (shape.m, shape.n):
        raise InputError(f"out is {tuple(c.shape)} and C is {(shape.m, shape.n)}; give an array of that shape, or none")
    if c.readonly:
        raise InputError("out is read-only; give a writeable array, or none")
    begin, end = c.ptr, c.ptr + 4 * shape.m * shape.n
    for name, view in operands.items():
        rows, cols = view.shape
        if max(begin, view.ptr) < min(end, view.ptr + 4 * rows * cols):
            raise InputError(f"out overlaps {name}, which the kernel still reads; give another array, or none")


def _new_like(array: Any, shape: Shape) -> Any:
    """A new (M, N) array of ``array``'s own library, on its device."""
    size = (shape.m, shape.n)
    if hasattr(array, "new_empty"):  # torch
        return array.new_empty(size)
    library = sys.modules.get(type(array).__module__.partition(".")[0])
    if library is not None and library.__name__ == "cupy":
        with array.device:
            return library.empty(size, dtype=np.float32)
    raise InputError(f"no new array can be made for {type(array).__name__}; give one as out=")
