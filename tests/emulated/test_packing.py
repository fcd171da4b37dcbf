"""Rungs that pack an operand on the emulator: right on both engines, counted whole, replayed whole, and watched."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from helpers.cu import write
from helpers.engines import ORDERS, assert_rung_is_same
from helpers.extras import PACKED, PACKED_PATH, TMA_PATH

from ladder.backends.base import Engine
from ladder.backends.emulated import EmulatedBackend
from ladder.catalog import find, parse_file
from ladder.check import inputs, prove, search
from ladder.errors import BackendError, InputError, KernelFaultError, UnsupportedPtxError
from ladder.model import Shape, Traffic
from ladder.nvrtc import Compiled, compile_rung
from ladder.profiles import load_profile
from ladder.ptx import Order

H200 = load_profile("h200").device
COUNTS = ("wavefronts_ld", "wavefronts_st", "requests_ld", "requests_st", "global_wavefronts", "global_requests")
SHAPES = [Shape.parse(text) for text in ("35x79x19", "16x16x8", "1x1x1", "5x7x0", "0x7x5", "5x0x7")]

each_engine = pytest.mark.parametrize("engine", ["numpy", "c"])


@cache
def packed() -> Compiled:
    return compile_rung(parse_file(PACKED_PATH)[0], arch="sm_90")


def backend(engine: Engine, order: Order = "lockstep") -> EmulatedBackend:
    return EmulatedBackend(H200, engine=engine, order=order)


@each_engine
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_is_proved_and_gives_the_bits_of_a_rung_that_packs_nothing(engine: Engine, shape: Shape) -> None:
    check = prove(backend(engine), packed(), shape)
    assert check.passed, check.failure
    plain = compile_rung(find(["tiled_16"])[0], arch="sm_90")
    assert check.crc32 == prove(backend(engine), plain, shape, repeat=False).crc32


@each_engine
def test_no_shape_is_found_that_breaks_it(engine: Engine) -> None:
    assert search(backend(engine), packed(), max_examples=10) is None


def traffic(engine: Engine, shape: Shape, kernel: Compiled | None = None) -> Traffic:
    found = backend(engine).run(kernel or packed(), *inputs(shape), count=True).traffic
    assert found is not None
    return found


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("offsets", [(0, 0, 0), (1, 2, 3)], ids=str)
def test_both_engines_give_the_same_bits_and_counts(order: Order, offsets: tuple[int, int, int]) -> None:
    assert_rung_is_same(packed(), SHAPES[0], specials=True, order=order, offsets=offsets)


def test_the_traffic_is_that_of_both_kernels() -> None:
    shape = Shape(m=32, n=48, k=16)
    whole = traffic("numpy", shape)
    # 32 x 48 threads read A and both planes 16 times and write C once; packing reads B and writes both planes.
    multiplying = 32 * 48 * (16 * 3 + 1)
    packing = 16 * 48 * 3
    assert whole.levels["asked"].bytes == 4 * (multiplying + packing)
    assert whole.global_requests == (multiplying + packing) // 32


@each_engine
def test_replay_equals_execution(engine: Engine) -> None:
    shape = Shape(m=64, n=96, k=32)
    executed, replayed = traffic(engine, shape), backend(engine).replay(packed(), shape)
    for level in ("asked", "l1", "shared", "sm"):
        assert replayed.levels[level] == executed.levels[level]
    for name in COUNTS:
        assert getattr(replayed, name) == getattr(executed, name)


def test_a_product_whose_packing_is_not_all_alike_is_not_replayed() -> None:
    with pytest.raises(BackendError, match=r"64x96x33 is not replayed: B is packed in tiles of 8x16. Give multiples"):
        backend("numpy").replay(packed(), Shape(m=64, n=96, k=33))


def faulty(folder, old: str, new: str) -> Compiled:
    assert old in PACKED
    return compile_rung(parse_file(write(folder / "faulty.cu", PACKED.replace(old, new)))[0], arch="sm_90")


@each_engine
def test_a_write_past_the_workspace_is_found(engine: Engine, tmp_path) -> None:
    kernel = faulty(tmp_path, "tile[BK * BN + threadIdx.x] =", "tile[2 * BK * BN + threadIdx.x] =")
    with pytest.raises(KernelFaultError, match=r"faulty.cu:\d+: out of bounds.*bytes past the end of packed B"):
        backend(engine).run(kernel, *inputs(Shape(m=4, n=4, k=4)))


@each_engine
def test_what_was_not_packed_is_nan(engine: Engine, tmp_path) -> None:
    kernel = faulty(tmp_path, "tile[threadIdx.x] = upper;", "if (threadIdx.x) tile[threadIdx.x] = upper;")
    check = prove(backend(engine), kernel, Shape(m=4, n=4, k=4))
    assert not check.passed
    assert "got nan" in str(check.failure)


def test_shared_memory_is_counted_once() -> None:
    rung = replace(packed().rung, smem_bytes=100 * 1024)
    resources = backend("numpy").resources(compile_rung(rung, arch="sm_90"))
    assert resources.smem_bytes == 100 * 1024
    assert resources.occupancy == 2 * 256 / H200.max_threads_per_sm


def test_offsets_that_break_the_alignment_are_refused() -> None:
    kernel = replace(packed(), rung=replace(packed().rung, align_bytes=16))
    a, b = inputs(Shape(m=4, n=4, k=4))
    with pytest.raises(InputError, match="multiples of 16 bytes and C starts 12 bytes past one; give offsets that are"):
        backend("numpy").run(kernel, a, b, offsets=(4, 8, 3))
    assert np.isfinite(backend("numpy").run(kernel, a, b, offsets=(4, 8, 12)).c).all()


def test_tensor_maps_are_refused_by_name() -> None:
    kernel = compile_rung(parse_file(TMA_PATH)[0], arch="sm_90")
    with pytest.raises(
        UnsupportedPtxError, match="rung tma_tile: the emulator runs PTX up to sm_80 features; tma needs"
    ):
        backend("numpy").run(kernel, *inputs(Shape(m=4, n=4, k=4)))
