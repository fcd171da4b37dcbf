"""Arrays on a GPU: what is checked before a kernel may touch them, against a double of ``cuda.core``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers.extras import PACKED_PATH
from helpers.fake_cuda import FakeCuda, installed

from ladder.backends import device_arrays
from ladder.backends.cuda import multiply_device
from ladder.catalog import find, parse_file
from ladder.errors import DriverMissingError, InputError, ShapeError
from ladder.model import Device, Rung, Shape

TILED, PRODUCT = find(["tiled_16"])[0], find(["tile_product_16"])[0]


class DeviceArray:
    """Host memory that says it lies on GPU ``device_id``."""

    def __init__(self, values: np.ndarray, device_id: int = 0) -> None:
        self.values, self.device_id = values, device_id


class Tensor(DeviceArray):
    """As torch's."""

    def new_empty(self, size: tuple[int, int]) -> Tensor:
        return Tensor(np.full(size, np.nan, np.float32))


def view(name: str, array: Any, stream: int) -> Any:
    values = array.values
    return SimpleNamespace(
        ptr=values.ctypes.data,
        shape=values.shape,
        strides=None if values.flags.c_contiguous else tuple(s // values.itemsize for s in values.strides),
        dtype=values.dtype,
        device_id=array.device_id,
        readonly=not values.flags.writeable,
    )


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    monkeypatch.setattr(device_arrays, "_view", view)
    monkeypatch.setattr(device_arrays, "find_gpu", lambda: None)
    device_arrays._gpu.cache_clear()
    with installed() as fake:
        yield fake
    device_arrays._gpu.cache_clear()


def operands(m: int = 7, n: int = 5, k: int = 9) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(1)
    return Tensor(rng.random((m, k), dtype=np.float32)), Tensor(rng.random((k, n), dtype=np.float32))


@pytest.mark.parametrize("sizes", [(7, 5, 9), (1, 1, 1), (4, 4, 0), (0, 3, 4), (3, 0, 4)], ids=str)
def test_a_product_lands_in_out_or_in_a_new_array(world: FakeCuda, sizes: tuple[int, int, int]) -> None:
    a, b = operands(*sizes)
    out = Tensor(np.full((sizes[0], sizes[1]), np.nan, np.float32))
    assert multiply_device(TILED, a, b, out=out) is out
    np.testing.assert_array_equal(out.values, a.values @ b.values)
    np.testing.assert_array_equal(multiply_device(TILED, a, b).values, a.values @ b.values)
    assert world.live == []


def test_a_rung_that_adds_into_c_finds_zeros_there(world: FakeCuda) -> None:
    def add(launch: Any) -> None:
        a, b, c = launch.operands()
        c += a @ b

    world.kernels["tile_product_16"] = add
    a, b = operands()
    np.testing.assert_array_equal(multiply_device(PRODUCT, a, b).values, a.values @ b.values)
    empty_sum = operands(4, 4, 0)
    np.testing.assert_array_equal(multiply_device(PRODUCT, *empty_sum).values, np.zeros((4, 4), np.float32))


def test_a_function_gives_the_rung_for_shape_device_and_addresses(world: FakeCuda) -> None:
    asked: list[tuple[Shape, Device, int]] = []

    def choose(shape: Shape, device: Device, address_bytes: int) -> Rung:
        asked.append((shape, device, address_bytes))
        return TILED

    memory = np.zeros(4096, np.float32)
    start = -memory.ctypes.data % 256 // 4
    for by, address_bytes in ((0, 256), (1, 4), (6, 8), (12, 16), (32, 128), (64, 256)):
        a = Tensor(memory[start : start + 63].reshape(7, 9))
        b = Tensor(memory[start + 128 + by : start + 128 + by + 45].reshape(9, 5))
        out = Tensor(memory[start + 512 : start + 547].reshape(7, 5))
        multiply_device(choose, a, b, out=out)
        assert asked.pop() == (Shape(m=7, n=5, k=9), device_arrays._gpu(0).device, address_bytes)
    assert len(world.rung_launches) == 6


def changed(array: Tensor, values: np.ndarray | None = None, device_id: int = 0) -> Tensor:
    return Tensor(array.values if values is None else values, device_id)


A, B = operands()
OUT = Tensor(np.empty((7, 5), np.float32))
FROZEN = np.empty((7, 5), np.float32)
FROZEN.flags.writeable = False


@pytest.mark.parametrize(
    ("a", "b", "out", "words"),
    [
        (changed(A, A.values.astype(np.float64)), B, OUT, "a is float64"),
        (A, changed(B, B.values.astype(">f4")), OUT, "b is >f4"),
        (changed(A, np.asfortranarray(A.values)), B, OUT, "a has strides"),
        (changed(A, np.zeros((7, 18), np.float32)[:, ::2]), B, OUT, "a has strides"),
        (changed(A, A.values[0]), B, OUT, "a has 1 dimensions"),
        (A, changed(B, device_id=1), OUT, "b is on GPU 1 and a on GPU 0"),
        (A, B, changed(OUT, np.empty((5, 7), np.float32)), "out is (5, 7) and C is (7, 5)"),
        (A, B, changed(OUT, FROZEN), "out is read-only"),
        (A, B, changed(OUT, A.values.reshape(-1)[:35].reshape(7, 5)), "out overlaps a"),
        (A, B, changed(OUT, B.values.reshape(-1)[10:45].reshape(7, 5)), "out overlaps b"),
        (DeviceArray(A.values), B, None, "no new array can be made for DeviceArray"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(world: FakeCuda, a: Any, b: Any, out: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        multiply_device(TILED, a, b, out=out)
    assert words in str(caught.value)
    assert world.rung_launches == []


def test_shapes_that_do_not_fit_are_refused(world: FakeCuda) -> None:
    with pytest.raises(ShapeError, match="do not multiply"):
        multiply_device(TILED, A, A)
    with pytest.raises(ShapeError, match="N % 4"):
        multiply_device(replace(TILED, multiple=(1, 4, 1)), A, B)
    with pytest.raises(ShapeError, match=r"needs compute capability 10\.0; Fake GPU has 9\.0"):
        multiply_device(replace(TILED, min_cc=100), A, B)


def test_arrays_that_are_not_as_aligned_as_the_rung_needs_are_refused(world: FakeCuda) -> None:
    room = np.zeros(200, np.float32)
    start = -room.ctypes.data % 256 // 4
    aligned, shifted = (Tensor(room[i : i + 36].reshape(6, 6)) for i in (start, start + 41))
    rung = replace(TILED, align_bytes=16)
    with pytest.raises(InputError, match="multiples of 16 bytes and B starts 4 bytes past one; give a copy of it"):
        multiply_device(rung, aligned, shifted)
    with pytest.raises(InputError, match="and C starts 4 bytes past one"):
        multiply_device(rung, aligned, aligned, out=shifted)
    assert world.rung_launches == []


def test_a_packed_operand_goes_to_the_gpus_own_workspace(world: FakeCuda) -> None:
    (rung,) = parse_file(PACKED_PATH)
    launched: list[tuple[int, tuple[int, ...]]] = []
    world.kernels["packed_tile"] = lambda launch: launched.append((len(launch.arguments), launch.config.grid))
    for a, b in (operands(), operands(20, 20, 20)):
        multiply_device(rung, a, b)
    assert launched == [(4, (1, 2, 1)), (7, (1, 1, 1)), (4, (2, 3, 1)), (7, (2, 2, 1))]
    assert len(world.live) == 1


@pytest.mark.parametrize(
    ("shape", "strides", "right"),
    [
        ((3, 4), None, True), ((3, 4), (4, 1), True), ((3, 4), (8, 1), False), ((3, 4), (1, 3), False),
        ((1, 4), (99, 1), True), ((3, 1), (1, 99), True), ((3, 1), (2, 1), False), ((0, 4), (7, 7), True),
    ],
)  # fmt: skip
def test_row_major_is_judged_by_the_strides_that_matter(
    shape: tuple[int, int], strides: tuple[int, int] | None, right: bool
) -> None:
    assert device_arrays._row_major(shape, strides) is right


def test_cupy_makes_a_new_array_on_the_operands_device(world: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    library = ModuleType("cupy")
    library.empty = lambda size, dtype: DeviceArray(np.empty(size, dtype))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", library)
    kind = type("ndarray", (DeviceArray,), {"__module__": "cupy._core", "device": nullcontext()})
    a = kind(A.values)
    np.testing.assert_array_equal(multiply_device(TILED, a, B).values, A.values @ B.values)


def test_without_a_gpu_the_fix_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_arrays, "find_gpu", lambda: "no driver; install it")
    with pytest.raises(DriverMissingError, match="install it"):
        multiply_device(TILED, A, B)


def test_what_gives_no_view_is_refused() -> None:
    with pytest.raises(InputError, match="a \\(object\\) gives no view"):
        device_arrays._view("a", object(), -1)
    with pytest.raises(InputError, match="a is ndarray on the CPU"):
        device_arrays._view("a", np.zeros((2, 2), np.float32), -1)
