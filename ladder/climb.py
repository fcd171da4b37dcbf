"""One rung at one shape: compile, check, count, time, place. What is not right is neither counted nor timed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ladder import check as checking
from ladder.backends import open_backend
from ladder.backends.base import Backend, Engine, Outcome
from ladder.backends.emulated import EmulatedBackend
from ladder.catalog import source_sha256
from ladder.errors import BackendError, CompileError, KernelFaultError, ShapeError, UnsupportedPtxError
from ladder.geometry import plan
from ladder.laws import predict
from ladder.model import Device, Precision, Resources, Roofs, Rung, Shape, Traffic, Watched
from ladder.nvrtc import Compiled, compile_rung
from ladder.profiles import Profile
from ladder.recorded import recorded_traffic
from ladder.roofline import PRODUCTS, above, pipe_of, place
from ladder.store import Run

__all__ = ["Climber", "Searched", "Searcher", "blank", "climb", "implausible", "placed", "why_skipped"]

F32 = NDArray[np.float32]

_OF_THE_RUNG = (CompileError, BackendError, KernelFaultError, UnsupportedPtxError)
"""Errors that are one rung's own: they make its row, and the next rung goes on."""


def blank(rung: Rung, shape: Shape) -> Run:
    """The row of a rung that has not run: what it is, and the SHA-256 of its source."""
    return Run(rung=rung.name, title=rung.title, kind=rung.kind, shape=shape, source_sha256=source_sha256(rung))


def why_skipped(rung: Rung, shape: Shape, device: Device) -> str | None:
    """Why ``rung`` cannot run at ``shape`` on ``device``, with the fix; None when it can."""
    reason = rung.why_not_on(device)
    if reason is not None:
        return reason
    try:
        plan(rung, shape)
    except ShapeError as error:
        return str(error)
    return None


def climb(
    rung: Rung,
    shape: Shape,
    backend: Backend,
    roofs: Roofs,
    *,
    prove: bool = True,
    count: bool = True,
    time: bool = True,
    traffic: Traffic | None = None,
) -> Run:
    """The row of ``rung`` at ``shape``: proved against numpy, then counted, timed and placed under ``roofs``.

    A rung that fails its proof has its check and nothing else. One that the device or the shape rules out is skipped
    with the reason; if that is the emulator, and the card that it stands for once counted the rung at this shape, the
    row has those counts, by their origin ``recorded``, and a place. One that does not compile, does not fit the device
    or breaks off has ``error``. A product too large to execute on the CPU is counted from a few of its threadblocks, if
    its tiles divide it, and has no check then.

    Args:
        rung: the kernel.
        shape: M, N, K.
        backend: where it runs.
        roofs: the ceilings that place it.
        prove: check it first; without, the row has no check.
        count: ask the backend for exact traffic.
        time: ask the backend for seconds per product, warm and cold; one without a clock gives none.
        traffic: counts made elsewhere (a profiled run), instead of the backend's own.

    Raises:
        NvrtcMissingError: NVRTC cannot be loaded.
    """
    row = blank(rung, shape)
    reason = why_skipped(rung, shape, backend.device)
    if reason is not None:
        row = replace(row, skipped=reason)
        of_device = backend.name == "emulated" and reason == rung.why_not_on(backend.device)
        known = recorded_traffic(rung, shape, backend.device.name) if count and of_device else None
        if known is not None:
            row = placed(replace(row, traffic=known, law=predict(rung, shape)), roofs, rung.precision)
        return row
    try:
        kernel = compile_rung(rung, arch=rung.arch_for(backend.device))
        resources = backend.resources(kernel)
        if resources.occupancy == 0:
            return replace(row, error=_does_not_fit(rung, resources, backend.device))
        if shape.flop > backend.executes_flop:
            # What cannot be replayed is executed after all, however long it takes.
            with contextlib.suppress(BackendError):
                traffic = backend.replay(kernel, shape)
                row = replace(row, traffic=traffic, resources=resources)
                return placed(replace(row, law=predict(rung, shape)), roofs, rung.precision)
        if prove:
            outcomes: list[Outcome] = []
            # Only a GPU has a schedule that may differ the second time.
            repeat = backend.name == "cuda"
            wanted = outcomes.append if count and traffic is None else None
            row = replace(row, check=checking.prove(backend, kernel, shape, repeat=repeat, seen=wanted))
            if row.failed:
                return row
            if outcomes:
                traffic = outcomes[0].traffic
                row = replace(row, activity=outcomes[0].activity)
        elif count and traffic is None:
            outcome = backend.run(kernel, *_operands(shape), count=True)
            traffic, row = outcome.traffic, replace(row, activity=outcome.activity)
        row = replace(row, traffic=traffic, resources=resources)
        if time:
            row = _timed(row, backend, kernel, shape)
    except _OF_THE_RUNG as error:
        return replace(row, error=str(error))
    return placed(replace(row, law=predict(rung, shape)), roofs, rung.precision)


def _timed(row: Run, backend: Backend, kernel: Compiled, shape: Shape) -> Run:
    """``row`` with its times, warm and then cold, and with the clock and the power of the warm one."""
    warm = backend.time(kernel, *_operands(shape))
    if warm is None:
        return row
    cold = backend.time(kernel, *_operands(shape), cold=True)
    seen = warm.watched or Watched()
    return replace(row, time=warm, time_cold=cold, sm_clock_hz=seen.sm_clock_hz, power_w=seen.power_w)


def _does_not_fit(rung: Rung, resources: Resources, device: Device) -> str:
    needs = (
        f"{rung.threads} threads of {resources.registers} registers and {resources.smem_bytes} bytes of shared memory"
    )
    has = f"{device.registers_per_sm} registers and {device.smem_per_sm_bytes} bytes"
    return f"a threadblock does not fit an SM of {device.name}: it takes {needs}; there are {has}. Use a smaller tile."


def placed(row: Run, roofs: Roofs, precision: Precision = "fp32") -> Run:
    """``row`` with its place under ``roofs``, if it does work and has traffic and something bounds it."""
    pipe = pipe_of(precision, roofs)
    bound = pipe is not None or any(roofs.bandwidth(level) is not None for level in row.intensity)
    if row.shape.flop == 0 or not row.intensity or not bound:
        return row
    found = place(row.intensity, roofs, flop_per_s=row.flop_per_s, pipe=pipe, products=PRODUCTS[precision])
    return replace(row, placement=found)


@lru_cache(maxsize=1)
def _operands(shape: Shape) -> tuple[F32, F32]:
    """A and B with full mantissas: zeros and small integers draw less power, and so run faster under a power cap."""
    random = np.random.default_rng(2026)
    a = random.random((shape.m, shape.k), dtype=np.float32) - np.float32(0.5)
    b = random.random((shape.k, shape.n), dtype=np.float32) - np.float32(0.5)
    return a, b


def implausible(runs: Iterable[Run]) -> tuple[str, ...]:
    """A sentence for each run that is faster than a roof of its own allows: that roof or its bytes are wrong."""
    lines = []
    for run in runs:
        over = above(run.placement, run.flop_per_s) if run.placement is not None else {}
        if over:
            roofs = ", ".join(f"{share:.0%} of what {name} allows" for name, share in over.items())
            lines.append(f"{run.rung} at {run.shape} runs at {roofs}, which no kernel can: a roof or a count is wrong.")
    return tuple(lines)


class Climber:
    """What a worker process runs for ``ladder run``: picklable; a call opens the backend and gives the job's function.

    A job is ``(rung, shape)``, its result a :class:`ladder.store.Run`.
    """

    def __init__(
        self,
        backend: str,
        profile: Profile,
        roofs: Roofs,
        *,
        prove: bool = True,
        count: bool = True,
        time: bool = True,
        engine: Engine = "auto",
    ) -> None:
        self.backend, self.profile, self.roofs, self.engine = backend, profile, roofs, engine
        self.prove, self.count, self.time = prove, count, time

    def __call__(self) -> Callable[[tuple[Rung, Shape]], Run]:
        """Open the backend in this process."""
        backend = open_backend(self.backend, self.profile, engine=self.engine)

        def climb_job(job: tuple[Rung, Shape]) -> Run:
            rung, shape = job
            before = len(_notes(backend))
            row = climb(rung, shape, backend, self.roofs, prove=self.prove, count=self.count, time=self.time)
            return replace(row, notes=_notes(backend)[before:])

        return climb_job


def _notes(backend: Backend) -> tuple[str, ...]:
    """What the emulator has noted so far; a GPU notes nothing."""
    return tuple(backend.notes) if isinstance(backend, EmulatedBackend) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """What came of trying to break one rung: ``skipped`` or ``error`` say why it was not or no longer tried.

    ``notes`` are for whoever watches, as those of :class:`ladder.store.Run`.
    """

    tried: int = 0
    notes: tuple[str, ...] = ()
    skipped: str | None = None
    error: str | None = None
    counterexample: checking.Counterexample | None = None

    @property
    def failed(self) -> bool:
        """The rung is wrong or broke off."""
        return self.error is not None or self.counterexample is not None


class Searcher:
    """What a worker process runs for ``ladder check``; as :class:`Climber`, with a rung as job.

    ``shapes`` are tried first, then ``examples`` products that hypothesis draws, for at most ``budget_s`` seconds.
    """

    def __init__(
        self,
        backend: str,
        profile: Profile,
        shapes: Sequence[Shape],
        *,
        examples: int,
        budget_s: float,
        engine: Engine = "auto",
    ) -> None:
        self.backend, self.profile, self.shapes, self.engine = backend, profile, tuple(shapes), engine
        self.examples, self.budget_s = examples, budget_s

    def __call__(self) -> Callable[[Rung], Searched]:
        """Open the backend in this process."""
        backend = open_backend(self.backend, self.profile, engine=self.engine)

        def search_job(rung: Rung) -> Searched:
            before = len(_notes(backend))
            return replace(self._search(rung, backend), notes=_notes(backend)[before:])

        return search_job

    def _search(self, rung: Rung, backend: Backend) -> Searched:
        tried = 0

        def progress(number: int, _case: str) -> None:
            nonlocal tried
            tried = number

        reason = rung.why_not_on(backend.device)
        unsupported = [why for why in map(rung.supports, self.shapes) if why is not None]
        if reason is not None or unsupported:
            # A shape that was asked for is never passed over in silence.
            return Searched(skipped=reason or unsupported[0])
        try:
            kernel = compile_rung(rung, arch=rung.arch_for(backend.device))
            found = checking.search(
                backend,
                kernel,
                shapes=self.shapes,
                max_examples=self.examples,
                budget_s=self.budget_s,
                progress=progress,
            )
        except _OF_THE_RUNG as error:
            return Searched(tried=tried, error=str(error))
        return Searched(tried=tried, counterexample=found)
