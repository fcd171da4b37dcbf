"""The products that a search tries, and the simpler ones that it tries once one has failed."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from hypothesis import strategies as st

from ladder.check._inputs import DATA_KINDS, DataKind
from ladder.model import FP32_UNIT_ROUNDOFF, Rung, Shape

__all__ = ["MAX_WORK", "Case", "cases", "known_traps", "simpler"]

MAX_WORK = 2**21
"""Most multiply-adds of a drawn shape, its sides rounded up to whole tiles: well under a second of emulation."""

TRAPS = ((35, 79, 19), (3, 3, 431), (33, 32, 32), (64, 64, 1), (100, 100, 100), (17, 300, 5))
"""Shapes that published kernels got wrong: ragged, thin, one row past a tile, a single step of k."""

SMALL = (0, 1, 2, 3)
PRIMES = (5, 7, 13, 19, 31, 37, 61, 67, 97, 127, 131)
LONG = (257, 431, 1021)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One product to try: its shape, the kind of its data, and by how many elements A, B and C are shifted.

    Reads ``35x79x19 (normal, B + 1)`` where B starts one element past an aligned address.
    """

    shape: Shape
    kind: DataKind = "integers"
    offsets: tuple[int, int, int] = (0, 0, 0)

    def __str__(self) -> str:
        shifted = [f"{name} + {by}" for name, by in zip("ABC", self.offsets, strict=True) if by]
        return f"{self.shape} ({', '.join((self.kind, *shifted))})"


def known_traps(rung: Rung) -> tuple[Case, ...]:
    """The products that are always tried: one element, a tile and its neighbours, ragged, thin, and empty ones."""
    bm, bn, bk = _tile(rung)
    sides = ((1, 1, 1), (bm, bn, bk), (bm + 1, max(1, bn - 1), bk + 1), *TRAPS, (5, 7, 0), (0, 7, 5), (5, 0, 7))
    shapes = [_rounded(Shape(m=m, n=n, k=k), rung) for m, n, k in sides]
    ragged = _rounded(Shape(m=35, n=79, k=19), rung)
    shifted = Case(shape=ragged, offsets=_scaled_offsets((1, 2, 3), rung))
    traps = [*(Case(shape=shape) for shape in shapes), shifted, *(Case(shape=ragged, kind=k) for k in _kinds(rung))]
    return tuple(dict.fromkeys(traps))


def cases(rung: Rung) -> st.SearchStrategy[Case]:
    """Products that try ``rung`` where kernels break. Simple ones first, so that hypothesis shrinks to them."""
    axes = list(zip(_tile(rung), rung.multiple, strict=True))
    likely = [_sampled((0, 1, edge - 1, edge, edge + 1, 2 * edge + 1, *SMALL, *PRIMES), step) for edge, step in axes]
    anywhere = [st.integers(0, -(-2 * edge // step)).map(partial(operator.mul, step)) for edge, step in axes]
    thin = [_sampled((*SMALL, *PRIMES[:5]), step) for _, step in axes]
    long = [_sampled(LONG, step) for _, step in axes]
    sides = [st.tuples(*likely), st.tuples(*anywhere)]
    sides += [st.tuples(*(long[i] if i == axis else thin[i] for i in range(3))) for axis in range(3)]
    shift = st.integers(0, 3)
    offsets = st.just((0, 0, 0)) | st.tuples(shift, shift, shift).map(lambda by: _scaled_offsets(by, rung))
    return st.builds(
        lambda mnk, offsets, kind: Case(shape=_affordable(mnk, rung), offsets=offsets, kind=kind),
        st.one_of(sides),
        offsets,
        st.sampled_from(_kinds(rung)),
    )


def _sampled(sides: Iterable[int], step: int) -> st.SearchStrategy[int]:
    """One of ``sides``, each rounded up to a multiple of ``step``."""
    return st.sampled_from(sorted({_round_up(side, step) for side in sides}))


def simpler(case: Case, rung: Rung) -> Iterator[Case]:
    """Simpler cases, the simplest first: no shifts, integers, then one, two or three sides shortened."""
    if any(case.offsets):
        yield replace(case, offsets=(0, 0, 0))
        a, b, c = case.offsets
        yield from (
            replace(case, offsets=offsets) for offsets in ((0, b, c), (a, 0, c), (a, b, 0)) if offsets != case.offsets
        )
    for kind in DATA_KINDS[: DATA_KINDS.index(case.kind)]:
        yield replace(case, kind=kind)
    sides = (case.shape.m, case.shape.n, case.shape.k)
    shorter = [_shorter(side, edge, step) for side, edge, step in zip(sides, _tile(rung), rung.multiple, strict=True)]
    for axes in ((0, 1, 2), (0,), (1,), (2,), (0, 1), (1, 2), (0, 2)):
        for value in sorted({value for axis in axes for value in shorter[axis]}):
            cut = [_round_up(value, rung.multiple[i]) if i in axes else side for i, side in enumerate(sides)]
            if all(cut[axis] < sides[axis] for axis in axes):
                yield replace(case, shape=Shape(m=cut[0], n=cut[1], k=cut[2]))


def _shorter(side: int, edge: int, step: int) -> list[int]:
    """Lengths below ``side`` worth trying, in multiples of ``step``."""
    lengths = {*range(9), edge - 1, edge, edge + 1, side // 2, side - step}
    return sorted({value for length in lengths if 0 <= (value := _round_up(length, step)) < side})


def _kinds(rung: Rung) -> tuple[DataKind, ...]:
    """Arithmetic that splits its inputs (tensor cores) turns an infinity into a NaN, so ``specials`` are not for it."""
    if rung.unit_roundoff > FP32_UNIT_ROUNDOFF:
        return tuple(kind for kind in DATA_KINDS if kind != "specials")
    return DATA_KINDS


def _tile(rung: Rung) -> tuple[int, int, int]:
    """(BM, BN, BK); BK is the parameter of that name or T, else grid z's, else a warp."""
    bk = rung.params.get("BK", rung.params.get("T", rung.grid_z_tile or 32))
    return (*rung.tile, bk)


def _affordable(mnk: tuple[int, ...], rung: Rung) -> Shape:
    """A shape whose longest side (in tiles) is halved until a launch has at most MAX_WORK multiply-adds."""
    sides = list(mnk)
    # A side is never cut below its multiple, so a tile counts as one at least.
    tile = [_round_up(edge, step) for edge, step in zip(_tile(rung), rung.multiple, strict=True)]
    while True:
        tiles = [-(-side // edge) for side, edge in zip(sides, tile, strict=True)]
        if math.prod(tiles) * math.prod(tile) <= MAX_WORK or max(tiles) == 1:
            return Shape(m=sides[0], n=sides[1], k=sides[2])
        axis = tiles.index(max(tiles))
        sides[axis] = _round_up(sides[axis] // 2, rung.multiple[axis])


def _rounded(shape: Shape, rung: Rung) -> Shape:
    m, n, k = (_round_up(side, step) for side, step in zip((shape.m, shape.n, shape.k), rung.multiple, strict=True))
    return Shape(m=m, n=n, k=k)


def _scaled_offsets(by: tuple[int, int, int], rung: Rung) -> tuple[int, int, int]:
    """Shifts that keep the stated alignment, and that of vectors where a rung needs K or N in multiples."""
    _, n_step, k_step = rung.multiple
    a, b, c = (math.lcm(step, rung.align_bytes // 4) for step in (k_step, n_step, n_step))
    return (by[0] * a, by[1] * b, by[2] * c)


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step
