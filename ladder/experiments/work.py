"""One kernel of an experiment: proved, then counted or timed, in a worker process that holds the backend."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladder import check as checking
from ladder.backends import Backend, Engine, open_backend
from ladder.backends.cuda import CudaBackend
from ladder.backends.driver import translated
from ladder.climb import blank, climb, placed, why_skipped
from ladder.errors import BackendError, CompileError, KernelFaultError, UnsupportedPtxError
from ladder.experiments.model import AskedRow
from ladder.experiments.plan import Product, Streamed
from ladder.experiments.streaming import arguments, data, emulate, judge
from ladder.laws import predict
from ladder.model import Device, Roofs, Shape, Timing
from ladder.nvrtc import compile_rung
from ladder.profiles import Profile
from ladder.stats import summarize
from ladder.store import Run

__all__ = ["Worker", "asked_row", "compiler", "launcher", "operands"]

F32 = NDArray[np.float32]

PROOF = Shape(m=128, n=128, k=128)
PROOF_BYTES = 2**22
"""Stream kernels are proved with arrays of this size in all, which numpy takes no time for."""

_SETTLE_S, _ENOUGH_S, _FEWEST, _MOST = 0.03, 0.1, 3, 15

_OF_THE_KERNEL = (CompileError, BackendError, KernelFaultError, UnsupportedPtxError)


class Worker:
    """What a worker process runs: picklable; a call opens the backend and gives the function of one job.

    A job is a :class:`Product`, whose result is a :class:`ladder.store.Run`, or a :class:`Streamed`, whose result is an
    :class:`AskedRow`.
    """

    def __init__(self, backend: str, profile: Profile, roofs: Roofs, *, engine: Engine = "auto") -> None:
        self.backend, self.profile, self.roofs, self.engine = backend, profile, roofs, engine

    def __call__(self) -> Callable[[Product | Streamed], Run | AskedRow]:
        """Open the backend in this process."""
        backend = open_backend(self.backend, self.profile, engine=self.engine)

        def work(job: Product | Streamed) -> Run | AskedRow:
            if isinstance(job, Streamed):
                return _streamed(job, backend, self.engine)
            return _product(job, backend, self.roofs)

        return work


def compiler(device: Device) -> Callable[[Product | Streamed], bool]:
    """What a worker process runs beforehand, so that no GPU waits for NVRTC: compiles a job into the cache.

    The result says whether it could be; what is wrong will be said when the job runs.
    """

    def compile_job(job: Product | Streamed) -> bool:
        rung = job.stream.rung if isinstance(job, Streamed) else job.rung
        try:
            compile_rung(rung, arch=rung.arch_for(device))
        except CompileError:
            return False
        return True

    return compile_job


def asked_row(run: Run) -> AskedRow:
    """A product's row for the comparison of asked with counted bytes."""
    problem = run.error or run.skipped or (run.check.failure if run.check else None)
    return AskedRow(
        name=run.rung, title=run.title, kind="law" if run.kind == "law" else "rung", size=str(run.shape),
        flop=run.shape.flop, traffic=run.traffic, time=run.time, problem=problem,
    )  # fmt: skip


def _product(job: Product, backend: Backend, roofs: Roofs) -> Run:
    """Emulated: proved and counted, or counted from a few threadblocks. On a GPU: proved at a small shape, timed."""
    rung, shape = job.rung, job.shape
    row = replace(blank(rung, shape), params=dict(rung.params))
    reason = why_skipped(rung, shape, backend.device)
    if reason is not None:
        return replace(row, skipped=reason)
    try:
        if not isinstance(backend, CudaBackend):
            if shape.flop <= backend.executes_flop:
                return replace(climb(rung, shape, backend, roofs), params=row.params)
            return _replayed(row, job, backend, roofs)
        kernel = compile_rung(rung, arch=rung.arch_for(backend.device))
        row = replace(row, resources=backend.resources(kernel), law=predict(rung, shape))
        if rung.supports(PROOF) is None:
            row = replace(row, check=checking.prove(backend, kernel, PROOF))
        if row.failed:
            return row
        with backend.prepared(kernel, *operands(shape)) as (enqueue, launches):
            return replace(row, time=_timed(backend.sampler(enqueue, launches)))
    except _OF_THE_KERNEL as error:
        return replace(row, error=str(error))


def _replayed(row: Run, job: Product, backend: Backend, roofs: Roofs) -> Run:
    kernel = compile_rung(job.rung, arch=job.rung.arch_for(backend.device))
    try:
        traffic = backend.replay(kernel, job.shape)
    except BackendError as error:
        return replace(row, skipped=f"too large to execute here, and not counted from a few threadblocks: {error}")
    row = replace(row, traffic=traffic, resources=backend.resources(kernel), law=predict(job.rung, job.shape))
    return placed(row, roofs, job.rung.precision)


def _streamed(job: Streamed, backend: Backend, engine: Engine) -> AskedRow:
    stream, n = job.stream, job.n
    row = AskedRow(name=stream.name, title=stream.title, kind="stream", size=f"n = {n}", flop=stream.at(stream.flop, n))
    try:
        if isinstance(backend, CudaBackend):
            wrong = _proved(job, backend)
            return replace(row, problem=wrong) if wrong else replace(row, time=_timed_stream(job, backend))
        traffic, wrong = emulate(stream, n, backend.device, engine=engine)
    except _OF_THE_KERNEL as error:
        return replace(row, problem=str(error))
    return replace(row, problem=wrong) if wrong else replace(row, traffic=traffic)


def _proved(job: Streamed, backend: CudaBackend) -> str | None:
    """What is wrong with the result at a size that numpy takes no time for."""
    n = job.stream.largest(PROOF_BYTES)
    before = data(job.stream, n)
    after = {name: array.copy() for name, array in before.items()}
    with ExitStack() as held:
        launch, buffers = launcher(Streamed(stream=job.stream, n=n), backend, before, held)
        launch()
        for name, buffer in buffers.items():
            backend.gpu.download(buffer, 0, after[name])
    return judge(job.stream, before, after)


def _timed_stream(job: Streamed, backend: CudaBackend) -> Timing:
    with ExitStack() as held:
        launch, _ = launcher(job, backend, data(job.stream, job.n, periodic=True), held)
        with translated(f"{job.name} on {backend.device.name}"):
            return _timed(backend.sampler(launch, 1))


def launcher(
    job: Streamed, backend: CudaBackend, arrays: dict[str, F32], held: ExitStack
) -> tuple[Callable[[], None], dict[str, Any]]:
    """A function that enqueues the kernel on ``arrays``, and the buffers that hold them as long as ``held``.

    Raises:
        BackendError: memory is short, or the driver cannot load the kernel.
        CompileError, NvrtcMissingError: the kernel cannot be compiled.
    """
    gpu, stream = backend.gpu, job.stream
    gpu.activate()
    buffers: dict[str, Any] = {}
    with translated(f"{job.name} on {gpu.device.name}"):
        for name, array in arrays.items():
            buffers[name] = gpu.allocate(array.nbytes, f"{job.name}: memory for {name}")
            held.callback(buffers[name].close)
            gpu.upload(buffers[name], 0, array)
        kernel = gpu.load(compile_rung(stream.rung, arch=gpu.device.arch))
    given: list[Any] = []
    for value in arguments(stream, job.n):
        if isinstance(value, str):
            given.append(int(buffers[value].handle))
        else:
            given.append(np.uint32(value) if isinstance(value, int) else np.float32(value))
    return gpu.launcher(kernel, stream.grid_at(job.n), stream.block, *given), buffers


def _timed(sample: Callable[[], float]) -> Timing:
    """A median over a fraction of a second: what an experiment compares differs by factors, not by per cent."""
    begun = time.perf_counter()
    while time.perf_counter() - begun < _SETTLE_S:
        sample()
    samples: list[float] = []
    begun = time.perf_counter()
    while len(samples) < _FEWEST or (len(samples) < _MOST and time.perf_counter() - begun < _ENOUGH_S):
        samples.append(sample())
    return summarize(samples)


@lru_cache(maxsize=1)
def operands(shape: Shape) -> tuple[F32, F32]:
    """A and B with full mantissas; kernels of one shape come one after the other, and drawing takes the longest."""
    random = np.random.default_rng(2026)
    a = random.random((shape.m, shape.k), dtype=np.float32) - np.float32(0.5)
    b = random.random((shape.k, shape.n), dtype=np.float32) - np.float32(0.5)
    return a, b
