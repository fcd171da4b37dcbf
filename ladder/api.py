"""The same kernels from Python: :func:`matmul` on arrays, :func:`choose` its rung, :func:`run` for a row of results."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ladder import catalog
from ladder.backends import open_backend
from ladder.backends.base import Backend
from ladder.choice import ALIGNED_BYTES, Choice, pick
from ladder.climb import climb, why_skipped
from ladder.errors import InputError, ShapeError
from ladder.model import Device, Precision, Rung, Shape
from ladder.nvrtc import Compiled, compile_rung
from ladder.profiles import load_profile, roofs_of
from ladder.store import Run

__all__ = ["Choice", "choose", "matmul", "run"]

_LOG = logging.getLogger("ladder")

BackendName = Literal["auto", "cuda", "emulated"]
F32 = NDArray[np.float32]

Choose = Callable[[Shape, Device, int], Rung]

DEFAULT_PROFILE = "h200"

_DLPACK_CUDA = (2, 13)
"""kDLCUDA and kDLCUDAManaged of DLPack's DLDeviceType."""


def matmul(
    a: Any,
    b: Any,
    *,
    precision: Precision = "fp32",
    rung: str | Path | Rung | None = None,
    backend: BackendName = "auto",
    profile: str = DEFAULT_PROFILE,
    out: Any = None,
) -> Any:
    """C = A @ B, computed by one rung of the ladder: the fastest known one, unless you name another.

    Args:
        a: (M, K), float32: a numpy array, or one on a GPU (torch, cupy: anything with ``__cuda_array_interface__`` or
            DLPack), which is not copied.
        b: (K, N), float32, of the same kind as ``a``.
        precision: ``"fp32"`` multiplies on the FP32 units; ``"fp32_split"`` gives float32's accuracy on tensor cores,
            by splitting the operands; ``"tf32"`` rounds them to TF32, 10 bits of mantissa. It picks the rung, see
            :func:`choose`, and has no effect on one that is named.
        rung: a rung's name, the path of a ``.cu`` file, or a :class:`ladder.Rung`; None for a pick.
        backend: ``"auto"`` is a GPU if there is one, else the emulator. Arrays on a GPU always run there.
        profile: the recorded GPU to emulate.
        out: (M, N), float32, to hold C; a new array when None.

    Returns:
        C (M, N), float32: ``out``, or a new array. For arrays on a GPU it is there as well.

    numpy views that are transposed, strided or reversed are copied to row-major order first, so the product is that of
    the view. Nothing is cast: other dtypes and byte orders are refused. Which rung was picked, and why, goes to the
    logger ``ladder`` at level INFO.

    Raises:
        InputError: an array's type, dtype or dimensions cannot be used, or ``out`` does not fit; no such precision.
        ShapeError: the inner sizes differ, or the rung (any rung of the precision) does not support the shape.
        LadderError: the rung is unknown, does not compile, or its launch failed.
    """

    def picked(shape: Shape, device: Device, address_bytes: int) -> Rung:
        choice = _picked(shape, precision, device, address_bytes)
        _LOG.info("matmul %s on %s: %s", shape, device.name, choice)
        return choice.rung

    named = None if rung is None else _one_rung(rung)
    if _on_gpu(a) or _on_gpu(b):
        return _multiply_on_gpu(named or picked, a, b, backend=backend, out=out)
    left, right = _operand("a", a), _operand("b", b)
    if left.shape[1] != right.shape[0]:
        sizes = f"{left.shape[1]} columns and {right.shape[0]} rows; make them equal"
        raise ShapeError(f"a {left.shape} and b {right.shape} do not multiply: {sizes}")
    shape = Shape(m=left.shape[0], n=right.shape[1], k=left.shape[1])
    if out is not None:
        _check_out(out, shape)
    opened = _opened(backend, profile)
    chosen = named or picked(shape, opened.device, ALIGNED_BYTES)
    kernel = _compiled(chosen, shape, opened)
    outcome = opened.run(kernel, left, right)
    if outcome.damage is not None:
        raise InputError(f"rung {chosen.name} wrote outside C: {outcome.damage}. `ladder check` says at which shapes")
    if out is None:
        return outcome.c
    out[...] = outcome.c
    return out


def choose(
    shape: str | Shape | Sequence[int],
    *,
    precision: Precision = "fp32",
    backend: BackendName = "auto",
    profile: str = DEFAULT_PROFILE,
) -> Choice:
    """The rung that :func:`matmul` takes for a product of that shape, and why; nothing is compiled or run.

    Args:
        shape: ``"MxNxK"``, a :class:`ladder.Shape` or three sizes.
        precision: as in :func:`matmul`.
        backend: as in :func:`matmul`.
        profile: as in :func:`matmul`.

    Returns:
        A :class:`ladder.Choice`: its ``rung`` can be given to :func:`matmul` and :func:`run`, its ``reason`` is a line.

    On a GPU it is the rung with the highest recorded rate at the recorded shape nearest to this one, among those that
    can run it; in the emulator, one that runs on every GPU. For arrays on a GPU, :func:`matmul` also looks at how their
    addresses are aligned.

    Raises:
        InputError: no such precision or backend.
        ShapeError: the shape is malformed, or no rung of that precision can do it.
        DriverMissingError: ``backend`` is ``"cuda"`` and there is no GPU.
    """
    return _picked(_shape(shape), precision, _opened(backend, profile).device, ALIGNED_BYTES)


def run(
    rung: str | Path | Rung,
    shape: str | Shape | Sequence[int] = (256, 256, 256),
    *,
    backend: BackendName = "auto",
    profile: str | None = None,
) -> Run:
    """Prove, count, time and place one rung in this process; see :func:`ladder.climb.climb`.

    Args:
        rung: a rung's name, the path of a ``.cu`` file, or a :class:`ladder.Rung`.
        shape: ``"MxNxK"``, a :class:`ladder.Shape` or three sizes.
        backend: as in :func:`matmul`.
        profile: the recorded GPU to emulate, and whose roofs place the rung. Default: the H200 is emulated, and a real
            GPU has the roofs recorded for it, or modelled from its clock.

    Raises:
        LadderError: the rung is unknown, the shape is malformed, or NVRTC or the GPU is missing.
    """
    shape = _shape(shape)
    opened = _opened(backend, profile or DEFAULT_PROFILE)
    chosen = load_profile(profile or DEFAULT_PROFILE)
    roofs = chosen.roofs
    if opened.name == "cuda":
        roofs, _ = roofs_of(opened.device, chosen if profile else None)
    return climb(_one_rung(rung), shape, opened, roofs)


@lru_cache(maxsize=1024)
def _picked(shape: Shape, precision: Precision, device: Device, address_bytes: int) -> Choice:
    return pick(shape, precision, device, address_bytes=address_bytes)


def _shape(shape: str | Shape | Sequence[int]) -> Shape:
    if isinstance(shape, Shape):
        return shape
    if isinstance(shape, str):
        return Shape.parse(shape)
    if len(shape) != 3:
        raise ShapeError(f"shape {shape!r}: give M, N and K")
    m, n, k = shape
    return Shape(m=m, n=n, k=k)


def _one_rung(rung: str | Path | Rung) -> Rung:
    if isinstance(rung, Rung):
        return rung
    found = catalog.find([str(rung)])
    if len(found) != 1:
        raise InputError(f"{rung} declares {len(found)} rungs; name one: {', '.join(r.name for r in found)}")
    return found[0]


@lru_cache(maxsize=4)
def _opened(backend: str, profile: str) -> Backend:
    return open_backend(backend, load_profile(profile))


def _compiled(rung: Rung, shape: Shape, backend: Backend) -> Compiled:
    reason = why_skipped(rung, shape, backend.device)
    if reason is not None:
        raise ShapeError(reason)
    return compile_rung(rung, arch=rung.arch_for(backend.device))


def _on_gpu(array: Any) -> bool:
    if isinstance(array, np.ndarray):
        return False
    if hasattr(array, "__cuda_array_interface__"):
        return True
    where = getattr(array, "__dlpack_device__", None)
    return where is not None and int(where()[0]) in _DLPACK_CUDA


def _multiply_on_gpu(rung: Rung | Choose, a: Any, b: Any, *, backend: str, out: Any) -> Any:
    for name, array in (("a", a), ("b", b), *((("out", out),) if out is not None else ())):
        if not _on_gpu(array):
            raise InputError(f"{name} is {type(array).__name__} on the CPU and the other is on a GPU; move one of them")
    if backend == "emulated":
        raise InputError("arrays on a GPU run there; give numpy arrays to use backend='emulated'")
    from ladder.backends.cuda import multiply_device  # noqa: PLC0415 -- needs a driver

    return multiply_device(rung, a, b, out=out)


def _operand(name: str, array: Any) -> F32:
    """``array`` as an aligned, row-major matrix of native float32; refuses what would need a cast or a guess."""
    _check_array(name, array)
    if array.ndim != 2:
        raise InputError(f"{name} has {array.ndim} dimensions {array.shape}; give a matrix: {name}.reshape(rows, -1)")
    return np.require(np.asarray(array), requirements=["C", "A"])


def _check_array(name: str, array: Any) -> None:
    if not isinstance(array, np.ndarray):
        kind = type(array).__name__
        raise InputError(f"{name} is a {kind}; give a numpy array: numpy.asarray({name}, dtype=numpy.float32)")
    if isinstance(array, np.ma.MaskedArray):
        raise InputError(f"{name} is a masked array and the kernels know no mask; give {name}.filled(0)")
    if array.dtype != np.float32:
        if array.dtype.newbyteorder("=") == np.float32:
            raise InputError(f"{name} is float32 in swapped byte order ({array.dtype.str}); give {name}.astype('=f4')")
        raise InputError(f"{name} is {array.dtype} and rungs multiply float32; give {name}.astype(numpy.float32)")


def _check_out(out: Any, shape: Shape) -> None:
    _check_array("out", out)
    if out.shape != (shape.m, shape.n):
        raise InputError(f"out is {out.shape} and C is {(shape.m, shape.n)}; give an array of that shape, or none")
    if not out.flags.writeable:
        raise InputError("out is read-only; give a writeable array, or none")
