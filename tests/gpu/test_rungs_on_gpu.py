"""Every rung of the catalogue on a real GPU: right at every size, and the emulator's bits."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from helpers.on_gpu import RUNGS, backend, compiled, need
from numpy.typing import NDArray

from ladder.backends.emulated import EmulatedBackend
from ladder.check import inputs, prove
from ladder.geometry import MAX_GRID_YZ
from ladder.model import FP32_UNIT_ROUNDOFF, Device, Rung, Shape
from ladder.oracle import normal_bound, reference

pytestmark = pytest.mark.gpu

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

RAGGED = [
    Shape.parse(text)
    for text in ("131x77x259", "257x129x65", "1000x3x777", "3x3x431", "33x17x5", "1x1x1", "5x7x0", "0x7x5", "5x0x7")
]
LARGE = Shape(m=4096, n=4096, k=4096)

each_rung = pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)


def runnable(rung: Rung, shape: Shape) -> Shape:
    """``shape`` padded to what the rung needs; skips a rung that the GPU cannot run."""
    need(rung)
    m, n, k = (-(-side // step) * step for side, step in zip((shape.m, shape.n, shape.k), rung.multiple, strict=True))
    return Shape(m=m, n=n, k=k)


@each_rung
@pytest.mark.parametrize("shape", RAGGED, ids=str)
def test_every_rung_is_proved_at_ragged_shapes(rung: Rung, shape: Shape) -> None:
    check = prove(backend(), compiled(rung), runnable(rung, shape))
    assert check.passed, check.failure
    assert check.exact_integers


@cache
def _large_integers() -> tuple[F32, F32, F32]:
    a, b = inputs(LARGE, kind="integers")
    # Sums of such integers are exact in float32, whatever the order in which numpy adds them.
    return a, b, a @ b


@cache
def _large_normal() -> tuple[F32, F32, F64, F64]:
    a, b = inputs(LARGE, kind="normal")
    return a, b, reference(a, b), normal_bound(a, b, unit_roundoff=FP32_UNIT_ROUNDOFF)


@each_rung
def test_every_rung_is_right_at_4096(rung: Rung) -> None:
    assert runnable(rung, LARGE) == LARGE
    a, b, exact = _large_integers()
    outcome = backend().run(compiled(rung), a, b)
    assert outcome.damage is None
    np.testing.assert_array_equal(outcome.c, exact)
    a, b, expected, bound = _large_normal()
    outcome = backend().run(compiled(rung), a, b)
    assert outcome.damage is None
    error = np.abs(outcome.c - expected)
    assert (error <= bound * (rung.unit_roundoff / FP32_UNIT_ROUNDOFF)).all()


@pytest.mark.parametrize("offsets", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 2, 3), (63, 33, 1)], ids=str)
@each_rung
def test_pointers_may_be_shifted_by_single_elements(rung: Rung, offsets: tuple[int, int, int]) -> None:
    shape = runnable(rung, Shape(m=131, n=77, k=67))
    a, b = inputs(shape, kind="integers")
    # A rung of aligned pointers is shifted by as many of its own steps.
    first, second, third = (offset * rung.align_bytes // 4 for offset in offsets)
    outcome = backend().run(compiled(rung), a, b, offsets=(first, second, third))
    assert outcome.damage is None
    np.testing.assert_array_equal(outcome.c, a @ b)


@each_rung
def test_more_tile_rows_than_a_grid_holds(rung: Rung) -> None:
    shape = runnable(rung, Shape(m=rung.tile[0] * MAX_GRID_YZ + 33, n=5, k=3))
    a, b = inputs(shape, kind="integers")
    outcome = backend().run(compiled(rung), a, b)
    assert outcome.damage is None
    np.testing.assert_array_equal(outcome.c, a @ b)


@each_rung
def test_ordered_rungs_give_the_emulators_bits(rung: Rung) -> None:
    """A rung that the emulator does not run gives the bits of one that it does."""
    shape = runnable(rung, Shape(m=67, n=45, k=129))
    device = backend().device
    emulated = EmulatedBackend(
        Device(
            backend="emulated",
            name=device.name,
            compute_capability=device.compute_capability,
            sm_count=device.sm_count,
            l2_bytes=device.l2_bytes,
            smem_per_sm_bytes=device.smem_per_sm_bytes,
            l1_bytes=device.l1_bytes,
        )
    )
    on_gpu = prove(backend(), compiled(rung), shape)
    assert on_gpu.passed, on_gpu.failure
    assert (on_gpu.crc32 is not None) == rung.ordered
    able = [other for other in RUNGS if other.why_not_on(emulated.device) is None and other.supports(shape) is None]
    if rung not in able and not rung.ordered:
        return
    stand_in = rung if rung in able else next(other for other in able if other.ordered)
    on_cpu = prove(emulated, compiled(stand_in), shape, repeat=False)
    assert on_cpu.passed, on_cpu.failure
    assert on_gpu.crc32 == on_cpu.crc32


@pytest.mark.parametrize("shape", ["256x256x256", "131x77x259", "131x76x259"])
def test_ordered_rungs_agree_with_one_another_bit_for_bit(shape: str) -> None:
    """At the last shape those that copy rows 16 bytes at a time too."""
    size, device = Shape.parse(shape), backend().device
    rungs = [rung for rung in RUNGS if rung.ordered and rung.why_not_on(device) is None and rung.supports(size) is None]
    crcs = {rung.name: prove(backend(), compiled(rung), size).crc32 for rung in rungs}
    assert len(set(crcs.values())) == 1, crcs
    assert None not in crcs.values()
    assert len(crcs) > 1
