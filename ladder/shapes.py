"""Classes of shapes for which one kernel is the best. Pure arithmetic.

Two numbers decide which tile and how many stages win: how many tiles of C there are for each SM, since less than one
leaves SMs idle and many hide each other's tails; and K, the length of the mainloop that pays for a tile's prologue and
epilogue. Whether rows begin at 16-byte boundaries decides if vector and bulk copies can be used at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ladder.errors import ShapeError
from ladder.model import Shape

__all__ = ["TILE", "ShapeClass", "distance", "shape_class"]

TILE = 128
"""Edge of the C tile in which a shape is measured: what the fast rungs use, or a small power of two away from it."""

WORDS = 4
"""Elements of 16 bytes."""

FEWEST, MOST = -4, 5
"""Log2 of the tiles an SM: from one tile on a sixteenth of the SMs to 32 each; beyond, nothing changes any more."""

SHALLOWEST, DEEPEST = 6, 13
"""Log2 of K: a mainloop of a few steps, and one so long that its ends no longer count."""

DEPTH_WEIGHT = 0.5
"""A factor of two in K matters less than one in the number of tiles."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ShapeClass:
    """Shapes alike in what decides the best kernel.

    Attributes:
        tiles_log2: log2 of 128 x 128 tiles of C for each SM, rounded, within -4 .. 5.
        depth_log2: log2 of K, rounded, within 6 .. 13.
        aligned: N and K are multiples of 4, so that every row of A, B and C can begin at a 16-byte boundary.

    Raises:
        ShapeError: a number out of range.
    """

    tiles_log2: int
    depth_log2: int
    aligned: bool

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("tiles_log2", self.tiles_log2, FEWEST, MOST),
            ("depth_log2", self.depth_log2, SHALLOWEST, DEEPEST),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ShapeError(f"shape class: {name} is {value!r}; it is an integer from {low} to {high}")
        if not isinstance(self.aligned, bool):
            raise ShapeError(f"shape class: aligned is {self.aligned!r}; it is true or false")

    def __str__(self) -> str:
        tiles = f"{2**self.tiles_log2}" if self.tiles_log2 >= 0 else f"1/{2**-self.tiles_log2}"
        tiles += {FEWEST: " or less", MOST: " or more"}.get(self.tiles_log2, "")
        depth = f"{2**self.depth_log2}" + {SHALLOWEST: " or less", DEEPEST: " or more"}.get(self.depth_log2, "")
        return f"{tiles} tiles an SM, K about {depth}, rows {'aligned' if self.aligned else 'not aligned'}"


def shape_class(shape: Shape, sm_count: int) -> ShapeClass:
    """The class of ``shape`` on a GPU of ``sm_count`` SMs; an empty product is of the smallest.

    Raises:
        ShapeError: fewer than one SM.
    """
    tiles_log2, depth_log2 = _place(shape, sm_count)
    return ShapeClass(tiles_log2=round(tiles_log2), depth_log2=round(depth_log2), aligned=_aligned(shape))


def distance(one: Shape, one_sm_count: int, other: Shape, other_sm_count: int) -> tuple[bool, float, float]:
    """How far two shapes are apart in what decides the best kernel; tuples that sort, the nearest first.

    First whether one is aligned and the other not; then the Euclidean distance between (log2 of tiles an SM, half of
    log2 K), both within the bounds of :class:`ShapeClass`; last, for shapes in the same place, that between their
    M / N in log2.

    Raises:
        ShapeError: fewer than one SM.
    """
    tiles, depth = _place(one, one_sm_count)
    other_tiles, other_depth = _place(other, other_sm_count)
    apart = math.hypot(tiles - other_tiles, DEPTH_WEIGHT * (depth - other_depth))
    return _aligned(one) != _aligned(other), apart, abs(_aspect(one) - _aspect(other))


def _place(shape: Shape, sm_count: int) -> tuple[float, float]:
    """(log2 of tiles an SM, log2 of K), each within its bounds."""
    if sm_count < 1:
        raise ShapeError(f"shape class of {shape}: {sm_count} SMs; a GPU has one or more")
    tiles = -(-shape.m // TILE) * -(-shape.n // TILE)
    tiles_log2 = math.log2(tiles / sm_count) if tiles else FEWEST
    depth_log2 = math.log2(shape.k) if shape.k else SHALLOWEST
    return min(MOST, max(FEWEST, tiles_log2)), min(DEEPEST, max(SHALLOWEST, depth_log2))


def _aligned(shape: Shape) -> bool:
    return shape.n % WORDS == 0 and shape.k % WORDS == 0


def _aspect(shape: Shape) -> float:
    return math.log2(max(1, shape.m) / max(1, shape.n))
