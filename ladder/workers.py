"""Child processes that run one rung each: a crash, an endless loop or a memory blow-up ends that rung, nothing else."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from ladder.errors import LadderError

__all__ = ["DEFAULT_TIMEOUT_S", "Finished", "Refused", "default_workers", "run_jobs"]

J = TypeVar("J")
R = TypeVar("R")

DEFAULT_TIMEOUT_S = 600.0
"""How long one rung may take before its process is ended."""

USAGE = 2
"""The exit code of errors that stop every rung, not just one."""

_START_LIMIT_S = 120.0
_ORDERLY_END_S = 5.0
_BLAS_THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def _mapping(items: dict[Any, Any]) -> Mapping[Any, Any]:
    return MappingProxyType(items)


def _reduce_mapping(proxy: Mapping[Any, Any]) -> tuple[Callable[..., Any], tuple[dict[Any, Any]]]:
    return _mapping, (dict(proxy),)


# The nouns of ladder.model hold read-only mappings, which pickle refuses; this is for pipes between our processes only.
ForkingPickler.register(MappingProxyType, _reduce_mapping)


@dataclass(frozen=True, slots=True)
class Finished(Generic[J, R]):
    """One job's end: ``result`` is what the task returned, or None and ``failure`` says how its process ended."""

    index: int
    job: J
    result: R | None
    failure: str | None = None


class Refused(LadderError):
    """A worker could not start, or a task refused to go on; the other jobs were not run."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def default_workers(backend: str) -> int:
    """How many rungs run at once: one on a GPU, so that nothing disturbs a timing; else the CPUs, at most 4."""
    if backend == "cuda":
        return 1
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cpus, 4)


def run_jobs(
    jobs: Sequence[J],
    start: Callable[[], Callable[[J], R]],
    *,
    workers: int = 1,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    one_thread: bool = True,
    memory_bytes: int | None = None,
    on_start: Callable[[int, J], None] | None = None,
    retire: Callable[[R], bool] | None = None,
) -> Generator[Finished[J, R]]:
    """Run every job in a child process and yield each as it finishes, in whatever order that is.

    A child calls ``start`` once and the callable it gives once per job; both must be picklable, and so must jobs and
    results. A child that dies, overruns ``timeout_s`` or whose task fails is replaced and its job yielded with
    ``failure``. Closing the iterator, or an exception such as ``KeyboardInterrupt`` out of it, ends every child.

    Args:
        jobs: what to run.
        start: makes the task in the child; it may open a backend.
        workers: children at once.
        timeout_s: seconds a job may take, counted from when its child is ready for it.
        one_thread: limit the children's BLAS to one thread each.
        memory_bytes: private memory a child may hold before its allocations fail; None leaves it unlimited.
        on_start: told the index and the job when a child takes it.
        retire: whether a result leaves its child unfit for another job (an illegal address poisons a CUDA context).

    Raises:
        Refused: ``start`` raised a LadderError, or a task raised one whose exit code is 2.
    """
    waiting = deque(enumerate(jobs))
    children: list[_Child[J, R]] = []
    try:
        while waiting or any(child.busy for child in children):
            while waiting and len(children) < min(workers, len(jobs)):
                children.append(_Child(start, one_thread=one_thread, memory_bytes=memory_bytes))
            for child in children:
                if waiting and child.ready and not child.busy:
                    index, job = waiting.popleft()
                    child.give(index, job, timeout_s)
                    if on_start is not None:
                        on_start(index, job)
            for child in _until_something_happens(children):
                finished = child.collect()
                if finished is not None and (
                    finished.result is None or (retire is not None and retire(finished.result))
                ):
                    child.end()
                if not child.alive:
                    children.remove(child)
                if finished is not None:
                    yield finished
    finally:
        for child in children:
            child.end()


def _until_something_happens(children: Sequence[_Child[J, R]]) -> list[_Child[J, R]]:
    """Children with a message, a death or an overrun to collect; waits for the first."""
    now = time.monotonic()
    nearest = min((child.deadline for child in children), default=now)
    timeout = None if nearest == math.inf else max(0.0, nearest - now)
    stirred = set(wait([child.pipe for child in children], timeout))
    now = time.monotonic()
    return [child for child in children if child.pipe in stirred or child.deadline <= now]


class _Child(Generic[J, R]):
    """One process and the job it has. A closed pipe means that it died."""

    def __init__(self, start: Callable[[], Callable[[J], R]], *, one_thread: bool, memory_bytes: int | None) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_serve, args=(theirs, start, memory_bytes), daemon=True)
        with _environment(_BLAS_THREADS if one_thread else {}), _interrupts_held():
            self.process.start()
        theirs.close()
        self.ready = False
        self.alive = True
        self.limit_s = _START_LIMIT_S
        self.deadline = time.monotonic() + self.limit_s
        self.current: tuple[int, J] | None = None

    @property
    def busy(self) -> bool:
        return self.current is not None

    def give(self, index: int, job: J, timeout_s: float) -> None:
        self.current = (index, job)
        self.limit_s = timeout_s
        self.deadline = time.monotonic() + timeout_s
        # A child that has just died gives a broken pipe here and an end of file in collect, which reports it.
        with contextlib.suppress(BrokenPipeError):
            self.pipe.send(job)

    def collect(self) -> Finished[J, R] | None:
        """The job's end, when this is what happened."""
        if not self.pipe.poll():
            limit = f"no end after {self.limit_s:g} s: its process was stopped at the time limit"
            self.end()
            if self.current is None:
                raise Refused(f"a worker process did not start: {limit}", 1)
            return self._finish(None, limit)
        try:
            word, value = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.process.join(_ORDERLY_END_S)
            self.end()
            how = _how_it_ended(self.process.exitcode)
            if self.current is not None:
                return self._finish(None, f"crashed: its process {how}")
            if not self.ready:
                raise Refused(f"a worker process did not start: it {how}", 1) from None
            return None
        if word == "ready":
            self.ready, self.deadline = True, math.inf
            return None
        if word == "refused":
            raise Refused(*value)
        return self._finish(value, None) if word == "result" else self._finish(None, value)

    def _finish(self, result: R | None, failure: str | None) -> Finished[J, R]:
        assert self.current is not None
        index, job = self.current
        self.current, self.deadline = None, math.inf
        return Finished(index, job, result, failure)

    def end(self) -> None:
        """Let an idle child go, kill a busy one; again does nothing."""
        if not self.alive:
            return
        self.alive = False
        self.pipe.close()
        if self.ready and not self.busy:
            self.process.join(_ORDERLY_END_S)
        if self.process.is_alive():
            self.process.kill()
        self.process.join()


def _how_it_ended(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        try:
            name = signal.Signals(-exit_code).name
        except ValueError:
            name = f"signal {-exit_code}"
        hint = "; the system may have run out of memory" if name == "SIGKILL" else ""
        return f"was killed by {name}{hint}"
    return f"exited with code {exit_code}; its last words are on the error output"


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Environment that a spawned child inherits: numpy's BLAS reads it when it is imported, before any code of ours."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold SIGINT back while a child is made: it inherits the mask until it ignores Ctrl-C."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: Connection, start: Callable[[], Callable[[J], R]], memory_bytes: int | None) -> None:
    """The child: jobs in, results out, until the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    _die_first(memory_bytes)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        try:
            task = start()
        except LadderError as error:
            pipe.send(("refused", (str(error), error.exit_code)))
            return
        pipe.send(("ready", None))
        while True:
            pipe.send(_end_of(task, pipe.recv(), memory_bytes))


def _end_of(task: Callable[[J], R], job: J, memory_bytes: int | None) -> tuple[str, object]:
    try:
        return "result", task(job)
    except LadderError as error:
        return ("refused", (str(error), error.exit_code)) if error.exit_code == USAGE else ("failure", str(error))
    except MemoryError:
        return "failure", "ran out of memory" + (f" (limit {memory_bytes >> 20} MiB)" if memory_bytes else "")


def _die_first(memory_bytes: int | None) -> None:
    """Have allocations fail here, and the system pick this process, before a memory blow-up hurts the parent."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")
    if memory_bytes is not None:
        import resource  # noqa: PLC0415 -- Unix only

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        soft = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
