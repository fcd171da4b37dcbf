"""Which kernels the experiments run, at which sizes. Runs nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ladder import catalog
from ladder.catalog.streams import Stream, load_streams
from ladder.experiments.padding import PADS
from ladder.geometry import plan
from ladder.model import Device, Rung, Shape

__all__ = [
    "ASKED_SHAPE",
    "EDGES",
    "LAW_SHAPES",
    "PADDING_SHAPE",
    "Product",
    "Streamed",
    "asked",
    "edges",
    "padded",
    "part",
    "too_much",
    "with_edge",
]

EDGES = (4, 8, 16, 32, 64)
_THREADS = {4: 16, 8: 64, 16: 256, 32: 1024, 64: 1024}
"""One thread an element of the tile, up to the 1024 that a block can have."""

_KERNELS = ("tile_product", "tiled")

Where = Literal["cuda", "emulated"]


def _cube(n: int) -> Shape:
    return Shape(m=n, n=n, k=n)


LAW_SHAPES: dict[Where, tuple[Shape, Shape]] = {
    "cuda": (_cube(1024), _cube(8192)),
    "emulated": (_cube(256), _cube(8192)),
}
"""One that fits every L2 of today, and one that fits none."""

PADDING_SHAPE: dict[Where, Shape] = {"cuda": _cube(2048), "emulated": _cube(256)}
ASKED_SHAPE: dict[Where, Shape] = {"cuda": _cube(4096), "emulated": _cube(256)}

_STREAM_BYTES = 2**20
"""What the arrays of an emulated stream kernel take together; on a GPU up to 8 times its L2, and more than 4."""

_L2_TIMES = 8

MOST_BLOCKS, MOST_FLOP = 2**26, 2**38
"""Of one launch on a GPU: a third of a second, which is launched some ten times, most of them to read counters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One kernel at one shape. ``whole`` asks for every counter, not only DRAM's."""

    rung: Rung
    shape: Shape
    whole: bool = True

    @property
    def name(self) -> str:
        """For whoever watches."""
        return f"{self.rung.name} {self.shape}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """One stream kernel at one size."""

    stream: Stream
    n: int

    @property
    def name(self) -> str:
        """For whoever watches."""
        return f"{self.stream.name} n = {self.n}"


def edges(shapes: Sequence[Shape], where: Where) -> tuple[Product, ...]:
    """Tile product and tiled at every T and shape; on a GPU a part of what would take too long."""
    rungs = [with_edge(kernel, edge) for kernel in _KERNELS for edge in EDGES]
    parts = [(rung, part(rung, shape) if where == "cuda" else shape) for shape in shapes for rung in rungs]
    return tuple(Product(rung=rung, shape=shape) for rung, shape in parts)


def padded(shape: Shape) -> tuple[Product, ...]:
    """Rung 04, which is padding 0, and rung 05 with every other padding."""
    (conflict,), (remedy,) = catalog.find(["tiled_conflict"]), catalog.find(["padded"])
    rungs = [
        conflict if pad == 0 else replace(catalog.with_params(remedy, {"PAD": pad}), name=f"padded_{pad}")
        for pad in PADS
    ]
    return tuple(Product(rung=rung, shape=shape) for rung in rungs)


def asked(shape: Shape, device: Device) -> tuple[Product | Streamed, ...]:
    """Every kernel of the catalogue that the device can run, and every stream kernel."""
    footprint = _L2_TIMES * device.l2_bytes if device.backend == "cuda" else _STREAM_BYTES
    streams = load_streams(catalog.cuda_src() / "laws" / "streams")
    products = [rung for rung in catalog.load_catalog() if rung.why_not_on(device) is None]
    return (
        *(Streamed(stream=stream, n=stream.largest(footprint)) for stream in streams),
        *(Product(rung=rung, shape=shape, whole=False) for rung in products if rung.supports(shape) is None),
    )


def part(rung: Rung, shape: Shape) -> Shape:
    """A part of the product that does to each memory what the whole does, in less time.

    A kernel whose grid's z walks K sweeps over all of C for each k-tile: fewer of them are the same sweep, fewer times.
    Any other sweeps over all of B for each row of tiles: fewer rows are the same sweep, fewer times. What is left is a
    power of two of tiles, two at least.
    """
    fewer = shape
    while too_much(rung, fewer):
        if rung.grid_z_tile is not None and fewer.k > 2 * rung.grid_z_tile:
            fewer = replace(fewer, k=fewer.k // 2)
        elif rung.grid_z_tile is None and fewer.m > 2 * rung.tile[0]:
            fewer = replace(fewer, m=fewer.m // 2)
        else:
            break
    return fewer


def too_much(rung: Rung, shape: Shape) -> bool:
    """Whether a launch on a GPU takes longer than an experiment should."""
    blocks = sum(math.prod(launch.grid) for launch in plan(rung, shape))
    return blocks > MOST_BLOCKS or shape.flop > MOST_FLOP


def with_edge(kernel: str, edge: int) -> Rung:
    """``kernel`` at another T, and with the threads that go with it."""
    first = catalog.find([kernel])[0]
    changed = catalog.with_params(first, {"T": edge, "NUM_THREADS": _THREADS[edge]})
    return replace(changed, name=f"{kernel}_{edge}")
