"""cuBLAS through torch, or else through cupy, on the backend's own stream: SGEMM, and TF32 where torch is there."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladder.backends.cuda import CudaBackend
from ladder.errors import InputError
from ladder.model import FP32_UNIT_ROUNDOFF

__all__ = ["MISSING", "SGEMM", "TF32_UNIT_ROUNDOFF", "Library", "Peer", "library"]

F32 = NDArray[np.float32]

SGEMM, TF32 = "cublas_sgemm", "cublas_tf32"

TF32_UNIT_ROUNDOFF = 2.0**-11
"""TF32 keeps 10 bits of mantissa after the leading one."""

MISSING = "neither torch nor cupy is installed, so cuBLAS cannot be timed; pip install torch, or cupy-cuda13x"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A product of a library: ``multiply(a, b, out)`` enqueues it on matrices that are on the GPU."""

    name: str
    title: str
    unit_roundoff: float
    multiply: Callable[[Any, Any, Any], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """torch or cupy: its peers, and how matrices get to its GPU and back.

    Attributes:
        torch: the module, None where it is cupy that was found.
        place: a host matrix as one on the GPU.
        empty: a new one of (rows, columns) there.
        host: one of the GPU's as numpy's, after what is enqueued.
    """

    torch: Any
    peers: tuple[Peer, ...]
    place: Callable[[F32], Any]
    empty: Callable[[int, int], Any]
    host: Callable[[Any], F32]

    def prepared(self, peer: Peer, a: F32, b: F32) -> tuple[Callable[[], None], Any]:
        """A and B on the GPU: a function that enqueues their product, and the matrix that it goes to."""
        left, right, c = self.place(a), self.place(b), self.empty(a.shape[0], b.shape[1])
        return lambda: peer.multiply(left, right, c), c


@contextmanager
def library(backend: CudaBackend) -> Iterator[Library]:
    """The library, enqueueing on the backend's stream while the context lasts.

    Raises:
        InputError: neither is installed.
    """
    handle = int(backend.gpu.stream.handle)
    torch, cupy = (_imported(name) for name in ("torch", "cupy"))
    if torch is not None:
        before = torch.get_float32_matmul_precision()
        with torch.cuda.stream(torch.cuda.ExternalStream(handle)):
            try:
                yield _torch(torch)
            finally:
                torch.set_float32_matmul_precision(before)
    elif cupy is not None:
        with cupy.cuda.ExternalStream(handle):
            yield _cupy(cupy)
    else:
        raise InputError(MISSING)


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _torch(torch: Any) -> Library:
    def product(precision: str) -> Callable[[Any, Any, Any], None]:
        def multiply(a: Any, b: Any, out: Any) -> None:
            # One flag for the whole of torch: it is set each time, so that the two can be enqueued in turn.
            torch.set_float32_matmul_precision(precision)
            torch.mm(a, b, out=out)

        return multiply

    peers = (
        Peer(name=SGEMM, title="cuBLAS SGEMM", unit_roundoff=FP32_UNIT_ROUNDOFF, multiply=product("highest")),
        Peer(name=TF32, title="cuBLAS TF32", unit_roundoff=TF32_UNIT_ROUNDOFF, multiply=product("high")),
    )
    return Library(
        torch=torch,
        peers=peers,
        place=lambda array: torch.from_numpy(array).to("cuda"),
        empty=lambda rows, cols: torch.empty((rows, cols), dtype=torch.float32, device="cuda"),
        host=lambda array: np.asarray(array.cpu().numpy()),
    )


def _cupy(cupy: Any) -> Library:
    def multiply(a: Any, b: Any, out: Any) -> None:
        cupy.matmul(a, b, out=out)

    return Library(
        torch=None,
        peers=(Peer(name=SGEMM, title="cuBLAS SGEMM", unit_roundoff=FP32_UNIT_ROUNDOFF, multiply=multiply),),
        place=cupy.asarray,
        empty=lambda rows, cols: cupy.empty((rows, cols), dtype=cupy.float32),
        host=cupy.asnumpy,
    )
