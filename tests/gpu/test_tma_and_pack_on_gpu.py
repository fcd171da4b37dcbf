"""Tensor maps, packed operands and aligned pointers on a real GPU."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from helpers.cu import changed, write
from helpers.extras import PACKED, PACKED_PATH, TMA, TMA_PATH
from helpers.on_gpu import backend
from numpy.typing import NDArray

from ladder.backends.cuda import multiply_device
from ladder.backends.launches import launchers
from ladder.catalog import find, parse_file
from ladder.check import inputs, prove, search
from ladder.climb import climb
from ladder.counters import count_with_ncu, ncu_status
from ladder.errors import InputError
from ladder.geometry import MAX_GRID_YZ
from ladder.model import Roofs, Rung, Shape
from ladder.nvrtc import Compiled, compile_rung

pytestmark = pytest.mark.gpu

F32 = NDArray[np.float32]

(TMA_RUNG,) = parse_file(TMA_PATH)
(PACKED_RUNG,) = parse_file(PACKED_PATH)
BOTH = pytest.mark.parametrize("rung", [TMA_RUNG, PACKED_RUNG], ids=lambda rung: rung.name)

SHAPES = [
    Shape.parse(text) for text in ("64x64x64", "35x80x20", "131x76x260", "1x4x4", "3x4x432", "5x8x0", "0x8x4", "5x0x8")
]


@cache
def compiled(rung_name: str) -> Compiled:
    rung = next(rung for rung in (TMA_RUNG, PACKED_RUNG, *find(["tiled_16"])) if rung.name == rung_name)
    return compile_rung(rung, arch=rung.arch_for(backend().device))


@pytest.fixture(autouse=True)
def able(request: pytest.FixtureRequest) -> None:
    needs_tma = "rung" in request.fixturenames and request.getfixturevalue("rung").tma
    reason = TMA_RUNG.why_not_on(backend().device) if needs_tma or "map" in request.node.name else None
    if reason is not None:
        pytest.skip(f"tma: {reason}")
    reason = ncu_status() if "counters" in request.node.name else None
    if reason is not None:
        pytest.skip(reason)


@BOTH
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_is_proved_and_gives_the_bits_of_a_plain_rung(rung: Rung, shape: Shape) -> None:
    check = prove(backend(), compiled(rung.name), shape)
    assert check.passed, check.failure
    assert check.crc32 == prove(backend(), compiled("tiled_16"), shape).crc32


@BOTH
def test_no_shape_is_found_that_breaks_it(rung: Rung) -> None:
    assert search(backend(), compiled(rung.name), max_examples=40) is None


@BOTH
def test_parts_of_a_tall_product_each_have_their_own(rung: Rung) -> None:
    shape = Shape(m=16 * MAX_GRID_YZ + 33, n=8, k=12)
    a, b = inputs(shape, kind="integers")
    outcome = backend().run(compiled(rung.name), a, b)
    assert outcome.damage is None
    np.testing.assert_array_equal(outcome.c, a @ b)


@BOTH
def test_it_is_timed(rung: Rung) -> None:
    a, b = inputs(Shape(m=512, n=512, k=512))
    timing = backend().time(compiled(rung.name), a, b)
    assert timing is not None
    assert 1e-6 < timing.median < 1e-1


@BOTH
def test_it_climbs(rung: Rung) -> None:
    roofs = Roofs(bytes_per_s={"dram": 4e12}, flop_per_s={"fp32": 6e13})
    row = climb(rung, Shape(m=64, n=64, k=64), backend(), roofs)
    assert row.error is None
    assert row.check is not None
    assert row.check.passed
    assert row.time is not None


# Tensor maps ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bk", "swizzle"), [(16, 0), (8, 32), (16, 64), (32, 128)])
@pytest.mark.parametrize("shape", ["64x64x64", "35x80x20", "17x36x100"])
def test_every_swizzle_of_a_map_is_the_one_that_is_declared(tmp_path: Any, bk: int, swizzle: int, shape: str) -> None:
    text = changed(
        TMA,
        params=f"{{ BM = 16, BN = 32, BK = {bk}, SWIZZLE = {swizzle}, NUM_THREADS = 256 }}",
        tma=f'[{{ of = "A", box = ["BM", "BK"], swizzle = {swizzle} }}, {{ of = "B", box = ["BK", "BN"] }}]',
    )
    (rung,) = parse_file(write(tmp_path / "swizzled.cu", text))
    check = prove(backend(), compile_rung(rung, arch=rung.arch_for(backend().device)), Shape.parse(shape))
    assert check.passed, check.failure


def test_a_map_is_the_same_for_one_architecture_alone(tmp_path: Any) -> None:
    major, minor = backend().device.compute_capability
    (rung,) = parse_file(write(tmp_path / "alone.cu", changed(TMA, min_cc=None, arch=f'"sm_{major}{minor}a"')))
    assert rung.why_not_on(backend().device) is None
    kernel = compile_rung(rung, arch=rung.arch_for(backend().device))
    assert kernel.arch == f"sm_{major}{minor}a"
    assert prove(backend(), kernel, Shape(m=35, n=80, k=20)).passed


@pytest.mark.parametrize("offsets", [(4, 0, 0), (0, 8, 4), (12, 4, 60)], ids=str)
def test_maps_may_start_at_any_multiple_of_16_bytes(offsets: tuple[int, int, int]) -> None:
    a, b = inputs(Shape(m=35, n=80, k=20), kind="integers")
    outcome = backend().run(compiled("tma_tile"), a, b, offsets=offsets)
    assert outcome.damage is None
    np.testing.assert_array_equal(outcome.c, a @ b)


def test_maps_of_misaligned_operands_are_refused() -> None:
    a, b = inputs(Shape(m=35, n=80, k=20))
    with pytest.raises(InputError, match="B starts 4 bytes past one"):
        backend().run(compiled("tma_tile"), a, b, offsets=(0, 1, 0))


# Packing --------------------------------------------------------------------------------------------------------------


def test_a_write_past_the_workspace_is_found(tmp_path: Any) -> None:
    text = PACKED.replace("tile[BK * BN + threadIdx.x] =", "tile[2 * BK * BN + threadIdx.x] =")
    assert text != PACKED
    (rung,) = parse_file(write(tmp_path / "stray.cu", text))
    kernel = compile_rung(rung, arch=rung.arch_for(backend().device))
    damage = backend().run(kernel, *inputs(Shape(m=4, n=4, k=4))).damage
    assert str(damage).startswith("wrote 128 words past the end of packed B, the first 0 bytes after it")


def test_packing_is_part_of_the_time() -> None:
    gpu, kernel, shape = backend().gpu, compiled("packed_tile"), Shape(m=16, n=4096, k=4096)
    a, b = inputs(shape)
    left, right, out = OnGpu(a), OnGpu(b), OnGpu(np.zeros((shape.m, shape.n), np.float32))
    pointers = (int(left.buffer.handle), int(right.buffer.handle), int(out.buffer.handle))
    alone = []
    for launch in launchers(gpu, kernel, shape, pointers):
        launch()
        alone.append(min(gpu.elapsed_s(launch, launches=1) for _ in range(20)))
    assert len(alone) == 2
    whole = backend().time(kernel, a, b)
    assert whole is not None
    # Each kernel finds in L2 what the other left there, and its clock may differ.
    assert whole.median == pytest.approx(sum(alone), rel=0.4)
    assert whole.median > 1.05 * max(alone)


def test_packing_is_part_of_the_counters() -> None:
    shape = Shape(m=16, n=1024, k=1024)
    (traffic,) = count_with_ncu([str(PACKED_PATH)], [shape], cold=True).values()
    operand, result = 4 * shape.k * shape.n, 4 * shape.m * shape.n
    # B is read once to be packed; both planes are written, and read by the one row of threadblocks.
    assert traffic.levels["l2"].bytes >= 5 * operand + result
    # From memory comes B alone: both planes wait in L2.
    assert traffic.levels["dram"].bytes < 1.5 * operand
    requests = shape.k * shape.n * 3 // 32 + shape.m * shape.n * (3 * shape.k + 1) // 32
    assert traffic.global_requests == requests


# Arrays on the GPU ----------------------------------------------------------------------------------------------------


class OnGpu:
    """A matrix on the GPU, ``shift`` elements from where its memory begins."""

    def __init__(self, values: F32, shift: int = 0) -> None:
        gpu = backend().gpu
        self.shape = values.shape
        self.start = 4 * shift
        self.buffer = gpu.allocate(values.nbytes + self.start, "a matrix")
        gpu.upload(self.buffer, self.start, values)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        where = (int(self.buffer.handle) + self.start, False)
        return {"shape": self.shape, "typestr": "<f4", "data": where, "version": 3, "strides": None}

    def values(self) -> F32:
        found = np.empty(self.shape, np.float32)
        backend().gpu.download(self.buffer, self.start, found)
        return found


@BOTH
def test_arrays_on_the_gpu_are_multiplied_where_they_are(rung: Rung) -> None:
    for shape in (Shape(m=35, n=80, k=20), Shape(m=64, n=256, k=128), Shape(m=5, n=8, k=4)):
        a, b = inputs(shape, kind="integers")
        out = OnGpu(np.full((shape.m, shape.n), np.nan, np.float32))
        multiply_device(rung, OnGpu(a), OnGpu(b), out=out)
        np.testing.assert_array_equal(out.values(), a @ b)


def test_arrays_that_no_map_can_describe_are_refused() -> None:
    a, b = inputs(Shape(m=8, n=8, k=8))
    with pytest.raises(InputError, match="A starts 8 bytes past one; give a copy of it"):
        multiply_device(TMA_RUNG, OnGpu(a, shift=2), OnGpu(b), out=OnGpu(np.zeros((8, 8), np.float32)))
