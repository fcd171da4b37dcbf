"""What the emulator executes for a product: its buffers, and its launches with the values of their parameters."""

from __future__ import annotations

from dataclasses import dataclass

from ladder.errors import BackendError
from ladder.geometry import plan, workspace_bytes, workspace_shape
from ladder.model import Rung, Shape
from ladder.ptx import Buffer, GlobalMemory

__all__ = ["Step", "allocated", "require_replayable", "steps_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One launch with the values of its parameters; it ``packs``, or it multiplies."""

    packs: bool
    values: tuple[int, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    smem_bytes: int = 0


def allocated(
    memory: GlobalMemory, rung: Rung, shape: Shape, offsets: tuple[int, int, int], *, resident: int | None = None
) -> list[Buffer]:
    """Room for A, B, C, and the workspace of a rung that packs, ``offsets`` elements from a boundary.

    ``resident`` as for :func:`ladder.geometry.plan`.

    Raises:
        ShapeError: as :func:`ladder.geometry.plan`.
    """
    sizes = ((shape.m, shape.k), (shape.k, shape.n), (shape.m, shape.n))
    buffers = [
        memory.allocate(name, size, offset_bytes=4 * offset)
        for name, size, offset in zip("ABC", sizes, offsets, strict=True)
    ]
    if rung.pack is not None:
        first = next((launch.packing for launch in plan(rung, shape) if launch.packing is not None), None)
        size = (0, 0) if first is None else workspace_shape(rung.pack, first)
        if first is not None and any(rung.pack.room):
            size = (1, workspace_bytes(rung, shape, resident=resident) // 4)
        buffers.append(memory.allocate(f"packed {rung.pack.of}", size))
    return buffers


def steps_of(rung: Rung, shape: Shape, buffers: list[Buffer], *, resident: int | None = None) -> list[Step]:
    """The launches of a product, in order, on the buffers of :func:`allocated`.

    ``resident`` as for :func:`ladder.geometry.plan`.

    Raises:
        ShapeError: as :func:`ladder.geometry.plan`.
    """
    a, b, c, *packed = (buffer.base for buffer in buffers)
    steps = []
    for launch in plan(rung, shape, resident=resident):
        moved = a + 4 * launch.row0 * shape.k
        if launch.packing is not None and rung.pack is not None:
            first = launch.packing
            source = moved if rung.pack.of == "A" else b
            values = (source, *packed, first.rows, first.cols)
            steps.append(Step(packs=True, values=values, grid=first.grid, block=first.block))
        values = (moved, b, c + 4 * launch.row0 * shape.n, launch.rows, shape.n, shape.k, *packed)
        steps.append(
            Step(packs=False, values=values, grid=launch.grid, block=launch.block, smem_bytes=launch.smem_bytes)
        )
    return steps


def require_replayable(rung: Rung, shape: Shape) -> None:
    """Refuse a product whose threadblocks are not all alike.

    Raises:
        ShapeError: as :func:`ladder.geometry.plan`.
        BackendError: its tiles do not divide the shape, or it takes more than one launch of its kernel or none.
    """
    launches = plan(rung, shape)
    bm, bn = rung.tile
    if rung.persistent:
        raise BackendError(
            f"rung {rung.name}: {shape} is not replayed: a persistent rung's threadblocks differ. Give a smaller shape."
        )
    if len(launches) != 1 or shape.m % bm or shape.n % bn:
        raise BackendError(
            f"rung {rung.name}: {shape} is not replayed: {len(launches)} launches of {bm}x{bn} tiles. "
            f"Give multiples of the tile that fit one launch."
        )
    packing = launches[0].packing
    if packing is not None and rung.pack is not None:
        height, width = rung.pack.tile
        if packing.rows % height or packing.cols % width:
            raise BackendError(
                f"rung {rung.name}: {shape} is not replayed: {rung.pack.of} is packed in tiles of {height}x{width}. "
                f"Give multiples of them."
            )
