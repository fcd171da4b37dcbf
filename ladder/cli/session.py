"""What the user asked for, made concrete and checked before anything runs."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import Literal, TypeVar

from ladder import catalog, nvrtc, profiles
from ladder.backends import Engine, open_backend
from ladder.backends.cuda import CudaBackend, find_gpu
from ladder.ceilings import Ceilings, finding_text, todays_ceilings
from ladder.cli.console import say
from ladder.errors import BackendError, DriverMissingError, InputError, StoreError
from ladder.model import Device, Roofs, Rung, Shape
from ladder.profiles import Profile
from ladder.ptx.c import EngineUnavailableError, find_compiler, runtime
from ladder.workers import Finished, default_workers, run_jobs

__all__ = [
    "DEFAULT_PROFILE",
    "DEFAULT_SHAPE",
    "Job",
    "Limits",
    "Session",
    "ensure_writable",
    "measure_here",
    "measured_when",
    "prepare",
]

J = TypeVar("J")
R = TypeVar("R")

DEFAULT_PROFILE = "h200"
DEFAULT_SHAPE = {"emulated": Shape(m=256, n=256, k=256), "cuda": Shape(m=4096, n=4096, k=4096)}

SCALING_EDGES = {"emulated": (2048, 4096, 8192), "cuda": (1024,)}
"""Edges that ``--scaling`` adds: where L2 stops holding the operands of today's GPUs."""

Job = tuple[Rung, Shape]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How the worker processes are bounded; ``workers`` None means as many as suit the backend."""

    timeout_s: float
    workers: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.timeout_s <= 10**7:
            raise InputError(f"--timeout {self.timeout_s:g}: give seconds, more than 0 and at most 10000000")
        if self.workers is not None and not 1 <= self.workers <= 256:
            raise InputError(f"--jobs {self.workers}: give 1 to 256")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Rungs and shapes to run, where, and under which roofs.

    ``about`` is one line for the user that says which device it is and what its numbers are worth.
    """

    backend: Literal["cuda", "emulated"]
    profile: Profile
    device: Device
    roofs: Roofs
    rungs: tuple[Rung, ...]
    shapes: tuple[Shape, ...]
    limits: Limits
    about: str
    engine: Engine = "auto"

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Every rung at the first shape, then at the next: the order of the rows in the results."""
        return tuple((rung, shape) for shape, rung in product(self.shapes, self.rungs))

    def run(
        self,
        jobs: Sequence[J],
        start: Callable[[], Callable[[J], R]],
        on_start: Callable[[int, J], None],
        failed: Callable[[R], bool],
    ) -> Generator[Finished[J, R]]:
        """Run ``jobs`` in worker processes; a GPU's worker is replaced after a job that ``failed``."""
        emulated = self.backend == "emulated"
        workers = self.limits.workers or default_workers(self.backend)
        memory_bytes = _memory_bytes() if emulated else None
        return run_jobs(
            jobs,
            start,
            workers=workers,
            timeout_s=self.limits.timeout_s,
            one_thread=emulated,
            memory_bytes=memory_bytes and memory_bytes // workers,
            on_start=on_start,
            retire=None if emulated else failed,
        )


def prepare(
    *,
    rungs: Sequence[str],
    shapes: Sequence[str],
    backend: str,
    profile: str | None,
    limits: Limits,
    engine: Engine = "auto",
    measure: bool = False,
    scaling: bool = False,
) -> Session:
    """Resolve names, shapes, backend and profile.

    Args:
        rungs: names and paths; none means all.
        shapes: MxNxK; none means the backend's default.
        backend: auto, cuda or emulated.
        profile: the GPU to emulate; on a real one, whose roofs to use instead of its own.
        limits: of the worker processes.
        engine: what executes PTX in the emulator.
        measure: measure a real GPU's roofs, unless a profile is given.
        scaling: add larger and smaller cubes, for the report to show what the size changes.

    Raises:
        LadderError: something the user gave cannot be used, NVRTC is missing, or the GPU asked for is not there.
    """
    where = _choose(backend)
    chosen = profiles.load_profile(profile or DEFAULT_PROFILE)
    wanted = tuple(dict.fromkeys(Shape.parse(text) for text in shapes)) or (DEFAULT_SHAPE[where],)
    if scaling:
        wanted = tuple(dict.fromkeys((*wanted, *(Shape(m=n, n=n, k=n) for n in SCALING_EDGES[where]))))
    found = catalog.find(rungs)
    if not found:
        raise InputError("the catalogue holds no rung; name a .cu file")
    version = nvrtc.nvrtc_version()
    if where == "emulated":
        device, roofs = chosen.device, chosen.roofs
        about = (
            f"Emulating {device.name} ({device.arch}) on the CPU: results and counts are those of the emulated PTX, "
            f"roofs are recorded (profile {chosen.name}), and no time is measured or invented. {_engine(engine)}"
        )
    else:
        device = _device_of(where, chosen)
        roofs, source = profiles.roofs_of(device, chosen if profile else None)
        if measure and not profile:
            say(f"Measuring the roofs of {device.name} ...")
            device, roofs, source = _measured(device, roofs, source)
        about = f"Running on {device.name} ({device.arch}), driver {device.driver}; its roofs are {source}."
    return Session(
        backend=where,
        profile=chosen,
        device=device if device.nvrtc else replace(device, nvrtc=version),
        roofs=roofs,
        rungs=found,
        shapes=wanted,
        limits=limits,
        about=about,
        engine=engine,
    )


def _engine(engine: Engine) -> str:
    """What will execute the PTX, in a sentence.

    Raises:
        InputError: engine ``"c"`` without a compiler.
    """
    if engine == "numpy":
        return "Engine: numpy."
    try:
        runtime()
    except EngineUnavailableError as error:
        if engine == "c":
            raise InputError(f"--engine c: {error}") from error
        return f"Engine: numpy, several times slower than C: {error}."
    return f"Engine: C, built by {' '.join(find_compiler() or ())}; numpy for what it does not know."


def _choose(backend: str) -> Literal["cuda", "emulated"]:
    if backend == "emulated":
        return "emulated"
    reason = find_gpu()
    if reason is None:
        return "cuda"
    if backend == "cuda":
        raise DriverMissingError(reason)
    return "emulated"


def _device_of(backend: str, profile: Profile) -> Device:
    """Ask a child: this process stays without a CUDA context, so that no fault of a kernel can reach it."""
    (end,) = run_jobs([None], partial(_describe, backend, profile))
    if end.result is None:
        raise BackendError(f"the GPU cannot be opened: {end.failure}. `ladder doctor` says what is missing")
    return end.result


def _describe(backend: str, profile: Profile) -> Callable[[None], Device]:
    device = open_backend(backend, profile).device
    return lambda _: device


def _measured(device: Device, roofs: Roofs, source: str) -> tuple[Device, Roofs, str]:
    """The GPU with the clock and the power that FP32 work gives it, and its own roofs; what is given if that fails."""
    (end,) = run_jobs([None], measure_here, one_thread=False)
    if end.result is None:
        return device, roofs, f"{source}; they could not be measured: {end.failure}"
    _, found = end.result
    busy = found["fp32"].best
    clock = busy.watched.sm_clock_hz or busy.clock_hz or device.sm_clock_hz
    device = replace(device, sm_clock_hz=clock, power_w=busy.watched.power_w)
    doubts = "".join(f"; the {each.roof} roof is not as meant, {finding_text(each)}" for each in found.failed)
    return device, found.roofs, f"{measured_when(found)}{doubts}"


def measured_when(found: Ceilings) -> str:
    """Such as ``"measured today at 09:15 UTC"``."""
    day, _, time = found.created.removesuffix("Z").partition("T")
    return f"measured {'today' if day == now()[:10] else f'on {day}'} at {time[:5]} UTC"


def measure_here(*, fresh: bool = False) -> Callable[[None], tuple[str, Ceilings]]:
    """What a child process runs: today's roofs of the GPU, or new ones, with the key that they are kept under."""
    return lambda _: todays_ceilings(CudaBackend().gpu, fresh=fresh)


def ensure_writable(path: Path, option: str) -> None:
    """Find out now, not after the rungs have run, that ``path`` cannot be written.

    Raises:
        StoreError: its folder cannot be made or written, or ``path`` is a folder.
    """
    if path.is_dir():
        raise StoreError(f"{option} {path} is a folder; name a file in it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise StoreError(f"cannot write {option} {path}: {error.strerror or error}; name another path") from error


def now() -> str:
    """The time in the results' form, ``2026-01-31T12:00:00Z``."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _memory_bytes() -> int | None:
    """Three quarters of the memory that this machine or its container has; None where the system does not tell."""
    if sys.platform != "linux":
        return None
    have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):  # no limit is written as the word max
        have = min(have, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return have * 3 // 4
