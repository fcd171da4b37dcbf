"""Hardware counters against the laws and the emulator, and measured roofs against what hardware can do."""

from __future__ import annotations

from functools import cache

import pytest
from helpers.on_gpu import compiled

from ladder.backends.emulated import EmulatedBackend
from ladder.catalog import find
from ladder.check import inputs
from ladder.counters import count_with_ncu, ncu_status
from ladder.laws import predict
from ladder.model import Shape, Traffic
from ladder.profiles import load_profile

pytestmark = pytest.mark.gpu

NAMES = ("tiled_16", "tiled_32", "tiled_conflict", "padded", "register_tile", "tile_product_32")
SMALL = Shape(m=256, n=256, k=256)


@cache
def counted() -> dict[tuple[str, Shape], Traffic]:
    return count_with_ncu(NAMES, [SMALL], cold=True)


@pytest.fixture(autouse=True)
def ncu(request: pytest.FixtureRequest) -> None:
    reason = ncu_status() if "counter" in request.node.name else None
    if reason is not None:
        pytest.skip(reason)


@pytest.mark.parametrize("name", NAMES)
def test_counters_see_what_the_law_says_at_l1(name: str) -> None:
    law = predict(find([name])[0], SMALL)
    assert law is not None
    assert counted()[name, SMALL].intensity(SMALL.flop)["l1"] == pytest.approx(law.predicted["l1"], rel=0.005)


@pytest.mark.parametrize("name", NAMES)
def test_counters_see_what_the_emulator_counts(name: str) -> None:
    kernel = compiled(find([name])[0])
    emulated = EmulatedBackend(load_profile("h200").device).run(kernel, *inputs(SMALL), count=True).traffic
    assert emulated is not None
    real = counted()[name, SMALL]
    assert real.levels["l1"].bytes == pytest.approx(emulated.levels["l1"].bytes, rel=0.001)
    assert real.levels["shared"].bytes == pytest.approx(emulated.levels["shared"].bytes, rel=0.02)
    assert real.requests_st == pytest.approx(emulated.requests_st, rel=0.01)


def test_counters_see_compulsory_dram_traffic_cold_and_less_warm() -> None:
    cold = counted()["tiled_32", SMALL].levels["dram"].bytes
    warm = count_with_ncu(["tiled_32"], [SMALL], cold=False)["tiled_32", SMALL].levels["dram"].bytes
    operands = 2 * 4 * 256 * 256
    assert operands * 0.95 < cold < operands * 3
    assert warm < cold / 2
