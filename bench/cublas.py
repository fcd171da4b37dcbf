"""cuBLAS on the backend's own stream: SGEMM and TF32 through nvmath-python or torch."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.nvmath_cublas import Matrix, Sgemm, opened
from ladder.backends.cuda import CudaBackend
from ladder.errors import InputError
from ladder.model import FP32_UNIT_ROUNDOFF

__all__ = ["MISSING", "SGEMM", "TF32_UNIT_ROUNDOFF", "Library", "Peer", "library", "plain_name"]

F32 = NDArray[np.float32]
Multiply = Callable[[Any, Any, Any], None]

SGEMM, TF32 = "cublas_sgemm", "cublas_tf32"

TF32_UNIT_ROUNDOFF = 2.0**-11
"""TF32 keeps 10 bits of mantissa after the leading one."""

MISSING = (
    "neither nvmath-python nor torch is installed, so cuBLAS cannot be timed; "
    'pip install torch or "matmul-ladder[peers]"'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A product of a library: ``multiply(a, b, out)`` enqueues it on matrices that are on the GPU."""

    name: str
    title: str
    unit_roundoff: float
    multiply: Multiply


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """What calls cuBLAS: its peers, and how matrices get to its GPU and back.

    Attributes:
        through: the package that makes the calls.
        torch: the module, None where it is not installed.
        place: a host matrix as one on the GPU.
        empty: a new one of (rows, columns) there.
        host: one of the GPU's as numpy's, after what is enqueued.
    """

    through: str
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
    """The first that is there of nvmath-python and torch, enqueueing on the backend's stream.

    Raises:
        InputError: none is installed.
        BackendError: cuBLAS does not start.
    """
    handle = int(backend.gpu.stream.handle)
    # torch first: it brings a cuBLAS, which nvmath-python then finds loaded.
    torch = _imported("torch")
    with ExitStack() as held:
        if torch is not None:
            held.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
            held.enter_context(torch.cuda.stream(torch.cuda.ExternalStream(handle)))
        sgemm = held.enter_context(opened(backend))
        if sgemm is not None:
            yield _nvmath(sgemm, backend, torch)
        elif torch is not None:
            yield _torch(torch)
        else:
            raise InputError(MISSING)


def plain_name(kernel: str) -> str:
    """What a person calls a kernel of cuBLAS: the longest identifier of a mangled name, else the name itself."""
    if not kernel.startswith("_Z"):
        return kernel
    found = []
    for number in re.finditer(r"\d+", kernel):
        for start in range(number.start(), number.end()):  # an identifier that ends in digits may be ahead of it
            length = int(kernel[start : number.end()])
            word = kernel[number.end() : number.end() + length]
            if len(word) == length and re.fullmatch(r"[A-Za-z_]\w*", word):
                found.append(word)
                break
    return max(found, key=len, default=kernel)


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _peers(sgemm: Multiply, tf32: Multiply) -> tuple[Peer, ...]:
    return (
        Peer(name=SGEMM, title="cuBLAS SGEMM", unit_roundoff=FP32_UNIT_ROUNDOFF, multiply=sgemm),
        Peer(name=TF32, title="cuBLAS TF32", unit_roundoff=TF32_UNIT_ROUNDOFF, multiply=tf32),
    )


def _nvmath(sgemm: Sgemm, backend: CudaBackend, torch: Any) -> Library:
    peers = _peers(sgemm.product(tf32=False), sgemm.product(tf32=True))
    if torch is not None:
        held = _torch(torch)
        return Library(
            through="nvmath-python", torch=torch, peers=peers, place=held.place, empty=held.empty, host=held.host
        )
    return Library(
        through="nvmath-python",
        torch=None,
        peers=peers,
        place=lambda array: Matrix.of(backend, array),
        empty=lambda rows, cols: Matrix(backend, rows, cols),
        host=lambda matrix: matrix.host(),
    )


def _torch(torch: Any) -> Library:
    def product(precision: str) -> Multiply:
        def multiply(a: Any, b: Any, out: Any) -> None:
            # One flag for the whole of torch: it is set each time, so that the two can be enqueued in turn.
            torch.set_float32_matmul_precision(precision)
            torch.mm(a, b, out=out)

        return multiply

    return Library(
        through="torch",
        torch=torch,
        peers=_peers(product("highest"), product("high")),
        place=lambda array: torch.from_numpy(array).to("cuda"),
        empty=lambda rows, cols: torch.empty((rows, cols), dtype=torch.float32, device="cuda"),
        host=lambda array: np.asarray(array.cpu().numpy()),
    )
