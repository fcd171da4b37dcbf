"""Launch geometry: a rung and a shape give the grids that cover C. Pure arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from ladder.errors import ShapeError
from ladder.model import Rung, Shape

__all__ = ["MAX_GRID_X", "MAX_GRID_YZ", "Launch", "plan"]

MAX_GRID_X = 2**31 - 1
MAX_GRID_YZ = 65535
"""Limits of gridDim since compute capability 3.0 (CUDA C++ Programming Guide, technical specifications)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One kernel launch that computes rows ``row0 .. row0 + rows`` of C.

    The kernel gets A + row0 * K, C + row0 * N and M = rows: so a rung needs no code for M / BM past 65535.

    Attributes:
        grid, block: (x, y, z) threadblocks and threads.
        smem_bytes: dynamic shared memory.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    smem_bytes: int
    row0: int
    rows: int

    @property
    def blocks(self) -> int:
        """Threadblocks of the launch."""
        x, y, z = self.grid
        return x * y * z


def plan(rung: Rung, shape: Shape) -> tuple[Launch, ...]:
    """The launches that compute C for ``shape``; empty when C is empty or a z-split grid has no k-tile.

    Grid x = ceil(N/BN), y = ceil(M/BM), z = ceil(K/BK) for ``grid_z`` rungs (capped at 65535: such kernels stride over
    z). More than 65535 tile rows become several launches, each with its own row offset.

    Raises:
        ShapeError: the rung does not support the shape, or N/BN exceeds gridDim.x.
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
    rows_a_launch = MAX_GRID_YZ * bm
    return tuple(
        Launch(
            grid=(x, -(-min(rows_a_launch, shape.m - row0) // bm), z),
            block=rung.block,
            smem_bytes=rung.smem_bytes,
            row0=row0,
            rows=min(rows_a_launch, shape.m - row0),
        )
        for row0 in range(0, shape.m, rows_a_launch)
    )
