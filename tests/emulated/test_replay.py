"""Replayed traffic against executed traffic: the exact counts equal, the modelled ones near."""

import numpy as np
import pytest
from helpers.kernels import RUNGS, compiled, emulator

from ladder.errors import BackendError
from ladder.model import Shape

EXACT = ("asked", "l1", "shared", "sm")


def named(name):
    return compiled(next(rung for rung in RUNGS if rung.name == name))


@pytest.mark.parametrize("rung", RUNGS, ids=lambda r: r.name)
def test_replay_equals_execution(rung):
    bm, bn = rung.tile
    # Whole tiles; of small ones, several to an SM.
    shape = Shape(m=-(-256 // bm) * bm, n=-(-384 // bn) * bn, k=128)
    backend = emulator()
    kernel = compiled(rung)
    random = np.random.default_rng(0)
    a = random.standard_normal((shape.m, shape.k), dtype=np.float32)
    b = random.standard_normal((shape.k, shape.n), dtype=np.float32)
    executed, replayed = backend.run(kernel, a, b, count=True).traffic, backend.replay(kernel, shape)
    for level in EXACT:
        assert replayed.levels[level] == executed.levels[level]
    for name in (
        "wavefronts_ld",
        "wavefronts_st",
        "requests_ld",
        "requests_st",
        "global_wavefronts",
        "global_requests",
    ):
        assert getattr(replayed, name) == getattr(executed, name)
    if rung.pack is None:  # what is packed stays in L2, and each launch is replayed from a cold one
        assert replayed.levels["dram"] == executed.levels["dram"], "everything fits L2: both are compulsory"
    # Execution also models what an L1 keeps from one block to the next, which replay leaves out.
    assert executed.levels["l2"].bytes <= replayed.levels["l2"].bytes <= 1.1 * executed.levels["l2"].bytes


@pytest.mark.parametrize("shape", [Shape(m=100, n=96, k=64), Shape(m=96, n=0, k=64), Shape(m=96, n=33, k=64)], ids=str)
def test_what_cannot_be_replayed_is_refused_with_the_fix(shape):
    with pytest.raises(BackendError, match=r"tiled_32: .* is not replayed: .* Give multiples of the tile"):
        emulator().replay(named("tiled_32"), shape)


@pytest.mark.parametrize("edge", [16, 32])
def test_dram_intensity_is_half_the_tile_edge_once_one_stream_misses_l2(edge):
    """At N = 8192 a row of A's tiles is shared by the blocks in step, while B is streamed again for every row: T/2."""
    shape = Shape(m=8192, n=8192, k=8192)
    traffic = emulator().replay(named(f"tiled_{edge}"), shape)
    assert traffic.intensity(shape.flop)["dram"] == pytest.approx(edge / 2, rel=0.03)


def test_dram_intensity_is_compulsory_while_l2_holds_the_operands():
    shape = Shape(m=1024, n=1024, k=1024)
    intensity = emulator().replay(named("tiled_32"), shape).intensity(shape.flop)
    assert intensity["dram"] == pytest.approx(1024 / 4)
