"""A rung's product as the launches that compute it, on operands that are already on the device."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ladder.backends.gpu import Gpu
from ladder.backends.tensor_map import U8, tensor_map
from ladder.errors import ShapeError
from ladder.geometry import Launch, plan, workspace_bytes
from ladder.model import Shape
from ladder.nvrtc import Compiled

__all__ = ["launchers", "resident_blocks"]

_MAX_INT = 2**31 - 2**10
"""Largest N and K: kernels round sizes up to whole tiles in an int."""

_WORD = 4


def launchers(
    gpu: Gpu, kernel: Compiled, shape: Shape, pointers: tuple[int, int, int], *, workspace: int | None = None
) -> tuple[Callable[[], None], ...]:
    """Functions that enqueue the launches of :func:`ladder.geometry.plan`, in order; none when there is nothing to do.

    Args:
        gpu: where.
        kernel: the rung, compiled for that device.
        shape: of the product.
        pointers: device addresses of A, B and C, as aligned as the rung wants them.
        workspace: device address for a packed operand; the device's own by default.

    Raises:
        ShapeError: the rung does not support the shape, or N or K does not fit a kernel's ``int``.
        BackendError: the driver cannot load the kernel, or memory for a packed operand is short.
    """
    for axis, size in (("N", shape.n), ("K", shape.k)):
        if size > _MAX_INT:
            raise ShapeError(f"rung {kernel.rung.name}: {axis}={size} does not fit an int; the limit is {_MAX_INT}")
    rung = kernel.rung
    loaded = gpu.load(kernel)
    resident = resident_blocks(gpu, kernel)
    packed: tuple[int, ...] = ()
    if rung.pack is not None:
        needed = workspace_bytes(rung, shape, resident=resident)
        packed = (gpu.workspace(needed, f"rung {rung.name} at {shape}") if workspace is None else workspace,)
    out: list[Callable[[], None]] = []
    for launch in plan(rung, shape, resident=resident):
        a, b, c = _moved(pointers, launch, shape)
        if launch.packing is not None and rung.pack is not None:
            step = launch.packing
            out.append(
                gpu.launcher(
                    gpu.load(kernel, pack=True),
                    step.grid,
                    step.block,
                    a if rung.pack.of == "A" else b,
                    *packed,
                    *(np.int32(size) for size in (step.rows, step.cols)),
                )
            )
        out.append(
            gpu.launcher(
                loaded,
                launch.grid,
                launch.block,
                a,
                b,
                c,
                *(np.int32(size) for size in (launch.rows, shape.n, shape.k)),
                *packed,
                *_maps(kernel, launch, shape, (a, b, c)),
                smem_bytes=gpu.dynamic_smem_bytes(kernel),
                overlap=launch.packing is not None and rung.pack is not None and rung.pack.overlap,
            )
        )
    return tuple(out)


def resident_blocks(gpu: Gpu, kernel: Compiled) -> int | None:
    """Threadblocks of a persistent rung that ``gpu`` runs at once, at least one an SM; None for any other rung.

    Raises:
        BackendError: the driver cannot load the kernel.
    """
    rung = kernel.rung
    if not rung.persistent:
        return None
    occupancy = gpu.load(kernel).occupancy
    an_sm = occupancy.max_active_blocks_per_multiprocessor(rung.threads, gpu.dynamic_smem_bytes(kernel))
    return max(1, int(an_sm)) * gpu.device.sm_count


def _moved(pointers: tuple[int, int, int], launch: Launch, shape: Shape) -> tuple[int, int, int]:
    """A, B and C as the launch gets them: A and C from its first row on."""
    a, b, c = pointers
    return a + _WORD * launch.row0 * shape.k, b, c + _WORD * launch.row0 * shape.n


def _maps(kernel: Compiled, launch: Launch, shape: Shape, pointers: tuple[int, int, int]) -> tuple[U8, ...]:
    sizes = {"A": (launch.rows, shape.k), "B": (shape.k, shape.n), "C": (launch.rows, shape.n)}
    where = dict(zip("ABC", pointers, strict=True))
    return tuple(tensor_map(where[tile.of], *sizes[tile.of], tile) for tile in kernel.rung.tma)
