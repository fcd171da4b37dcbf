"""``ladder.matmul`` on a real GPU: what it picks, for arrays of numpy, torch and cupy, and that it is right."""

from __future__ import annotations

import logging
from typing import Any, get_args

import numpy as np
import pytest
from helpers.on_gpu import backend

import ladder
from ladder.catalog import find, load_catalog
from ladder.check import inputs
from ladder.errors import ShapeError
from ladder.model import Precision, Rung, Shape
from ladder.oracle import compare

pytestmark = pytest.mark.gpu

SHAPES = [
    Shape.parse(text)
    for text in (
        "512x512x512",
        "1024x1024x1024",
        "2048x512x4096",
        "131x77x259",
        "1000x3x777",
        "1x1x1",
        "5x7x0",
        "0x7x5",
    )
]

each_precision = pytest.mark.parametrize("precision", get_args(Precision))
each_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def able(shape: Shape, precision: Precision) -> list[Rung]:
    """The rungs of that precision that this GPU and the shape allow."""
    of_it = [rung for rung in load_catalog() if rung.kind == "rung" and rung.precision == precision]
    return [rung for rung in of_it if rung.why_not_on(backend().device) is None and rung.supports(shape) is None]


@pytest.fixture(params=["numpy", "torch", "cupy"])
def library(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(request.param)


def placed(library: Any, array: np.ndarray) -> Any:
    if library is np:
        return array
    return library.from_numpy(array).cuda() if library.__name__ == "torch" else library.asarray(array)


def host(array: Any) -> np.ndarray:
    if isinstance(array, np.ndarray):
        return array
    return array.cpu().numpy() if hasattr(array, "cpu") else array.get()


@pytest.mark.filterwarnings("ignore")
@each_precision
@each_shape
def test_the_pick_is_right_and_told(
    shape: Shape, precision: Precision, library: Any, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = inputs(shape, kind="normal")
    if not able(shape, precision):
        with pytest.raises(ShapeError, match=f"no {precision} rung multiplies"):
            ladder.matmul(placed(library, a), placed(library, b), precision=precision)
        return
    with caplog.at_level(logging.INFO, logger="ladder"):
        c = host(ladder.matmul(placed(library, a), placed(library, b), precision=precision))
    choice = ladder.choose(shape, precision=precision)
    assert choice.rung.precision == precision
    (record,) = caplog.records
    assert record.getMessage() == f"matmul {shape} on {backend().device.name}: {choice}"
    verdict = compare(c, a, b, unit_roundoff=choice.rung.unit_roundoff, normal=True)
    assert verdict.passed, f"{choice}: {verdict}"


@pytest.mark.filterwarnings("ignore")
@each_precision
def test_integers_are_exact_in_every_precision(precision: Precision, library: Any) -> None:
    shape = Shape(m=512, n=640, k=768)
    a, b = inputs(shape, kind="integers")
    if able(shape, precision):
        out = placed(library, np.full((512, 640), np.nan, np.float32))
        left, right = placed(library, a), placed(library, b)
        assert ladder.matmul(left, right, precision=precision, out=out) is out
        np.testing.assert_array_equal(host(out), a @ b)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("by", [1, 2, 4, 8])
@each_precision
def test_arrays_at_any_address_are_multiplied_by_a_rung_that_can(precision: Precision, by: int) -> None:
    """Views that begin ``by`` elements past an allocation: a rung that copies 16 bytes at a time may not take them."""
    torch = pytest.importorskip("torch")
    shape = Shape(m=256, n=256, k=256)
    usable = [rung for rung in able(shape, precision) if 4 * by % rung.align_bytes == 0]
    a, b = inputs(shape, kind="integers")
    left, right = (torch.empty(operand.size + by, device="cuda")[by:].view(operand.shape) for operand in (a, b))
    left.copy_(torch.from_numpy(a))
    right.copy_(torch.from_numpy(b))
    if usable:
        np.testing.assert_array_equal(host(ladder.matmul(left, right, precision=precision)), a @ b)
    else:
        with pytest.raises(ShapeError, match=f"no {precision} rung multiplies"):
            ladder.matmul(left, right, precision=precision)


def test_the_pick_is_no_slower_than_any_core_rung() -> None:
    """At a recorded shape of a recorded card; the recorded order has to hold, give or take a tenth."""
    shape = Shape(m=2048, n=2048, k=2048)
    a, b = inputs(shape, kind="uniform")
    choice = ladder.choose(shape)
    if f"recorded on {backend().device.name} at {shape} " not in choice.reason:
        pytest.skip(f"no record of {backend().device.name} at {shape}: {choice}")
    from ladder.nvrtc import compile_rung  # noqa: PLC0415 -- after the skip

    rungs = {rung.name: rung for rung in find(["tiled_64", "register_tile_1d", "register_tile"])} | {
        "pick": choice.rung
    }
    kernels = {name: compile_rung(r, arch=r.arch_for(backend().device)) for name, r in rungs.items()}
    seconds = {name: backend().time(kernel, a, b).median for name, kernel in kernels.items()}
    assert seconds.pop("pick") <= 1.1 * min(seconds.values()), choice
