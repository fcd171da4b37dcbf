"""A rung's product as the launches that compute it, on operands that are already on the device."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ladder.backends.gpu import Gpu
from ladder.errors import ShapeError
from ladder.geometry import plan
from ladder.model import Shape
from ladder.nvrtc import Compiled

__all__ = ["launchers"]

_MAX_INT = 2**31 - 1


def launchers(
    gpu: Gpu, kernel: Compiled, shape: Shape, pointers: tuple[int, int, int]
) -> tuple[Callable[[], None], ...]:
    """Functions that enqueue the launches of :func:`ladder.geometry.plan`, in order; none when there is nothing to do.

    Args:
        gpu: where.
        kernel: the rung, compiled for that device.
        shape: of the product.
        pointers: device addresses of A, B and C.

    Raises:
        ShapeError: the rung does not support the shape, or N or K does not fit a kernel's ``int``.
        BackendError: the driver cannot load the kernel.
    """
    for axis, size in (("N", shape.n), ("K", shape.k)):
        if size > _MAX_INT:
            raise ShapeError(f"rung {kernel.rung.name}: {axis}={size} does not fit an int; the limit is {_MAX_INT}")
    a, b, c = pointers
    loaded = gpu.load(kernel)
    return tuple(
        gpu.launcher(
            loaded,
            launch.grid,
            launch.block,
            a + 4 * launch.row0 * shape.k,
            b,
            c + 4 * launch.row0 * shape.n,
            *(np.int32(size) for size in (launch.rows, shape.n, shape.k)),
            smem_bytes=launch.smem_bytes,
        )
        for launch in plan(kernel.rung, shape)
    )
