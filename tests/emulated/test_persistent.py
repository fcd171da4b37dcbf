"""A grid of as many blocks as run at once: they share out the tiles of C, and tell one another of parts of tiles."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from helpers.engines import ORDERS
from helpers.extras import PERSISTENT_PATH

from ladder.backends.base import Engine
from ladder.backends.emulated import EmulatedBackend
from ladder.catalog import parse_file
from ladder.check import inputs, prove, search
from ladder.errors import BackendError
from ladder.geometry import plan, workspace_bytes, workspace_shape
from ladder.model import Shape
from ladder.nvrtc import Compiled, compile_rung
from ladder.profiles import load_profile
from ladder.ptx import Order

H200 = load_profile("h200").device
(RUNG,) = parse_file(PERSISTENT_PATH)
SHAPES = [Shape.parse(text) for text in ("35x79x19", "16x16x64", "70x50x41", "1x1x1", "5x7x0", "0x7x5", "100x100x8")]


@cache
def compiled() -> Compiled:
    return compile_rung(RUNG, arch="sm_90")


def backend(sm_count: int, *, engine: Engine = "auto", order: Order = "lockstep") -> EmulatedBackend:
    # One block an SM: the number of blocks is then that of SMs.
    small = replace(H200, sm_count=sm_count, max_blocks_per_sm=1)
    return EmulatedBackend(small, engine=engine, order=order)


@pytest.mark.parametrize("engine", ["numpy", "c"])
@pytest.mark.parametrize("sm_count", [1, 3, 7, 64, 100])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_is_right_whatever_the_number_of_blocks(engine: Engine, sm_count: int, shape: Shape) -> None:
    check = prove(backend(sm_count, engine=engine), compiled(), shape)
    assert check.passed, check.failure


def test_no_shape_is_found_that_breaks_it() -> None:
    assert search(backend(5), compiled(), max_examples=20) is None


def test_its_bits_depend_on_the_number_of_blocks_and_not_on_their_order() -> None:
    shape = Shape(m=70, n=50, k=411)
    a, b = inputs(shape)

    def bits(sm_count: int, order: Order) -> bytes:
        return backend(sm_count, order=order).run(compiled(), a, b).c.tobytes()

    assert len({bits(7, order) for order in ORDERS}) == 1
    assert bits(7, ORDERS[0]) != bits(3, ORDERS[0])


def test_the_room_grows_with_the_grid() -> None:
    shape = Shape(m=70, n=50, k=41)
    (launch,) = plan(RUNG, shape, resident=7)
    assert launch.grid == (7, 1, 1)
    assert launch.packing is not None
    assert RUNG.pack is not None
    rows, cols = workspace_shape(RUNG.pack, launch.packing)
    assert workspace_bytes(RUNG, shape, resident=7) == 4 * rows * cols + 256 + 7 * 8 * 256
    assert plan(RUNG, shape)[0].grid == (5 * 4, 1, 1)


def test_it_is_not_replayed() -> None:
    with pytest.raises(BackendError, match=r"64x64x64 is not replayed: a persistent rung's threadblocks differ"):
        backend(7).replay(compiled(), Shape(m=64, n=64, k=64))
