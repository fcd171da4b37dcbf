"""What a GPU counts of its warps: FP32 work to the instruction, tensor instructions, and shares that make sense."""

from __future__ import annotations

from functools import cache

import pytest
from helpers.on_gpu import backend, compiled, need

from ladder.backends.emulated import EmulatedBackend
from ladder.catalog import find
from ladder.check import inputs
from ladder.counters import Profiled, ncu_status, profile_products
from ladder.model import Activity, Shape
from ladder.profiles import load_profile

pytestmark = pytest.mark.gpu

EXACT = ("naive", "coalesced", "tiled_16", "tiled_32", "tiled_64", "padded", "register_tile_1d", "register_tile",
         "vectorized", "warp_tile", "async_pipeline")  # fmt: skip
"""Rungs that compute each element with one chain of multiply-adds, and whose tiles divide the shapes here."""

TENSOR = ("tensor_tf32", "split_tensor", "split_mma")
SMALL, LARGE = Shape(m=256, n=256, k=256), Shape(m=1024, n=1024, k=1024)


@pytest.fixture(autouse=True)
def ncu() -> None:
    reason = ncu_status()
    if reason is not None:
        pytest.skip(reason)


@cache
def profiled() -> Profiled:
    device = backend().device
    able = [rung for rung in find([*EXACT, *TENSOR]) if rung.why_not_on(device) is None]
    return profile_products([(rung, shape) for rung in able for shape in (SMALL, LARGE)], cold=True)


def activity(name: str, shape: Shape) -> Activity:
    need(find([name])[0])
    return profiled().activity[find([name])[0].name, shape]


def test_everything_was_counted() -> None:
    assert profiled().lost == {}
    assert profiled().notes == ()


@pytest.mark.parametrize("shape", [SMALL, LARGE], ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_the_fp32_work_is_2mnk_where_tiles_divide_the_shape(name: str, shape: Shape) -> None:
    found = activity(name, shape)
    assert found.flop == shape.flop
    assert found.ffma == shape.flop // 2


@pytest.mark.parametrize("name", ["naive", "tiled_16", "register_tile"])
def test_the_emulator_executes_what_the_card_does_at_a_ragged_shape(name: str) -> None:
    shape = Shape(m=100, n=77, k=33)
    kernel = compiled(find([name])[0])
    emulated = EmulatedBackend(load_profile("h200").device).run(kernel, *inputs(shape), count=True).activity
    assert emulated is not None
    (counted,) = profile_products([(kernel.rung, shape)], cold=True).activity.values()
    assert counted.flop == emulated.flop


@pytest.mark.parametrize("name", TENSOR)
def test_tensor_cores_are_seen_at_work(name: str) -> None:
    found = activity(name, LARGE)
    assert found.tensor_instructions is not None
    assert found.tensor_instructions > 0


@pytest.mark.parametrize("name", EXACT)
def test_shares_make_sense(name: str) -> None:
    found = activity(name, LARGE)
    assert found.occupancy is not None
    assert found.busy is not None
    assert found.issue_active is not None
    assert 0.01 < found.occupancy <= 1
    assert 0.1 < found.busy <= 1
    assert 0.01 < found.issue_active <= 1
    resources = backend().resources(compiled(find([name])[0]))
    assert resources.occupancy is not None
    assert found.occupancy < 1.02 * resources.occupancy
    # Every resident warp-cycle either issues or waits for something.
    assert 0.5 < sum(found.stalls.values()) <= 1.05
    assert found.stalls["other"] < 0.35
