"""How a GPU is timed: in graphs and with launches, warm and cold, again, and with the card watched."""

from __future__ import annotations

import time

import numpy as np
import pytest
from helpers.on_gpu import RUNGS, backend, compiled, need

from ladder.backends import cuda
from ladder.backends.graphs import captured, kernels_of
from ladder.backends.launches import launchers
from ladder.backends.nvml import Nvml, sensor_of
from ladder.catalog import find
from ladder.check import inputs
from ladder.climb import climb
from ladder.model import STEADY_CLOCK, Roofs, Rung, Shape
from ladder.nvrtc import Compiled
from ladder.stats import StopRule

pytestmark = pytest.mark.gpu

SHAPE = Shape(m=256, n=384, k=512)
each_rung = pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
QUICK = StopRule(min_samples=20, min_time_s=0.05, max_time_s=0.2)


def square(n: int) -> Shape:
    return Shape(m=n, n=n, k=n)


def product_in_a_graph(kernel: Compiled, shape: Shape, products: int) -> np.ndarray:
    """C after ``products`` products in one graph that was launched once; the direct one comes first, to load all."""
    gpu = backend().gpu
    a, b = inputs(shape, kind="normal")
    c = np.zeros((shape.m, shape.n), np.float32)
    buffers = [gpu.allocate(array.nbytes, "a test") for array in (a, b, c)]
    for buffer, array in zip(buffers, (a, b, c), strict=True):
        gpu.upload(buffer, 0, array)
    sequence = launchers(gpu, kernel, shape, tuple(int(buffer.handle) for buffer in buffers))

    def several() -> None:
        for _ in range(products):
            for launch in sequence:
                launch()

    several()
    graph = captured(gpu, several)
    assert len(graph.kernels) == products * len(sequence)
    gpu.upload(buffers[2], 0, c)
    graph.launch()
    gpu.download(buffers[2], 0, c)
    graph.close()
    for buffer in buffers:
        buffer.close()
    return c


@each_rung
def test_a_product_in_a_graph_is_the_product(rung: Rung) -> None:
    need(rung)
    if rung.supports(SHAPE) is not None:
        pytest.skip(f"{rung.name} does not support {SHAPE}")
    kernel = compiled(rung)
    # What adds into C would add again.
    products = 1 if rung.c_init == "zero" else 8
    c = product_in_a_graph(kernel, SHAPE, products)
    expected = backend().run(kernel, *inputs(SHAPE, kind="normal")).c
    if rung.ordered:
        np.testing.assert_array_equal(c.view(np.uint32), expected.view(np.uint32))
    else:
        np.testing.assert_allclose(c, expected, rtol=1e-3, atol=1e-3)


@each_rung
def test_a_graph_names_the_kernels_of_the_rung(rung: Rung) -> None:
    need(rung)
    kernel = compiled(rung)
    with backend().prepared(kernel, *inputs(SHAPE)) as (enqueue, launches):
        enqueue()
        names = kernels_of(backend().gpu, enqueue)
    assert len(names) == launches
    assert set(names) <= {kernel.lowered_name, kernel.pack_lowered_name}
    assert names[-1] == kernel.lowered_name


def test_short_products_are_timed_in_a_graph_and_longer_ones_are_not() -> None:
    (rung,) = find(["register_tile"])
    short = backend().time(compiled(rung), *inputs(square(256), kind="uniform"), rule=QUICK)
    longer = backend().time(compiled(rung), *inputs(square(2048), kind="uniform"), rule=QUICK)
    assert short is not None
    assert longer is not None
    assert (short.method, longer.method) == ("graph", "launches")
    assert 3 <= len(short.kept) <= 60


@pytest.mark.parametrize("name", ["tiled_16", "register_tile", "slice_k_32", "split_tensor_64"])
def test_a_graph_is_no_slower_than_launches(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (rung,) = find([name])
    need(rung)
    operands = inputs(square(256), kind="uniform")
    graph = backend().time(compiled(rung), *operands, rule=QUICK)
    monkeypatch.setattr(cuda, "SHORT_S", 0.0)
    launches = backend().time(compiled(rung), *operands, rule=QUICK)
    assert graph is not None
    assert launches is not None
    assert (graph.method, launches.method) == ("graph", "launches")
    assert graph.median < 1.03 * launches.median


@pytest.mark.parametrize("n", [2048, 4096])
@pytest.mark.parametrize("name", ["coalesced", "register_tile", "tma_pipeline", "split_tensor_256"])
def test_a_time_repeats_within_two_per_cent(name: str, n: int) -> None:
    """From a warm card and from one that has been idle."""
    (rung,) = find([name])
    need(rung)
    operands = inputs(square(n), kind="uniform")
    first = backend().time(compiled(rung), *operands)
    time.sleep(1.5)
    second = backend().time(compiled(rung), *operands)
    assert first is not None
    assert second is not None
    assert second.median == pytest.approx(first.median, rel=0.02)


def test_cold_is_slower_than_warm_and_alone() -> None:
    (rung,) = find(["register_tile"])
    operands = inputs(square(512), kind="uniform")
    warm, cold = (backend().time(compiled(rung), *operands, cold=flush) for flush in (False, True))
    assert warm is not None
    assert cold is not None
    assert cold.method == "launches"
    assert cold.median > 1.05 * warm.median


def test_a_row_has_both_times_and_what_the_card_did() -> None:
    (rung,) = find(["register_tile"])
    roofs = Roofs(bytes_per_s={"dram": 4e12}, flop_per_s={"fp32": 6e13})
    row = climb(rung, square(1024), backend(), roofs, prove=False)
    assert row.time is not None
    assert row.cold_over_warm is not None
    assert 0.9 < row.cold_over_warm < 3
    seen = row.time.watched
    assert seen is not None
    assert seen.samples >= 5
    assert seen.sm_clock_hz is not None
    assert 5e8 < seen.sm_clock_hz < 5e9
    assert row.sm_clock_hz == seen.sm_clock_hz
    assert seen.power_w is None or 10 < seen.power_w < 2000
    steady = seen.clock_spread is None or seen.clock_spread <= STEADY_CLOCK
    assert (row.remark is None) == (steady and not seen.limits and not row.time.late)


def test_nvml_answers_in_well_under_a_poll() -> None:
    sensor = sensor_of(backend().gpu.pci_bus_id)
    if not isinstance(sensor, Nvml):
        pytest.skip("NVML cannot be loaded here")
    sensor.read()
    begun = time.perf_counter()
    for _ in range(20):
        sample = sensor.read()
    assert (time.perf_counter() - begun) / 20 < 0.005
    assert sample.sm_clock_hz is not None
