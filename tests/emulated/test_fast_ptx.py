"""Fast kernels, as NVRTC compiles them: asynchronous copies, tensor cores, shuffles, ballots, named barriers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from helpers.kernels import FAST, RUNGS, compiled, emulator
from helpers.kernels import fast as kernel
from numpy.typing import NDArray

from ladder.backends.base import Outcome
from ladder.catalog import parse_file
from ladder.check import inputs, prove
from ladder.errors import BackendError, KernelFaultError
from ladder.model import Shape
from ladder.nvrtc import Compiled, compile_rung
from ladder.ptx import Order

ORDERS: tuple[Order, ...] = ("lockstep", "warp_serial")

ANY_SHAPE = ("ballot_rows", "local_arrays", "producer")
ORDERED = ("pipeline", *ANY_SHAPE)


def line_of(name: str, text: str) -> str:
    """``FILE.cu:LINE`` of the only line that holds ``text``."""
    lines = (FAST / f"{name}.cu").read_text().splitlines()
    found = [number for number, line in enumerate(lines, 1) if text in line and not line.startswith("//")]
    assert len(found) == 1
    return f"{name}.cu:{found[0]}"


def run(code: Compiled, shape: str, *, order: Order = "lockstep", count: bool = False) -> Outcome:
    return emulator("a100", order=order).run(code, *inputs(Shape.parse(shape)), count=count)


# The same bits as every other rung -----------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("name", "shape"),
    [("pipeline", "64x64x16"), ("pipeline", "128x192x80")]
    + [(name, shape) for name in ANY_SHAPE for shape in ("35x79x19", "1x1x1", "70x43x45", "5x7x0")],
)
def test_ordered_kernels_agree_bit_for_bit_with_the_rungs(name: str, shape: str, order: Order) -> None:
    plain = next(rung for rung in RUNGS if rung.name == "coalesced")
    expected = prove(emulator("a100"), compiled(plain, "sm_80"), Shape.parse(shape), repeat=False)
    check = prove(emulator("a100", order=order), kernel(name), Shape.parse(shape), repeat=False)
    assert check.passed, check.failure
    assert check.crc32 is not None
    assert check.crc32 == expected.crc32


@pytest.mark.parametrize("name", [*ORDERED, "warp_dot"])
def test_other_architectures_give_the_same_bits(name: str) -> None:
    shape = "64x128x48" if name == "pipeline" else "35x79x19"
    one, other = (run(kernel(name, arch=arch), shape).c for arch in ("sm_80", "sm_90"))
    assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", ["1x1x1", "3x19x77", "2x8x64", "4x9x0"])
def test_a_reduction_by_shuffles(shape: str, order: Order) -> None:
    check = prove(emulator("a100", order=order), kernel("warp_dot"), Shape.parse(shape), repeat=False)
    assert check.passed, check.failure
    assert check.exact_integers


def test_local_arrays_stay_in_local_memory() -> None:
    ptx = kernel("local_arrays").ptx
    assert all(f"{opcode}.local.{kind}" in ptx for opcode in ("ld", "st") for kind in ("u8", "u16", "f32", "f64"))


# Asynchronous copies -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stages", [2, 4, 7])
def test_pipelines_of_other_depths(stages: int) -> None:
    """Seven stages take 56 KiB of dynamic shared memory, more than a kernel can declare."""
    shape = "64x64x80"
    assert run(kernel("pipeline", STAGES=stages), shape).c.tobytes() == run(kernel("pipeline"), shape).c.tobytes()


def test_more_shared_memory_than_the_gpu_has() -> None:
    with pytest.raises(BackendError, match=r"262144 bytes of shared memory a block"):
        run(kernel("pipeline", STAGES=32), "64x64x16")


@pytest.mark.parametrize("order", ORDERS)
def test_a_missing_wait_is_found(order: Order) -> None:
    with pytest.raises(KernelFaultError, match=line_of("pipeline", "cp.async.cg").replace(".", r"\.")) as caught:
        run(kernel("pipeline", WAIT=0), "64x64x64", order=order)
    assert caught.value.kind == "use before cp.async wait"
    assert caught.value.where.endswith(
        (line_of("pipeline", "const float4 b ="), line_of("pipeline", "const float a ="))
    )


def test_a_wait_for_too_few_groups_is_found() -> None:
    """With the copies of the next tile in the group that is waited for, one group less must be left."""
    source = (FAST / "pipeline.cu").read_text()
    rung = parse_file(FAST / "pipeline.cu")[0]
    late = replace(rung, source=source.replace('"n"(STAGES - 2)', '"n"(STAGES - 1)'))
    with pytest.raises(KernelFaultError, match=r"use before cp\.async wait"):
        run(compile_rung(late, arch="sm_80"), "64x64x64")


@pytest.mark.parametrize("order", ORDERS)
def test_a_missing_barrier_is_found(order: Order) -> None:
    with pytest.raises(KernelFaultError) as caught:
        run(kernel("pipeline", BARRIER=0), "64x64x64", order=order)
    # One warp at a time, the first finds nothing where the others have not yet copied.
    assert caught.value.kind == ("race" if order == "lockstep" else "uninitialised")
    if order == "lockstep":
        assert line_of("pipeline", "cp.async.cg") in str(caught.value)
        assert "Add __syncthreads()" in str(caught.value)


def test_what_a_pipeline_costs() -> None:
    blocks, tiles, warps = 2 * 3, 5, 8
    traffic = run(kernel("pipeline"), f"128x192x{16 * tiles}", count=True).traffic
    assert traffic is not None
    # Of every tile each thread copies 16 bytes of A and of B.
    copied = blocks * tiles * 256 * 2 * 16
    assert traffic.levels["asked"].bytes == copied + 4 * 128 * 192
    assert traffic.global_requests == blocks * warps * (2 * tiles + 16)
    # Copies of 16 bytes that pass by L1 take no wavefront of the data pipe; the stores of C take four each.
    assert (traffic.wavefronts_st, traffic.requests_st) == (0, 0)
    assert traffic.global_wavefronts == blocks * warps * 16 * 4


# Tensor cores --------------------------------------------------------------------------------------------------------


def bf16(x: NDArray[np.float32]) -> NDArray[np.float64]:
    """To nearest even by way of the bits."""
    bits = x.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16
    return rounded.astype(np.uint32).view(np.float32).astype(np.float64)


def f16(x: NDArray[np.float32]) -> NDArray[np.float64]:
    return x.astype(np.float16).astype(np.float64)


def tf32(x: NDArray[np.float32]) -> NDArray[np.float64]:
    """To nearest, ties away from zero."""
    bits = x.view(np.uint32) + np.uint32(0x1000) & np.uint32(0xFFFFE000)
    return bits.view(np.float32).astype(np.float64)


TENSOR: dict[str, tuple[str, dict[str, int], Callable[[NDArray[np.float32]], NDArray[np.float64]], int, str]] = {
    "bf16": ("half_tile", {"F16": 0}, bf16, 16, "64x128x96"),
    "f16": ("half_tile", {"F16": 1}, f16, 16, "128x64x64"),
    "tf32": ("tf32_tile", {}, tf32, 8, "48x24x72"),
}
each_type = pytest.mark.parametrize(("name", "params", "rounded", "k", "shape"), TENSOR.values(), ids=TENSOR)


@each_type
@pytest.mark.parametrize("order", ORDERS)
def test_tensor_cores_round_their_operands_and_once_a_product(
    name: str,
    params: dict[str, int],
    rounded: Callable[[NDArray[np.float32]], NDArray[np.float64]],
    k: int,
    shape: str,
    order: Order,
) -> None:
    a, b = inputs(Shape.parse(shape))
    c = emulator("a100", order=order).run(kernel(name, **params), a, b).c
    exact, magnitude = rounded(a) @ rounded(b), np.abs(rounded(a)) @ np.abs(rounded(b))
    # K / k roundings toward zero, each by less than 2^-23 of a partial sum.
    assert (np.abs(c - exact) <= a.shape[1] / k * 2.0**-23 * magnitude).all()
    # The operands were rounded: plain float32 is much closer to the product of what was given.
    assert np.abs(c - a.astype(np.float64) @ b).max() > 100 * np.abs(c - exact).max()


@each_type
def test_tensor_cores_are_exact_on_small_integers(
    name: str,
    params: dict[str, int],
    rounded: Callable[[NDArray[np.float32]], NDArray[np.float64]],
    k: int,
    shape: str,
) -> None:
    size = Shape.parse(shape)
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-100, 101, s).astype(np.float32) for s in ((size.m, size.k), (size.k, size.n)))
    assert (emulator("a100").run(kernel(name, **params), a, b).c == a.astype(np.float64) @ b).all()


def test_matrix_loads_without_conflicts_cost_a_wavefront_a_matrix() -> None:
    traffic = run(kernel("half_tile"), "64x128x96", count=True).traffic
    assert traffic is not None
    blocks, tiles, warps = 2, 3, 4
    # Two steps of 16 in k, in each of which a warp loads two times four matrices of A and of B.
    assert traffic.wavefronts_ld == blocks * tiles * warps * 2 * 16
    assert traffic.requests_ld == blocks * tiles * warps * 2 * 4


# Named barriers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
def test_consumers_that_do_not_wait_are_found(order: Order) -> None:
    with pytest.raises(KernelFaultError) as caught:
        run(kernel("producer", FULL=0), "32x32x40", order=order)
    assert caught.value.kind == "race"
    assert caught.value.where.endswith(line_of("producer", "acc[i] = fmaf"))


@pytest.mark.parametrize("order", ORDERS)
def test_producers_that_do_not_wait_are_found(order: Order) -> None:
    """They come to a barrier for the second time before its consumers have come once."""
    with pytest.raises(KernelFaultError, match="comes to barrier 1 again before it is over") as caught:
        run(kernel("producer", EMPTY=0), "32x32x40", order=order)
    assert caught.value.kind == "invalid barrier"
