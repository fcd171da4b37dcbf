"""Counts of the emulator: closed forms, counts by hand, and a slow reference that looks at every warp request alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest
from helpers.kernels import RUNGS, compiled, emulator, shifted
from helpers.ptx import module, run
from numpy.typing import NDArray

from ladder.memory import fetching_wavefronts, reduction_sectors, reduction_wavefronts, sectors, wavefronts
from ladder.memory.copies import copy_wavefronts_batch
from ladder.model import Rung, Shape, Traffic
from ladder.ptx import Counters, Order, machine
from ladder.ptx.async_copy import AsyncCopies
from ladder.ptx.batch import Batch
from ladder.ptx.matrix_load import MatrixLoads
from ladder.ptx.site import Site

RAGGED = Shape(m=33, n=35, k=17)
BY_NAME = {rung.name: rung for rung in RUNGS}
each_rung = pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)


def traffic(
    rung: Rung | str, shape: Shape, *, offsets: tuple[int, int, int] = (0, 0, 0), order: Order = "lockstep"
) -> Traffic:
    """What one product moves, counted by the numpy engine."""
    known = BY_NAME[rung] if isinstance(rung, str) else rung
    step = known.multiple
    m, n, k = (-(-side // s) * s for side, s in zip((shape.m, shape.n, shape.k), step, strict=True))
    a, b = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
    backend = emulator(order=order, engine="numpy")
    counted = backend.run(compiled(known), a, b, count=True, offsets=offsets).traffic
    assert counted is not None
    return counted


def exactly(counted: Traffic, level: Literal["asked", "l1", "shared", "sm"], shape: Shape) -> Fraction:
    """FLOP a byte."""
    return Fraction(shape.flop, counted.levels[level].bytes)


TILES = [(t, Shape.parse(s)) for t, s in ((16, "64x64x64"), (16, "48x80x32"), (32, "64x96x32"), (64, "128x64x64"))]
SHAPES = [RAGGED, *map(Shape.parse, ("64x32x8", "1x70x3", "40x1x5"))]

# Closed forms ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("t", "shape"), TILES, ids=str)
def test_a_tile_product_touches_three_tiles(t: int, shape: Shape) -> None:
    counted = traffic(f"tile_product_{t}", shape)
    assert exactly(counted, "l1", shape) == exactly(counted, "asked", shape) == Fraction(t, 6)


@pytest.mark.parametrize(("t", "shape"), TILES, ids=str)
def test_a_tile_of_c_that_stays_is_stored_once(t: int, shape: Shape) -> None:
    counted = traffic(f"tiled_{t}", shape)
    assert exactly(counted, "l1", shape) == Fraction(t, 4) / (1 + Fraction(t, 2 * shape.k))


BY_HAND = [rung for rung in RUNGS if rung.law is not None or rung.name in {"naive", "coalesced"}]
"""Rungs whose loads are known from their declaration: those of a law, and the two that reuse nothing."""


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("rung", BY_HAND, ids=lambda rung: rung.name)
def test_asked_bytes_by_hand(rung: Rung, shape: Shape) -> None:
    """Each element of A is read once for every tile of columns, of B for every tile of rows; C is written once."""
    if rung.multiple != (1, 1, 1):
        shape = Shape(m=128, n=128, k=32)
    m, n, k = shape.m, shape.n, shape.k
    rows, columns = rung.tile
    if rung.name in {"naive", "coalesced"}:
        rows = columns = 1
    words = m * k * -(-n // columns) + k * n * -(-m // rows)
    words += m * n * (-(-k // rung.grid_z_tile) if rung.grid_z_tile else 1)
    assert traffic(rung, shape).levels["asked"].bytes == 4 * words


def test_naive_by_hand() -> None:
    """One block of 32 x 32, warps along rows: A a sector a lane, B one word, C a sector a lane."""
    shape = Shape(m=32, n=32, k=16)
    counted = traffic("naive", shape)
    warps, steps = 32, 16
    requests = warps * (2 * steps + 1)
    assert counted.global_requests == requests
    assert counted.levels["l1"].bytes == 32 * warps * (steps * (32 + 1) + 32)
    # Rows of 64 and of 128 bytes: 16 and 32 lanes meet in one bank; a broadcast costs one.
    assert counted.global_wavefronts == warps * (steps * (16 + 1) + 32)
    assert counted.wavefronts_per_request is None


def test_coalesced_by_hand() -> None:
    shape = Shape(m=32, n=32, k=16)
    counted = traffic("coalesced", shape)
    assert counted.global_requests == counted.global_wavefronts == 32 * (2 * 16 + 1)
    assert counted.levels["l1"].bytes == 32 * 32 * (16 * (1 + 4) + 4)


@pytest.mark.parametrize(
    ("name", "loads", "stores"),
    [
        # A warp reads a row of Bs, and one word of As four k at a time: 16 bytes a lane take two passes at least.
        ("tiled_32", (32 + 8, 32 + 8 * 2), (2, 2)),
        # Lanes walk a column: 16-byte requests of groups of 8 lanes on the same four banks, and stores of 32.
        ("tiled_conflict", (8 + 8, 8 * 32 + 8 * 2), (2, 1 + 32)),
        # One word of padding takes the alignment away, and the conflicts.
        ("padded", (32 + 8, 32 + 8 * 2), (2, 2)),
    ],
)
def test_shared_requests_and_wavefronts_by_hand(name: str, loads: tuple[int, int], stores: tuple[int, int]) -> None:
    """(requests, wavefronts) of each of 32 warps in one tile product."""
    counted = traffic(name, Shape(m=32, n=32, k=32))
    assert (counted.requests_ld, counted.wavefronts_ld) == (32 * loads[0], 32 * loads[1])
    assert (counted.requests_st, counted.wavefronts_st) == (32 * stores[0], 32 * stores[1])
    assert counted.levels["shared"].bytes == 128 * 32 * (loads[1] + stores[1])
    # Beside accesses: each warp reads its thread index, and there are two barriers. What L1 lacks costs nothing more.
    assert counted.other_wavefronts == 32 + 2 * 2
    assert counted.levels["sm"].bytes == counted.levels["shared"].bytes + 128 * (counted.global_wavefronts + 36)
    assert counted.wavefronts_per_request == (loads[1] + stores[1]) / (loads[0] + stores[0])


# What does not matter, and what does ----------------------------------------------------------------------------------


@each_rung
def test_counts_do_not_depend_on_the_batch(rung: Rung, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = traffic(rung, RAGGED)
    for lanes in (1, 5000):
        monkeypatch.setattr(machine, "LANES_A_BATCH", lanes)
        assert traffic(rung, RAGGED) == whole


@pytest.mark.parametrize("name", ["coalesced", "tiled_32"])
def test_an_offset_pointer_touches_more_sectors_and_asks_for_no_more(name: str) -> None:
    shape = Shape(m=64, n=64, k=64)
    aligned, shifted = traffic(name, shape), traffic(name, shape, offsets=(1, 3, 5))
    assert shifted.levels["l1"].bytes > aligned.levels["l1"].bytes
    assert shifted.levels["asked"].bytes == aligned.levels["asked"].bytes
    assert shifted.global_requests == aligned.global_requests
    assert traffic(name, shape, offsets=(8, 16, 24)).levels["l1"] == aligned.levels["l1"]


# The reference --------------------------------------------------------------------------------------------------------


@dataclass
class Reference:
    """Counts every warp request by itself with the scalar definitions."""

    counts: Counter[str] = field(default_factory=Counter)
    loaded: set[tuple[int, int]] = field(default_factory=set)

    def add(self, batch: Batch, site: Site, address: NDArray[Any], mask: NDArray[np.bool_] | None) -> None:
        for block, lanes in self.warps_of_blocks(batch, address, mask):
            self.request(site, lanes)
            if site.kind == "ld" and site.space == "global" and batch.counters and batch.counters.caches:
                self.fetch(site, int(batch.numbers[block]), lanes)

    def fetch(self, site: Site, number: int, lanes: dict[int, int]) -> None:
        """What a load takes because its threadblock has not loaded some sectors before."""
        at = [lanes.get(lane, -site.offset) + site.offset for lane in range(32)]
        active = sum(1 << lane for lane in lanes)
        missing = sum(1 << lane for lane in lanes if (number, at[lane] // 32) not in self.loaded)
        self.counts["fetches"] += fetching_wavefronts(at, site.width_bytes, active=active, missing=missing)
        self.counts["fetches"] -= wavefronts(at, site.width_bytes, space="global", active=active)
        self.loaded |= {(number, at[lane] // 32) for lane in lanes}

    @classmethod
    def warps(cls, *access: Any) -> Iterator[dict[int, int]]:
        return (lanes for _, lanes in cls.warps_of_blocks(*access))

    @staticmethod
    def warps_of_blocks(
        batch: Batch, address: NDArray[Any], mask: NDArray[np.bool_] | None
    ) -> Iterator[tuple[int, dict[int, int]]]:
        """The addresses of each warp's lanes that take part, block after block; no warp without any."""
        shape = (batch.threads, batch.blocks)
        addresses = np.broadcast_to(address.astype(np.int64), shape)
        taking_part = np.broadcast_to(True if mask is None else mask, shape)
        for block in range(shape[1]):
            for first in range(0, shape[0], 32):
                lanes = {
                    lane: int(addresses[first + lane, block])
                    for lane in range(min(32, shape[0] - first))
                    if taking_part[first + lane, block]
                }
                if lanes:
                    yield block, lanes

    def copies(
        self,
        batch: Batch,
        site: Site,
        sides: tuple[NDArray[Any], NDArray[Any]],
        reading: NDArray[np.bool_] | None,
        mask: NDArray[np.bool_] | None,
    ) -> None:
        """A cp.async of whole words or of zeros: its target and its source."""
        target, source = sides
        readers = np.ones((1, 1), np.bool_) if reading is None else reading
        for to, of, reads in zip(
            *(self.warps(batch, side, mask) for side in (target, source, readers.astype(np.int64))), strict=True
        ):
            active = [lane for lane in to if reads[lane]]
            rows = [np.array([[side.get(lane, 0) for lane in range(32)]]) for side in (of, to)]
            lanes = [np.isin(np.arange(32), those)[None, :] for those in (active, list(to))]
            if ".ca" in site.op:
                self.counts["wavefronts"] += int(
                    copy_wavefronts_batch(*rows, site.width_bytes, reading=lanes[0], writing=lanes[1])[0]
                )
            if active:
                self.counts["requests"] += 1
                self.counts["asked"] += site.width_bytes * len(active)
                mask_bits = sum(1 << lane for lane in active)
                self.counts["sectors"] += sectors([int(a) for a in rows[0][0]], site.width_bytes, active=mask_bits)

    def matrices(self, batch: Batch, site: Site, address: NDArray[Any], count: int) -> None:
        """An ldmatrix: of 16 bytes a row, eight lanes after the other."""
        lane = np.arange(batch.threads)[:, None] % 32
        for lanes in self.warps(batch, address, lane < 8 * count):
            at = [lanes.get(each, 0) + site.offset for each in range(32)]
            self.counts["shared requests ld"] += 1
            self.counts["shared wavefronts ld"] += wavefronts(at, 16, active=sum(1 << each for each in lanes))

    def request(self, site: Site, lanes: dict[int, int]) -> None:
        active = sum(1 << lane for lane in lanes)
        width, offset = site.width_bytes, site.offset
        if site.fusion is not None:
            width, offset = site.fusion.width_bytes, site.fusion.offset
        if width == 0:
            return
        at = [lanes.get(lane, -offset) + offset for lane in range(32)]
        kind = "ld" if site.kind == "ld" else "st"
        if site.space == "shared":
            self.counts[f"shared requests {kind}"] += 1
            self.counts[f"shared wavefronts {kind}"] += wavefronts(at, width, store=kind == "st", active=active)
            return
        self.counts["requests"] += 1
        self.counts["asked"] += width * len(lanes)
        if site.kind in {"red", "atom"}:
            self.counts["sectors"] += reduction_sectors(at, width, active=active)
            self.counts["wavefronts"] += reduction_wavefronts(at, width, active=active)
        else:
            self.counts["sectors"] += sectors(at, width, active=active)
            self.counts["wavefronts"] += wavefronts(at, width, space="global", store=kind == "st", active=active)

    def agrees_with(self, counted: Traffic) -> None:
        found = self.counts
        shared = found["shared wavefronts ld"] + found["shared wavefronts st"]
        assert counted.levels["asked"].bytes == found["asked"]
        assert counted.levels["l1"].bytes == 32 * found["sectors"]
        assert counted.levels["shared"].bytes == 128 * shared
        more = counted.fetch_wavefronts + counted.other_wavefronts
        assert counted.levels["sm"].bytes == 128 * (shared + found["wavefronts"] + more)
        assert counted.fetch_wavefronts == found["fetches"]
        assert (counted.requests_ld, counted.requests_st) == (found["shared requests ld"], found["shared requests st"])
        assert (counted.wavefronts_ld, counted.wavefronts_st) == (
            found["shared wavefronts ld"],
            found["shared wavefronts st"],
        )
        assert (counted.global_requests, counted.global_wavefronts) == (found["requests"], found["wavefronts"])


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reference]:
    """A reference that sees every load, store, atomic, asynchronous copy and matrix load of the generated code."""
    watcher = Reference()

    def watch(name: str) -> None:
        plain = getattr(Batch, name)

        def seen(self: Batch, site: Site, address: NDArray[Any], *rest: Any) -> Any:
            watcher.add(self, site, address, rest[-1])
            return plain(self, site, address, *rest)

        monkeypatch.setattr(Batch, name, seen)

    for name in ("load", "store", "atomic"):
        watch(name)
    issue, matrix = AsyncCopies.issue, MatrixLoads.load

    def issued(self: AsyncCopies, site: Site, *rest: Any) -> None:
        target, source, offset, size, mask = rest
        sides = (target + target.dtype.type(site.offset), source + source.dtype.type(offset))
        watcher.copies(self._batch, site, sides, None if size is None else size > 0, mask)
        issue(self, site, *rest)

    def loaded(self: MatrixLoads, site: Site, address: NDArray[Any], count: int, *rest: Any, **how: Any) -> Any:
        watcher.matrices(self._batch, site, address, count)
        return matrix(self, site, address, count, *rest, **how)

    monkeypatch.setattr(AsyncCopies, "issue", issued)
    monkeypatch.setattr(MatrixLoads, "load", loaded)
    return watcher


@pytest.mark.parametrize("offsets", [(0, 0, 0), (1, 2, 3)], ids=str)
@each_rung
def test_a_rungs_counts_are_those_of_its_requests_one_by_one(
    rung: Rung, offsets: tuple[int, int, int], reference: Reference
) -> None:
    reference.agrees_with(traffic(rung, RAGGED, offsets=shifted(rung, offsets)))


@pytest.mark.parametrize("name", ["tile_product_16", "tile_product_32"])
def test_reductions_count_by_the_lines_on_which_they_fall(name: str, reference: Reference) -> None:
    """Rows of C that begin anywhere: the lines of a warp's reduction are looked up in one pass or in two."""
    reference.agrees_with(traffic(name, Shape(m=32, n=150, k=16), offsets=(0, 0, 1)))


BODIES = {
    "broadcast": "mov.b32 %w1, 0;",
    "stride of two words": "shl.b32 %w1, %tid, 3;",
    "rows of 33 words": "mul.lo.u32 %w1, %tid, 132;",
    "scattered": "mul.lo.u32 %w1, %tid, 2654435761;\nand.b32 %w1, %w1, 8188;",
    "by block and thread": "mov.u32 %w2, %ctaid.x;\nmad.lo.u32 %w1, %tid, %w2, %tid;\nshl.b32 %w1, %w1, 2;",
}


@pytest.mark.parametrize("guard", ["", "setp.lt.u32 %q1, %tid, 45;", "setp.ne.u32 %q1, %w1, 0;"])
@pytest.mark.parametrize("pattern", BODIES)
def test_patterns_of_hand_written_ptx(pattern: str, guard: str, reference: Reference) -> None:
    mark = "@%q1 " if guard else ""
    # The shared reduction needs words that somebody wrote.
    fill = (
        "mov.u32 %w8, box;\nshl.b32 %w5, %tid, 2;\nadd.u32 %w5, %w5, %w8;\nmov.b32 %w6, 0;\n"
        "TOP:\nst.shared.b32 [%w5], %w6;\nadd.u32 %w5, %w5, 288;\nadd.u32 %w6, %w6, 1;\n"
        "setp.lt.u32 %q1, %w6, 44;\n@%q1 bra TOP;\nbar.sync 0;\n"
    )
    body = (
        f"{BODIES[pattern]}\n{guard}\ncvt.u64.u32 %x1, %w1;\nadd.s64 %x2, %x1, %p0;\nadd.u32 %w9, %w8, %w1;\n"
        f"{mark}ld.global.f32 %f1, [%x2];\n{mark}st.global.f32 [%x2+4], %f1;\n"
        f"{mark}red.global.add.f32 [%x2+8], %f1;\n{mark}red.shared.add.u32 [%w9], 1;"
    )
    counters = Counters()
    text = module(fill + body, declarations=".shared .align 4 .b8 box[12672];")
    run(text, [np.zeros(4096, np.float32)], grid=(3, 1, 1), block=(72, 1, 1), counters=counters)
    reference.agrees_with(counters.traffic())
