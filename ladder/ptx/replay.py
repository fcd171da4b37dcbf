"""Traffic of launches too large to execute: a few threadblocks run, the rest are replayed as translations of them.

In a launch whose tiles divide its shape every threadblock does the same at another place: its sectors are those of the
first block, moved by a constant for every step along x, y and z. Sampled neighbours give the constants, and the last
block proves them. The exact counts of one block then hold for all, and the sets of sectors, each a whole object that
moves in and out of L2, are replayed group by group through the cache model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ladder.errors import BackendError
from ladder.memory import SECTOR_BYTES, WAVEFRONT_BYTES
from ladder.memory.caches import Touched, UnitLru
from ladder.model import Device, Level, Quantity, Traffic
from ladder.ptx.counting import Counters
from ladder.ptx.memory import GlobalMemory

__all__ = ["replay"]

Int = NDArray[np.int64]

GROUPS = 20000
"""Groups that are replayed one by one; a longer launch goes on at the pace of the second half of them."""

_KINDS = ("read", "update", "write")


class _Sample:
    """Takes the place of a cache model and keeps the sectors of every block of one batch, by kind, each set sorted."""

    def __init__(self) -> None:
        self.of_block: dict[int, dict[str, Int]] = {}

    def blocks(self, numbers: Int, *, reads: Touched, updates: Touched, writes: Touched) -> None:
        kinds = dict(zip(_KINDS, (reads, updates, writes), strict=True))
        for position, number in enumerate(numbers):
            self.of_block[int(number)] = {k: np.sort(t.sector[t.block == position]) for k, t in kinds.items()}


@dataclass(frozen=True, slots=True)
class _Stream:
    """What all blocks do to one buffer: ``size`` sectors each, which depend on the grid axes with a nonzero step."""

    kind: str
    size: int
    steps: tuple[int, int, int]


def replay(
    run: Callable[[Counters, list[int]], None],
    memory: GlobalMemory,
    *,
    grid: tuple[int, int, int],
    flop: int,
    device: Device,
    resident: int,
) -> Traffic:
    """Traffic of a launch on ``device`` from a cold L2.

    Args:
        run: runs the threadblocks of the given linear indices, counting.
        memory: the launch's buffers.
        grid: (x, y, z) threadblocks.
        flop: work of the launch.
        device: its SMs, their FP32 lanes, and L2.
        resident: threadblocks that an SM holds at once.

    Raises:
        BackendError: the blocks are not translations of each other: the tiles do not divide the shape.
    """
    corner = (grid[0] - 1, grid[1] - 1, grid[2] - 1)
    steps = [_unit(axis) for axis in range(3) if grid[axis] > 1]
    places = {p: p[0] + grid[0] * (p[1] + grid[1] * p[2]) for p in ((0, 0, 0), *steps, corner)}
    sample = _Sample()
    counters = Counters(sample)
    chosen = sorted(set(places.values()))
    run(counters, chosen)
    of = {place: sample.of_block[number] for place, number in places.items()}
    neighbours = [of.get(_unit(axis)) if grid[axis] > 1 else None for axis in range(3)]
    streams = _streams(memory, of[0, 0, 0], neighbours, of[corner], grid)
    blocks = grid[0] * grid[1] * grid[2]
    total = counters.traffic()

    def all_blocks(count: int) -> int:
        each, rest = divmod(count, len(chosen))
        if rest:
            raise BackendError("the sampled threadblocks differ in their counts: the tiles do not divide the shape")
        return each * blocks

    # See ladder.memory.caches: a wavefront takes the data pipe a clock, a warp's FMAs their share of the FP32 lanes.
    wavefronts = all_blocks(total.levels["sm"].bytes) // WAVEFRONT_BYTES
    pipe_binds = wavefronts * 2 * device.fma_per_clock > flop
    in_step = device.sm_count * (1 if pipe_binds else max(resident, 1))
    fetched, written = _through_l2(streams, grid, in_step, device.l2_bytes)
    # Stores and reductions go through L1 request by request, so the counters know them.
    l2_sectors = sum(s.size for s in streams if s.kind == "read") * blocks + all_blocks(counters.write_sectors)
    levels: dict[Level, Quantity] = {
        level: Quantity(bytes=all_blocks(q.bytes), origin=q.origin) for level, q in total.levels.items()
    }
    levels["l2"] = Quantity(bytes=l2_sectors * SECTOR_BYTES, origin="modelled")
    levels["dram"] = Quantity(bytes=(fetched + written) * SECTOR_BYTES, origin="modelled")
    return Traffic(
        levels=levels,
        wavefronts_ld=all_blocks(total.wavefronts_ld),
        wavefronts_st=all_blocks(total.wavefronts_st),
        requests_ld=all_blocks(total.requests_ld),
        requests_st=all_blocks(total.requests_st),
        global_wavefronts=all_blocks(total.global_wavefronts),
        global_requests=all_blocks(total.global_requests),
        fetch_wavefronts=all_blocks(total.fetch_wavefronts),
        other_wavefronts=all_blocks(total.other_wavefronts),
    )


def _unit(axis: int) -> tuple[int, int, int]:
    return (int(axis == 0), int(axis == 1), int(axis == 2))


def _streams(
    memory: GlobalMemory,
    origin: dict[str, Int],
    neighbours: list[dict[str, Int] | None],
    corner: dict[str, Int],
    grid: tuple[int, int, int],
) -> list[_Stream]:
    """One stream for every buffer and kind of access, proved by the corner block."""
    streams = []
    for buffer in memory.buffers:
        end = buffer.first_sector + buffer.sectors
        for kind in _KINDS:
            here, there = _part(origin[kind], buffer.first_sector, end), _part(corner[kind], buffer.first_sector, end)
            steps = tuple(
                0 if other is None else _step(here, _part(other[kind], buffer.first_sector, end), buffer.name)
                for other in neighbours
            )
            shift = sum(step * (count - 1) for step, count in zip(steps, grid, strict=True))
            if not np.array_equal(here + shift, there):
                raise BackendError(f"the last threadblock's sectors of {buffer.name} are no translation of the first's")
            if len(here):
                streams.append(_Stream(kind, len(here), (steps[0], steps[1], steps[2])))
    return streams


def _part(sectors: Int, start: int, end: int) -> Int:
    low, high = np.searchsorted(sectors, (start, end))
    return sectors[low:high]


def _step(here: Int, there: Int, name: str) -> int:
    """By how many sectors a neighbour's set is moved; sets that only partly overlap are no objects of their own."""
    if len(here) != len(there):
        raise BackendError(f"neighbouring threadblocks touch {len(here)} and {len(there)} sectors of {name}")
    if not len(here) or np.array_equal(here, there):
        return 0
    if len(np.intersect1d(here, there, assume_unique=True)):
        raise BackendError(f"neighbouring threadblocks share part of their sectors of {name}")
    return int(there[0] - here[0])


def _through_l2(streams: list[_Stream], grid: tuple[int, int, int], in_step: int, l2_bytes: int) -> tuple[int, int]:
    """Sectors that DRAM reads and writes: objects of each stream through a least recently used L2, group by group."""
    sizes = [_objects(stream, grid) for stream in streams]
    firsts = np.concatenate([[0], np.cumsum(sizes)])
    weights = np.concatenate([np.full(n, s.size, np.int64) for n, s in zip(sizes, streams, strict=True)])
    fetches = np.concatenate([np.full(n, s.kind != "write") for n, s in zip(sizes, streams, strict=True)])
    dirties = np.concatenate([np.full(n, s.kind != "read") for n, s in zip(sizes, streams, strict=True)])
    cache = UnitLru(1, int(firsts[-1]), l2_bytes // SECTOR_BYTES, weights=weights)
    blocks = grid[0] * grid[1] * grid[2]
    groups = -(-blocks // in_step)
    read: list[int] = []
    written: list[int] = []
    for group in range(min(groups, GROUPS)):
        number = np.arange(group * in_step, min((group + 1) * in_step, blocks))
        place = (number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1]))
        touched = np.concatenate(
            [
                np.unique(_object(stream, place, grid)) + first
                for stream, first in zip(streams, firsts[:-1], strict=True)
            ]
        )
        cache.advance()
        hit = cache.touch(np.zeros_like(touched), touched, written=dirties[touched])
        read.append(int(weights[touched[~hit & fetches[touched]]].sum()))
        written.append(cache.written_back)
    total_read, total_written = sum(read), written[-1]
    if groups > GROUPS:
        half = GROUPS // 2
        left = (groups - GROUPS) / half
        total_read += round(sum(read[half:]) * left)
        total_written += round((written[-1] - written[half - 1]) * left)
    return total_read, total_written


def _objects(stream: _Stream, grid: tuple[int, int, int]) -> int:
    return int(np.prod([count if step else 1 for step, count in zip(stream.steps, grid, strict=True)]))


def _object(stream: _Stream, place: tuple[Int, Int, Int], grid: tuple[int, int, int]) -> Int:
    """The number of the object that each block of ``place`` touches."""
    index = np.zeros_like(place[0])
    for axis in range(3):
        if stream.steps[axis]:
            index = index * grid[axis] + place[axis]
    return index
