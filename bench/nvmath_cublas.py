"""cuBLAS itself, through the bindings of nvmath-python: the calls with no framework between them and the GPU."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladder.backends.cuda import CudaBackend
from ladder.errors import BackendError

__all__ = ["Matrix", "Sgemm", "opened"]

F32 = NDArray[np.float32]

WORKSPACE_BYTES = 32 * 2**20
"""What cuBLAS's documentation recommends for compute capability 9.0 (cublasSetWorkspace). With a workspace of its own a
product allocates nothing, so that it can be captured into a graph."""


class Matrix:
    """A row-major float32 matrix on the GPU, where there is no torch to hold it."""

    def __init__(self, backend: CudaBackend, rows: int, cols: int) -> None:
        self.shape = (rows, cols)
        self._gpu = backend.gpu
        self._buffer = self._gpu.allocate(4 * rows * cols, f"a {rows} x {cols} matrix for cuBLAS")
        weakref.finalize(self, self._buffer.close).atexit = False

    @classmethod
    def of(cls, backend: CudaBackend, array: F32) -> Matrix:
        """A copy of a C-contiguous matrix of the host."""
        made = cls(backend, *array.shape)
        made._gpu.upload(made._buffer, 0, array)
        return made

    def data_ptr(self) -> int:
        """Its address on the GPU, by the name that torch has for it."""
        return int(self._buffer.handle)

    def host(self) -> F32:
        """A copy on the host, after all that is enqueued."""
        out: F32 = np.empty(self.shape, np.float32)
        self._gpu.download(self._buffer, 0, out)
        return out


class Sgemm:
    """cublasSgemm on the backend's stream, in the mode that each call asks for."""

    def __init__(self, cublas: Any, handle: int) -> None:
        self._cublas, self._handle = cublas, handle
        self._one, self._zero = np.ones(1, np.float32), np.zeros(1, np.float32)

    def product(self, *, tf32: bool) -> Callable[[Any, Any, Any], None]:
        """``multiply(a, b, out)`` on things with ``shape`` and ``data_ptr()``, row-major and contiguous."""
        modes = self._cublas.Math
        mode = int(modes.TF32_TENSOR_OP_MATH if tf32 else modes.DEFAULT_MATH)
        keep = int(self._cublas.Operation.N)

        def multiply(a: Any, b: Any, out: Any) -> None:
            (m, k), n = a.shape, b.shape[1]
            try:
                self._cublas.set_math_mode(self._handle, mode)
                # cuBLAS is column-major, so it is given the transposes: C' = B' A'.
                self._cublas.sgemm(
                    self._handle, keep, keep, n, m, k,
                    self._one.ctypes.data, b.data_ptr(), n, a.data_ptr(), k,
                    self._zero.ctypes.data, out.data_ptr(), n,
                )  # fmt: skip
            except self._cublas.cuBLASError as error:
                raise BackendError(f"cuBLAS at {m}x{n}x{k}: {error}") from error

        return multiply


@contextmanager
def opened(backend: CudaBackend) -> Iterator[Sgemm | None]:
    """The calls on the backend's stream while the context lasts; None where nvmath-python or cuBLAS is not installed.

    Raises:
        BackendError: cuBLAS is there and does not start.
    """
    try:
        from nvmath.bindings import cublas  # noqa: PLC0415 -- optional

        handle = cublas.create()
    except (ImportError, RuntimeError):  # the second is what the bindings raise when the library is not found
        cublas = None
    if cublas is None:
        yield None
        return
    gpu = backend.gpu
    try:
        workspace = gpu.allocate(WORKSPACE_BYTES, "cuBLAS's workspace")
        cublas.set_stream(handle, int(gpu.stream.handle))
        cublas.set_workspace(handle, int(workspace.handle), WORKSPACE_BYTES)
        try:
            yield Sgemm(cublas, handle)
        finally:
            gpu.stream.sync()
            workspace.close()
    finally:
        cublas.destroy(handle)
