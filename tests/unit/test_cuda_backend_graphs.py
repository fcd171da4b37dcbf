"""Short products in a CUDA graph: when, what is in it, what is said when it cannot be captured."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers.fake_cuda import FakeCuda, installed
from numpy.typing import NDArray

from ladder.backends import cuda, nvml, timing
from ladder.backends.cuda import CudaBackend
from ladder.backends.graphs import captured, kernels_of
from ladder.backends.nvml import Sample
from ladder.backends.timing import MIN_SAMPLE_S
from ladder.errors import BackendError
from ladder.geometry import MAX_GRID_YZ
from ladder.model import Resources, Rung, Watched
from ladder.nvrtc import Compiled
from ladder.stats import StopRule

F32 = NDArray[np.float32]
QUICK = StopRule(min_samples=3, min_time_s=0.0, max_time_s=0.1)
SHORT_S, GAP_S = 2e-5, 1e-5


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    monkeypatch.setattr(timing, "WARM_S", 0.0)
    monkeypatch.setattr(timing, "MAX_WARM_S", 0.0)
    with installed(launch_s=SHORT_S, gap_s=GAP_S) as fake:
        yield fake
    gc.collect()


@pytest.fixture
def backend(world: FakeCuda) -> CudaBackend:
    return CudaBackend()


def kernel(**changes: object) -> Compiled:
    rung = Rung(
        name="tiled", number=1, kind="rung", title="Tiled", kernel="tiled", params={}, tile=(16, 16),
        block=(16, 16, 1), path=Path("tiled.cu"), source="", **changes,
    )  # fmt: skip
    return Compiled(
        rung=rung, arch="sm_90", ptx="", cubin=b"\x7fELF", lowered_name="_Ztiled", log="", nvrtc_version="13.0",
        resources=Resources(registers=32, smem_bytes=1024, spill_bytes=0), cached=False,
    )  # fmt: skip


def operands(m: int = 5, n: int = 6, k: int = 7) -> tuple[F32, F32]:
    rng = np.random.default_rng(1)
    return rng.random((m, k), dtype=np.float32), rng.random((k, n), dtype=np.float32)


def test_a_short_product_is_timed_in_a_graph_without_the_gaps(backend: CudaBackend, world: FakeCuda) -> None:
    found = backend.time(kernel(), *operands(), rule=QUICK)
    assert found is not None
    assert found.method == "graph"
    assert found.median == pytest.approx(SHORT_S)
    gc.collect()
    assert world.graphs == []
    assert world.live == []


def test_a_graph_holds_as_many_products_as_make_a_sample(backend: CudaBackend, world: FakeCuda) -> None:
    with backend.prepared(kernel(), *operands()) as (enqueue, launches):
        sample = backend.sampler(enqueue, launches)
        (graph,) = world.graphs
        assert len(graph) * (SHORT_S + GAP_S) == pytest.approx(MIN_SAMPLE_S, rel=0.05)
        before = len(world.rung_launches)
        sample()
        assert len(world.rung_launches) - before == len(graph)


def test_a_product_of_several_launches_is_captured_whole(backend: CudaBackend) -> None:
    found = backend.time(kernel(), *operands(16 * MAX_GRID_YZ + 1, 1, 1), rule=QUICK)
    assert found is not None
    assert found.method == "graph"
    assert found.median == pytest.approx(2 * SHORT_S)


def test_a_longer_product_is_launched(backend: CudaBackend, world: FakeCuda) -> None:
    world.launch_s = 1e-3
    found = backend.time(kernel(), *operands(), rule=QUICK)
    assert found is not None
    assert found.method == "launches"
    assert world.graphs == []


def test_what_cannot_be_captured_is_launched_and_said(backend: CudaBackend, world: FakeCuda) -> None:
    world.uncapturable = True
    found = backend.time(kernel(), *operands(), rule=QUICK)
    assert found is not None
    assert found.method == "launches"
    # The gap after the last product is the stream's own.
    assert found.median == pytest.approx(SHORT_S + GAP_S)


def test_a_cold_product_is_launched_alone(backend: CudaBackend, world: FakeCuda) -> None:
    found = backend.time(kernel(), *operands(), cold=True, rule=QUICK)
    assert found is not None
    assert found.method == "launches"
    assert world.graphs == []


def test_nothing_runs_while_it_is_captured_and_the_product_is_right(backend: CudaBackend, world: FakeCuda) -> None:
    a, b = operands()
    out = np.zeros((5, 6), np.float32)
    products: list[F32] = []
    world.kernels["tiled"] = lambda launch: products.append(launch.operands()[0] @ launch.operands()[1])
    with backend.prepared(kernel(), a, b) as (enqueue, _):
        graph = captured(backend.gpu, enqueue)
        assert products == []
        graph.launch()
        (out,) = products
        graph.close()
        graph.close()
    np.testing.assert_array_equal(out, a @ b)
    assert world.graphs == []


def test_the_kernels_of_a_graph_are_named(backend: CudaBackend) -> None:
    with backend.prepared(kernel(), *operands(16 * MAX_GRID_YZ + 1, 1, 1)) as (enqueue, _):
        assert kernels_of(backend.gpu, enqueue) == ("_Ztiled", "_Ztiled")


def test_a_capture_that_breaks_off_is_ended_and_told(backend: CudaBackend, world: FakeCuda) -> None:
    def broken() -> None:
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    with pytest.raises(BackendError, match=r"capturing launches .* on Fake GPU: operation not permitted when stream"):
        captured(backend.gpu, broken)
    assert world.capturing is None
    world.uncapturable = True
    with pytest.raises(BackendError, match="CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"):
        captured(backend.gpu, lambda: None)


def test_a_graph_that_is_not_launched_is_told(backend: CudaBackend, world: FakeCuda) -> None:
    with backend.prepared(kernel(), *operands()) as (enqueue, _):
        graph = captured(backend.gpu, enqueue)
        world.fault = "gone"
        with pytest.raises(BackendError, match="launching a CUDA graph on Fake GPU: CUDA_ERROR_LAUNCH_FAILED"):
            graph.launch()
        world.fault = None


def test_the_card_is_watched_while_it_is_timed(backend: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    class Card:
        def read(self) -> Sample:
            return Sample(sm_clock_hz=1.7e9, power_w=650.0, reasons=0x4)

    asked: list[str] = []

    def sensor(bus: str) -> Card:
        asked.append(bus)
        return Card()

    for module in (nvml, cuda):
        monkeypatch.setattr(module, "sensor_of", sensor)
    monkeypatch.setattr(cuda, "_SETTLE_S", 0.01)
    rule = StopRule(min_samples=3, min_time_s=0.5, max_time_s=0.6)  # of the double's own clock
    found = backend.time(kernel(), *operands(), rule=rule)
    assert found is not None
    assert asked == ["00000000:1e:00.0"]
    assert found.watched is not None
    assert found.watched.samples >= 1
    assert (found.watched.sm_clock_hz, found.watched.power_w) == (1.7e9, 650.0)
    assert found.watched.remark == "SM clock held down by: power cap"
    with backend.prepared(kernel(), *operands()) as (enqueue, _):
        assert backend.reading(enqueue, seconds_each=0.1).limits == ("power cap",)
    for module in (nvml, cuda):
        monkeypatch.setattr(module, "sensor_of", lambda _: None)
    with backend.watching() as watch:
        pass
    assert watch.result == backend.reading(enqueue, seconds_each=0.1) == Watched()
