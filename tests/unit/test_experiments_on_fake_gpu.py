"""Stream kernels and products on a GPU that is none: what is allocated, passed, launched, proved and profiled."""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.experiment_rows import PROFILE

from ladder.backends.cuda import CudaBackend
from ladder.backends.emulated import EmulatedBackend
from ladder.catalog import cuda_src, find
from ladder.catalog.streams import load_streams, reference
from ladder.cli import experiment
from ladder.cli.session import Limits, Session
from ladder.errors import BackendError
from ladder.experiments import child, counting, plan, run, work
from ladder.experiments.streaming import data
from ladder.model import Quantity, Shape, Traffic
from ladder.workers import Finished

STREAMS = load_streams(cuda_src() / "laws" / "streams")
DEVICE = replace(PROFILE.device, backend="cuda", l2_bytes=2**20)
EMULATED = EmulatedBackend(PROFILE.device)


class Buffer:
    def __init__(self, nbytes: int, handle: int) -> None:
        self.memory, self.handle, self.open = np.zeros(nbytes, np.uint8), handle, True

    def close(self) -> None:
        self.open = False


class Gpu:
    """Keeps arrays on the host; a launch computes the stream's formula, right or spoilt."""

    device = DEVICE

    def __init__(self, *, spoilt: bool = False) -> None:
        self.buffers: list[Buffer] = []
        self.launches: list[tuple[tuple[int, ...], tuple[int, ...], tuple[object, ...]]] = []
        self.spoilt = spoilt
        self.stream = SimpleNamespace(sync=lambda: None)

    def activate(self) -> None:
        pass

    def allocate(self, nbytes: int, what: str) -> Buffer:
        self.buffers.append(Buffer(nbytes, 2**40 + len(self.buffers)))
        return self.buffers[-1]

    def upload(self, buffer: Buffer, start: int, array: np.ndarray) -> None:
        buffer.memory[start : start + array.nbytes] = array.view(np.uint8)

    def download(self, buffer: Buffer, start: int, array: np.ndarray) -> None:
        array[...] = buffer.memory[start : start + array.nbytes].view(np.float32)

    def load(self, compiled):
        return compiled

    def launcher(self, kernel, grid, block, *arguments):
        (stream,) = (stream for stream in STREAMS if stream.name == kernel.rung.name)
        at = {buffer.handle: buffer for buffer in self.buffers}
        given = dict(zip((a.name for a in stream.arguments), arguments, strict=True))

        def launch() -> None:
            self.launches.append((grid, block, arguments))
            arrays = {name: at[given[name]].memory.view(np.float32) for name in stream.arrays}
            inputs = {n: a for n, a in arrays.items() if n != stream.target or stream.reads_target}
            arrays[stream.target][...] = reference(stream, inputs) + (1 if self.spoilt else 0)

        return launch


class Backend(CudaBackend):
    """The real one's type, with the memory above; products run on the emulator."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.enqueued = 0

    def sampler(self, enqueue, launches, *, cold=False):
        def sample() -> float:
            enqueue()
            return 1e-3

        return sample

    def run(self, kernel, a, b, *, count=False, offsets=(0, 0, 0)):
        return EMULATED.run(kernel, a, b, offsets=offsets)

    def resources(self, kernel):
        return EMULATED.resources(kernel)

    @contextmanager
    def prepared(self, kernel, a, b):
        def enqueue() -> None:
            self.enqueued += 1

        yield enqueue, 1

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "_SETTLE_S", 0.0)
    monkeypatch.setattr(work, "_ENOUGH_S", 0.0)
    monkeypatch.setattr(work, "PROOF_BYTES", 2**16)


def worker(monkeypatch: pytest.MonkeyPatch, backend: Backend):
    monkeypatch.setattr(work, "open_backend", lambda *_, **__: backend)
    return work.Worker("cuda", PROFILE, PROFILE.roofs)()


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_a_stream_is_proved_small_and_timed_large(monkeypatch: pytest.MonkeyPatch, stream) -> None:
    gpu = Gpu()
    row = worker(monkeypatch, Backend(gpu))(plan.Streamed(stream=stream, n=stream.largest(2**18)))
    assert row.problem is None
    assert row.time is not None
    assert row.time.median == 1e-3
    assert not any(buffer.open for buffer in gpu.buffers)
    (grid, block, small), *_, (_, _, large) = gpu.launches
    assert block == stream.block
    assert grid == stream.grid_at(stream.largest(2**16))
    kinds = [argument.kind for argument in stream.arguments]
    for kind, value in zip(kinds, small, strict=True):
        assert type(value) is {"size": np.uint32, "scalar": np.float32}.get(kind, int)
    assert large[kinds.index("size")] == stream.largest(2**18)


def test_a_wrong_stream_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu(spoilt=True)
    row = worker(monkeypatch, Backend(gpu))(plan.Streamed(stream=STREAMS[0], n=1024))
    assert "should be" in row.problem
    assert row.time is None
    assert len(gpu.launches) == 1


def test_a_product_is_proved_small_and_timed_at_its_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Backend(Gpu())
    (job,) = plan.edges([Shape(m=64, n=64, k=64)], "cuda")[:1]
    row = worker(monkeypatch, backend)(job)
    assert row.check is not None
    assert row.check.passed
    assert row.time is not None
    assert row.shape == job.shape
    assert row.params == {"T": 4, "NUM_THREADS": 16}
    assert row.traffic is None
    assert backend.enqueued >= 3


def test_the_profiled_process_makes_the_launches_that_are_expected(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    gpu = Gpu()
    backend, seen = Backend(gpu), []

    @contextmanager
    def profiler():
        before = len(gpu.launches) + backend.enqueued
        yield
        seen.append(len(gpu.launches) + backend.enqueued - before)

    monkeypatch.setattr(child, "CudaBackend", lambda: backend)
    monkeypatch.setattr(child, "_profiler", profiler)
    shape = Shape(m=64, n=64, k=64)
    jobs = [*plan.edges([shape], "cuda")[:1], *plan.padded(shape)[:2], plan.Streamed(stream=STREAMS[0], n=256)]
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps(counting.spec(jobs)), encoding="utf-8")
    assert child.main([str(path)]) == 0
    assert seen == [1, 1, 1, 1]


def test_buffers_live_as_long_as_they_are_held() -> None:
    gpu = Gpu()
    job = plan.Streamed(stream=STREAMS[0], n=1024)
    with ExitStack() as held:
        _, buffers = work.launcher(job, Backend(gpu), data(job.stream, job.n), held)
        assert all(buffer.open for buffer in buffers.values())
    assert not any(buffer.open for buffer in buffers.values())


class InThisProcess(Session):
    """A session whose jobs run here, one after the other."""

    def run(self, jobs, start, on_start, failed):
        task = start()
        for index, job in enumerate(jobs):
            on_start(index, job)
            yield Finished(index, job, task(job))


def test_the_whole_session_counts_places_and_adds_what_lanes_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = {"cuda": Backend(Gpu()), "emulated": EMULATED}
    monkeypatch.setattr(work, "open_backend", lambda name, *_, **__: opened[name])
    monkeypatch.setattr(plan, "asked", _few)
    profiled: list[int] = []

    def counted(jobs):
        profiled.append(len(jobs))
        levels = {level: Quantity(bytes=10**6, origin="counted") for level in ("l1", "l2", "dram", "sm")}
        return [Traffic(levels=levels, wavefronts_ld=3, requests_ld=2)] * len(jobs)

    monkeypatch.setattr(run, "counted", counted)
    shape = Shape(m=64, n=64, k=64)
    session = InThisProcess(
        backend="cuda", profile=PROFILE, device=DEVICE, roofs=PROFILE.roofs, rungs=(), shapes=(shape,),
        limits=Limits(timeout_s=60.0), about="a GPU",
    )  # fmt: skip
    found = experiment._experiments(session, {"law", "transition", "asked"}, (shape,), "ladder experiment")
    assert profiled == [10 + 10 + 2]
    assert all(row.placement is not None and row.time is not None for row in (*found.edges, *found.padding))
    by_name = {row.name: row for row in found.asked}
    assert by_name["naive"].bytes_at("asked") == 4 * (2 * 64**3 + 64**2)
    assert by_name["copy"].bytes_at("asked") == by_name["copy"].traffic.levels["asked"].bytes > 0
    assert all(row.share("dram", found.roofs) for row in found.asked)
    assert experiment._verdict(found) == 0


def test_without_counters_the_rows_keep_their_times(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = {"cuda": Backend(Gpu()), "emulated": EMULATED}
    monkeypatch.setattr(work, "open_backend", lambda name, *_, **__: opened[name])

    def counted(jobs):
        raise BackendError("there is no ncu on PATH; install it")

    monkeypatch.setattr(run, "counted", counted)
    shape = Shape(m=64, n=64, k=64)
    session = InThisProcess(
        backend="cuda", profile=PROFILE, device=DEVICE, roofs=PROFILE.roofs, rungs=(), shapes=(shape,),
        limits=Limits(timeout_s=60.0), about="a GPU",
    )  # fmt: skip
    found = experiment._experiments(session, {"law"}, (shape,), "ladder experiment law")
    assert "No hardware counters: there is no ncu on PATH; install it." in capsys.readouterr().out
    assert all(row.time is not None and row.traffic is None for row in found.edges)


def _few(shape: Shape, device):
    (naive,) = find(["naive"])
    (copy,) = (stream for stream in STREAMS if stream.name == "copy")
    return (plan.Streamed(stream=copy, n=1024), plan.Product(rung=naive, shape=shape, whole=False))
