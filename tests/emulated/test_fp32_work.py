"""FP32 instructions, counted: exactly 2 M N K where a tile divides the shape, more where zeros are multiplied too."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.kernels import RUNGS, compiled, emulator
from helpers.ptx import module

from ladder.backends.base import Engine
from ladder.model import Activity, Rung, Shape
from ladder.ptx import build, parse
from ladder.ptx.work import fp32_of

PLAIN = (
    "naive",
    "tiled_16",
    "tiled_64",
    "padded",
    "register_tile_1d",
    "register_tile",
    "vectorized",
    "tile_product_32",
)
"""Rungs that compute each element with one chain of multiply-adds."""

BY_NAME = {rung.name: rung for rung in RUNGS}


def activity(rung: Rung, shape: Shape, engine: Engine) -> Activity:
    """What one product executes."""
    a, b = np.ones((shape.m, shape.k), np.float32), np.ones((shape.k, shape.n), np.float32)
    found = emulator(engine=engine).run(compiled(rung), a, b, count=True).activity
    assert found is not None
    return found


@pytest.mark.parametrize("name", PLAIN)
def test_where_the_tile_divides_the_shape_the_work_is_2mnk(name: str) -> None:
    rung = BY_NAME[name]
    bm, bn = rung.tile
    shape = Shape(m=2 * bm, n=bn, k=64)
    found = activity(rung, shape, "auto")
    assert found.ffma == shape.m * shape.n * shape.k
    assert found.fmul == 0
    # tile_product adds into C by reductions, which are no FADD.
    assert found.flop == shape.flop
    assert found.origin == "emulated"


def test_a_guard_around_the_loop_spares_the_work_and_zeros_in_a_tile_do_not() -> None:
    shape = Shape(m=33, n=35, k=17)
    assert activity(BY_NAME["naive"], shape, "auto").flop == shape.flop
    padded = Shape(m=48, n=48, k=32)
    assert activity(BY_NAME["tiled_16"], shape, "auto").flop == padded.flop


@pytest.mark.parametrize("name", ["naive", "tiled_16", "register_tile_1d"])
def test_both_engines_count_the_same(name: str) -> None:
    rung = BY_NAME[name]
    step = rung.multiple
    shape = Shape(m=-(-35 // step[0]) * step[0], n=-(-37 // step[1]) * step[1], k=-(-33 // step[2]) * step[2])
    assert activity(rung, shape, "numpy") == activity(rung, shape, "auto")


def test_a_predicate_leaves_the_work_unknown() -> None:
    code = "add.f32 %f1, %f1, %f1; mul.rn.f32 %f1, %f1, %f1; sub.f32 %f1, %f1, %f1; fma.rn.f32 %f1, %f1, %f1, %f1;"
    program = build(next(iter(parse(module(f"mov.f32 %f1, 0f00000000; {code}")).values())))
    assert [block.fp32 for block in program.blocks] == [(2, 1, 1)]
    assert program.fp32_known
    guarded = module(f"mov.f32 %f1, 0f00000000; setp.eq.s32 %q1, 1, 1; @%q1 {code}")
    program = build(next(iter(parse(guarded).values())))
    assert not program.fp32_known
    assert fp32_of(program.blocks[0].instructions) is None
