"""Counts for rows that ran on a GPU: its own counters, or the emulator's at shapes that it can afford."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from ladder.cli.console import say
from ladder.cli.progress import Display
from ladder.cli.session import Job, Session
from ladder.climb import Climber, placed
from ladder.counters import Profiled, ncu_status, profile_products
from ladder.errors import BackendError
from ladder.model import Activity, Precision, Shape, Traffic
from ladder.profiles import Profile
from ladder.store import Run

__all__ = ["AFFORDABLE_FLOP", "counted"]

AFFORDABLE_FLOP = 2 * 512**3
"""Work that the emulator counts in some seconds a rung."""

NCU_LIMIT_S, NCU_TIMES = 60.0, 200.0
"""A product may take so long under ncu, and so many times its own time more: some ten passes, one of patched code."""

Key = tuple[str, Shape]


def counted(session: Session, runs: Sequence[Run]) -> tuple[Run, ...]:
    """``runs`` with counts and place for those that are right; says in a line where the counts are from."""
    right = {(run.rung, run.shape) for run in runs if run.check is not None and run.check.passed and not run.failed}
    jobs = [(rung, shape) for rung, shape in session.jobs if (rung.name, shape) in right and shape.flop]
    if not jobs:
        return tuple(runs)
    reason = ncu_status()
    found = Profiled(traffic={}, activity={}, lost={})
    if reason is None:
        say("Reading the GPU's counters with ncu, in a profiled run of its own ...")
        try:
            # Cold: what a launch moves does not depend on the one before, and DRAM traffic below L2's size is seen.
            found = profile_products(jobs, cold=True, limit_s=_limit_s(session, runs))
        except BackendError as error:
            reason = str(error)
    if reason is not None:
        found = _from_emulator(session, jobs, reason)
    for (name, shape), why in found.lost.items():
        say(f"No counts of {name} at {shape}: {why}.")
    for note in found.notes:
        say(f"{note[:1].upper()}{note[1:]}.")
    precisions = {rung.name: rung.precision for rung, _ in session.jobs}
    return tuple(_with_counts(run, found, session, precisions.get(run.rung, "fp32")) for run in runs)


def _limit_s(session: Session, runs: Sequence[Run]) -> float:
    """How long one product may take under ncu: no more than the rung itself was allowed."""
    slowest = max((run.time.median for run in runs if run.time is not None), default=0.0)
    return min(session.limits.timeout_s, NCU_LIMIT_S + NCU_TIMES * slowest)


def _with_counts(run: Run, found: Profiled, session: Session, precision: Precision) -> Run:
    key = (run.rung, run.shape)
    if key not in found.traffic:
        return run
    row = replace(run, traffic=found.traffic[key], activity=found.activity.get(key))
    return placed(row, session.roofs, precision)


def _from_emulator(session: Session, jobs: Sequence[Job], reason: str) -> Profiled:
    affordable = [job for job in jobs if job[1].flop <= AFFORDABLE_FLOP]
    say(f"No hardware counters: {reason}.")
    if len(affordable) < len(jobs):
        say(f"{len(jobs) - len(affordable)} rows stay without counts: the emulator takes shapes up to 512x512x512.")
    if not affordable:
        return Profiled(traffic={}, activity={}, lost={})
    say(f"Counting {len(affordable)} rows on the emulator ...")
    device = replace(session.device, backend="emulated")
    profile = Profile(name=session.profile.name, device=device, roofs=session.roofs)
    start = Climber("emulated", profile, session.roofs, prove=False, time=False, engine=session.engine)
    traffic: dict[Key, Traffic] = {}
    activity: dict[Key, Activity] = {}
    with Display(len(affordable)) as display:

        def on_start(index: int, job: Job) -> None:
            display.started(index, f"{job[0].name} {job[1]}")

        with closing(replace(session, backend="emulated").run(affordable, start, on_start, _failed)) as ends:
            for end in ends:
                rung, shape = end.job
                got = end.result
                if got is not None and got.traffic is not None:
                    traffic[rung.name, shape] = got.traffic
                    if got.activity is not None:
                        activity[rung.name, shape] = got.activity
                done = "counted" if (rung.name, shape) in traffic else "not counted"
                display.finished(end.index, f"{rung.name} {shape}: {done}")
                for note in got.notes if got is not None else ():
                    display.note(note)
    return Profiled(traffic=traffic, activity=activity, lost={})


def _failed(run: Run) -> bool:
    return run.failed
