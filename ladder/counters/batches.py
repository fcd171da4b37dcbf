"""Products profiled together in one process, watched: one that fails or never ends loses its own counters alone.

ncu gives its table when the profiled process has ended. The process says how far it has come, so that the product which
stopped it is known; what had been counted before is kept, or counted again if it went down with ncu, and the rest goes
on in a new process. Every product is profiled at most twice, and after a few that did not end the others are given up.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ladder.counters import ncu
from ladder.errors import BackendError, ShapeError
from ladder.geometry import kernels
from ladder.model import Rung, Shape

__all__ = ["Batched", "Caches", "Job", "launched", "profile_each"]

Job = tuple[Rung, Shape]

Caches = Literal["warm", "cold", "cold at first"]
"""What a product finds in the caches.

* ``warm``: what the same product has left there.
* ``cold``: nothing, which ncu sees to before every launch and every pass over it.
* ``cold at first``: nothing, and its second launch what the first has left. For counters of one pass alone: the
  second pass of a launch would find what the first has left.
"""

MOST_HANGS = 3
"""Products that may run into their time limit before the others are given up."""

START_LIMIT_S = 180.0
"""Until the process has started under ncu and opened the GPU."""

_END_LIMIT_S, _RECOVERY_S = 60.0, 3.0
_AFTER_A_KILL_S = 20.0
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Batched:
    """Rows of each job that was counted, by its index, and why the others were not."""

    rows: Mapping[int, tuple[ncu.Row, ...]]
    lost: Mapping[int, str]


def launched(rung: Rung, shape: Shape) -> tuple[str, ...]:
    """The kernels that a product launches, in order; none for a shape that the rung does not support."""
    try:
        return kernels(rung, shape)
    except ShapeError:
        return ()


def profile_each(jobs: Sequence[Job], metrics: Mapping[str, str], *, caches: Caches, limit_s: float) -> Batched:
    """Profile every job, in as few processes as its failures allow.

    Args:
        jobs: rungs and shapes, each of which launches something.
        metrics: counters by our name for them.
        caches: what the kernels find in them.
        limit_s: how long one of them may take under ncu.

    Raises:
        BackendError: ncu cannot be used, the process does not start, or ncu's table is not of these products.
    """
    rows: dict[int, tuple[ncu.Row, ...]] = {}
    lost: dict[int, str] = {}
    waiting = [list(range(len(jobs)))] if jobs else []
    hangs, patience = 0, 0
    while waiting:
        batch = waiting.pop(0)
        if hangs >= MOST_HANGS:
            lost |= dict.fromkeys(batch, f"not tried after {hangs} products that did not end")
            continue
        ended = _profile([jobs[index] for index in batch], metrics, caches=caches, limit_s=limit_s)
        counted = ended.complete
        rows |= dict(zip(batch, counted, strict=False))
        if ended.problem is None or len(counted) == len(batch):
            continue
        if ended.overran:
            hangs, patience = hangs + 1, 1
        elif patience and not counted:
            # A GPU that has just lost a process in the middle of a kernel may not let itself be profiled at once.
            patience -= 1
            time.sleep(_RECOVERY_S)
            waiting.insert(0, batch)
            continue
        culprit = ended.finished
        if culprit == len(batch) or not ended.begun:
            # ncu failed between two products, at one that it did not profile, or before the first of all.
            culprit = len(counted)
            if not rows:
                raise BackendError(ended.problem)
        lost[batch[culprit]] = ended.problem
        waiting = [part for part in (batch[len(counted) : culprit], batch[culprit + 1 :]) if part] + waiting
    return Batched(rows=rows, lost=lost)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    """How a process ended: rows of the first jobs, how many of them it began and finished, and what stopped it."""

    complete: list[tuple[ncu.Row, ...]]
    begun: int
    finished: int
    problem: str | None
    overran: bool


def _profile(jobs: Sequence[Job], metrics: Mapping[str, str], *, caches: Caches, limit_s: float) -> _Ended:
    with tempfile.TemporaryDirectory(prefix="ladder-ncu-") as folder:
        place = Path(folder)
        spec, progress, log = place / "jobs.json", place / "progress", place / "ncu.csv"
        listed = [[str(rung.path.resolve()), rung.name, str(shape)] for rung, shape in jobs]
        told = {"caches": caches, "jobs": listed, "progress": str(progress)}
        spec.write_text(json.dumps(told), encoding="utf-8")
        command = ncu.command(["ladder.counters.child", str(spec)], metrics, cold=caches == "cold", log=log)
        outputs = [place / "stdout", place / "stderr"]
        with outputs[0].open("wb") as out, outputs[1].open("wb") as err:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=ncu.environment(), start_new_session=True
            )
            try:
                overrun = _watch(process, progress, limit_s)
            finally:
                _end(process)
        text, said = ncu.read(log), [ncu.read(path) for path in reversed(outputs)]
        events = ncu.read(progress).split("\n")
    finished = events.count("end")
    failure = next((event.removeprefix("failed ") for event in events if event.startswith("failed ")), None)
    problem = overrun or failure or ncu.problem_in(text, *said, exit_code=process.returncode)
    found = _rows(text, needed=problem is None)
    complete = _in_order(found, jobs[:finished] if problem else jobs, whole=problem is None)
    begun = events.count("begin")
    return _Ended(complete=complete, begun=begun, finished=finished, problem=problem, overran=overrun is not None)


def _rows(text: str, *, needed: bool) -> tuple[ncu.Row, ...]:
    try:
        return ncu.parse(text)
    except BackendError:
        if needed:
            raise
        return ()


def _watch(process: subprocess.Popen[bytes], progress: Path, limit_s: float) -> str | None:
    """Wait for the end; a job that takes too long is ended, and said."""
    seen, since = "", time.monotonic()
    while process.poll() is None:
        time.sleep(_LOOK_S)
        now = ncu.read(progress)
        if now != seen:
            seen, since = now, time.monotonic()
        last = seen.rstrip("\n").rpartition("\n")[2]
        limit = limit_s if last == "begin" else _END_LIMIT_S if seen else START_LIMIT_S
        if time.monotonic() - since > limit:
            _kill_profiled(process, seen)
            what = "ncu did not end" if last == "begin" else "ncu did not come to the next product"
            return f"{what} within {limit:g} s: its process was stopped at the time limit"
    return None


def _kill_profiled(process: subprocess.Popen[bytes], progress: str) -> None:
    """End the profiled process alone, so that ncu may still write what it has."""
    first = progress.partition("\n")[0].split()
    if len(first) == 2:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(int(first[1]), signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_AFTER_A_KILL_S)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End ncu and whatever it started, if they still run; they have a session, and so a group, of their own."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _in_order(report: Sequence[ncu.Row], jobs: Sequence[Job], *, whole: bool) -> list[tuple[ncu.Row, ...]]:
    """The rows of each job: launches are profiled in the order in which the child makes them.

    Unless the report has to be ``whole``, it may break off.
    """
    rest = list(report)
    out: list[tuple[ncu.Row, ...]] = []
    for rung, shape in jobs:
        expected = launched(rung, shape)
        mine, rest = rest[: len(expected)], rest[len(expected) :]
        astray = next((row.kernel for row, name in zip(mine, expected, strict=False) if name not in row.kernel), None)
        if not whole and (len(mine) < len(expected) or astray is not None):
            return out
        if len(mine) < len(expected) or astray is not None:
            short = f"it reports {len(mine)} of {len(expected)} launches"
            found = f"it reports {astray!r}" if astray is not None else short
            raise BackendError(f"ncu and rung {rung.name} at {shape} do not agree: {found}")
        out.append(tuple(mine))
    if rest and whole:
        raise BackendError(f"ncu reports {len(rest)} launches more than were made, the first of {rest[0].kernel!r}")
    return out
