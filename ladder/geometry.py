"""Launch geometry: a rung and a shape give the grids that cover C. Pure arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ladder.errors import InputError, ShapeError
from ladder.model import Matrix, Pack, Rung, Shape

__all__ = [
    "MAX_GRID_X",
    "MAX_GRID_YZ",
    "Launch",
    "Packing",
    "kernels",
    "operand",
    "plan",
    "require_aligned",
    "workspace_bytes",
    "workspace_shape",
]

MAX_GRID_X = 2**31 - 1
MAX_GRID_YZ = 65535
"""Limits of gridDim since compute capability 3.0 (CUDA C++ Programming Guide, technical specifications)."""

_WORD = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """The launch of a kernel that packs ``rows`` x ``cols`` elements of an operand, from row ``row0`` on."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    row0: int
    rows: int
    cols: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One kernel launch that computes rows ``row0 .. row0 + rows`` of C.

    The kernel gets A + row0 * K, C + row0 * N and M = rows: so a rung needs no code for M / BM past 65535.

    Attributes:
        grid, block: (x, y, z) threadblocks and threads.
        smem_bytes: dynamic shared memory.
        packing: what is launched right before it.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    smem_bytes: int
    row0: int
    rows: int
    packing: Packing | None = None

    @property
    def blocks(self) -> int:
        """Threadblocks of the launch."""
        x, y, z = self.grid
        return x * y * z


def plan(rung: Rung, shape: Shape, *, resident: int | None = None) -> tuple[Launch, ...]:
    """The launches that compute C for ``shape``; empty when C is empty or a z-split grid has no k-tile.

    Grid x = ceil(N/BN), y = ceil(M/BM), z = ceil(K/BK) for ``grid_z`` rungs (capped at 65535: such kernels stride over
    z). More than 65535 tile rows become several launches, each with its own row offset; A is packed for each of them, B
    before the first.

    Args:
        rung: the kernel.
        shape: M, N, K.
        resident: threadblocks of it that the device runs at once: the grid of a persistent rung, which has one for each
            tile of C when this is not told.

    Raises:
        ShapeError: the rung does not support the shape, N/BN exceeds gridDim.x, or an operand has too many tiles to
            pack.
    """
    reason = rung.supports(shape)
    if reason is not None:
        raise ShapeError(reason)
    bm, bn = rung.tile
    if shape.m == 0 or shape.n == 0:
        return ()
    x = -(-shape.n // bn)
    if x > MAX_GRID_X:
        raise ShapeError(f"rung {rung.name}: N={shape.n} needs {x} blocks along x; the limit is {MAX_GRID_X}. Split N.")
    z = 1
    if rung.grid_z_tile is not None:
        z = min(-(-shape.k // rung.grid_z_tile), MAX_GRID_YZ)
        if z == 0:
            return ()
    # Every part of A and C starts as aligned as the whole does.
    step = math.lcm(bm, rung.align_bytes // _WORD)
    rows_a_launch = MAX_GRID_YZ * bm // step * step
    launches = []
    for row0 in range(0, shape.m, rows_a_launch):
        rows = min(rows_a_launch, shape.m - row0)
        grid = (x, -(-rows // bm), z)
        if rung.persistent:
            grid = (min(resident or math.prod(grid), MAX_GRID_X), 1, 1)
        launches.append(
            Launch(
                grid=grid,
                block=rung.block,
                smem_bytes=rung.smem_bytes,
                row0=row0,
                rows=rows,
                packing=_packing(rung, shape, row0, rows),
            )
        )
    return tuple(launches)


def _packing(rung: Rung, shape: Shape, row0: int, rows: int) -> Packing | None:
    """What is packed before the launch of rows ``row0 .. row0 + rows`` of C."""
    pack = rung.pack
    if pack is None or shape.k == 0 or (pack.of == "B" and row0 > 0):
        return None
    first, height = (row0, rows) if pack.of == "A" else (0, shape.k)
    cols = operand(pack.of, shape)[1]
    x, y = -(-cols // pack.tile[1]), -(-height // pack.tile[0])
    if y > MAX_GRID_YZ or x > MAX_GRID_X:
        raise ShapeError(
            f"rung {rung.name}: packing {pack.of} ({height} x {cols}) takes {x} x {y} blocks; the limits are "
            f"{MAX_GRID_X} and {MAX_GRID_YZ}. Use a rung that packs nothing."
        )
    return Packing(grid=(x, y, 1), block=(pack.block, 1, 1), row0=first, rows=height, cols=cols)


def operand(matrix: Matrix, shape: Shape) -> tuple[int, int]:
    """Rows and columns of A, B or C."""
    return {"A": (shape.m, shape.k), "B": (shape.k, shape.n), "C": (shape.m, shape.n)}[matrix]


def workspace_shape(pack: Pack, packing: Packing) -> tuple[int, int]:
    """Rows (those of all planes) and columns of what a packed operand fills, in whole tiles."""
    height, width = pack.tile
    return pack.planes * (-(-packing.rows // height) * height), -(-packing.cols // width) * width


def workspace_bytes(rung: Rung, shape: Shape, *, resident: int | None = None) -> int:
    """Bytes that the rung's packed operand and its room take, for the largest launch; 0 when it packs nothing.

    Args:
        rung: the kernel.
        shape: M, N, K.
        resident: as for :func:`plan`.

    Raises:
        ShapeError: as :func:`plan`.
    """
    packed = [launch for launch in plan(rung, shape, resident=resident) if launch.packing is not None]
    if rung.pack is None or not packed or packed[0].packing is None:
        return 0
    room_bytes = max(rung.pack.room_bytes(launch.blocks) for launch in packed)
    return _WORD * math.prod(workspace_shape(rung.pack, packed[0].packing)) + room_bytes


def kernels(rung: Rung, shape: Shape) -> tuple[str, ...]:
    """The names of the kernels that a product launches, in order, without namespaces.

    Raises:
        ShapeError: as :func:`plan`.
    """
    names = []
    for launch in plan(rung, shape):
        if rung.pack is not None and launch.packing is not None:
            names.append(rung.pack.kernel)
        names.append(rung.kernel)
    return tuple(name.rpartition("::")[2] for name in names)


def require_aligned(rung: Rung, addresses: tuple[int, int, int], *, fix: str) -> None:
    """Refuse addresses of A, B and C that are no multiples of the rung's ``align_bytes``.

    Args:
        rung: whose.
        addresses: in bytes; of arrays that lie somewhere, or from a boundary that is aligned.
        fix: what the user can do.

    Raises:
        InputError: one of them is none; the message says which, and by how much.
    """
    for name, address in zip("ABC", addresses, strict=True):
        past = address % rung.align_bytes
        if past:
            raise InputError(
                f"rung {rung.name} needs A, B and C at multiples of {rung.align_bytes} bytes and {name} starts {past} "
                f"bytes past one; {fix}"
            )
