"""Traffic for rows that ran on a GPU: its own counters, or the emulator's at shapes that it can afford."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from ladder.cli.console import say
from ladder.cli.progress import Display
from ladder.cli.session import Job, Session
from ladder.climb import Climber, placed
from ladder.counters import count_with_ncu, ncu_status
from ladder.errors import BackendError
from ladder.model import Rung, Shape, Traffic
from ladder.profiles import Profile
from ladder.store import Run

__all__ = ["AFFORDABLE_FLOP", "counted"]

AFFORDABLE_FLOP = 2 * 512**3
"""Work that the emulator counts in some seconds a rung."""

Key = tuple[str, Shape]


def counted(session: Session, runs: Sequence[Run]) -> tuple[Run, ...]:
    """``runs`` with traffic and place for those that are right; says in a line where the counts are from."""
    right = {(run.rung, run.shape) for run in runs if run.check is not None and run.check.passed and not run.failed}
    jobs = [(rung, shape) for rung, shape in session.jobs if (rung.name, shape) in right and shape.flop]
    if not jobs:
        return tuple(runs)
    reason = ncu_status()
    traffic: Mapping[Key, Traffic] = {}
    if reason is None:
        say("Reading the GPU's counters with ncu, in a profiled run of its own ...")
        try:
            traffic = _from_ncu(jobs, session.limits.timeout_s)
        except BackendError as error:
            reason = str(error)
    if reason is not None:
        traffic = _from_emulator(session, jobs, reason)
    # A file's sweep is counted whole, wrong rungs of it as well.
    known = {key: traffic[key] for key in right if key in traffic}
    return tuple(_with_traffic(run, known.get((run.rung, run.shape)), session) for run in runs)


def _with_traffic(run: Run, traffic: Traffic | None, session: Session) -> Run:
    return run if traffic is None else placed(replace(run, traffic=traffic), session.roofs)


def _from_ncu(jobs: Sequence[Job], timeout_s: float) -> dict[Key, Traffic]:
    names = list(dict.fromkeys(_name(rung) for rung, _ in jobs))
    shapes = list(dict.fromkeys(shape for _, shape in jobs))
    # Cold: what a launch moves does not then depend on the one before, and DRAM traffic below the size of L2 is seen.
    return count_with_ncu(names, shapes, cold=True, timeout_s=timeout_s * len(jobs))


def _name(rung: Rung) -> str:
    """What the catalogue finds the rung by, wherever its file is."""
    return str(rung.path)


def _from_emulator(session: Session, jobs: Sequence[Job], reason: str) -> dict[Key, Traffic]:
    affordable = [job for job in jobs if job[1].flop <= AFFORDABLE_FLOP]
    say(f"No hardware counters: {reason}.")
    if len(affordable) < len(jobs):
        say(f"{len(jobs) - len(affordable)} rows stay without counts: the emulator takes shapes up to 512x512x512.")
    if not affordable:
        return {}
    say(f"Counting {len(affordable)} rows on the emulator ...")
    device = replace(session.device, backend="emulated")
    profile = Profile(name=session.profile.name, device=device, roofs=session.roofs)
    start = Climber("emulated", profile, session.roofs, prove=False, time=False, engine=session.engine)
    found: dict[Key, Traffic] = {}
    with Display(len(affordable)) as display:

        def on_start(index: int, job: Job) -> None:
            display.started(index, f"{job[0].name} {job[1]}")

        with closing(replace(session, backend="emulated").run(affordable, start, on_start, _failed)) as ends:
            for end in ends:
                rung, shape = end.job
                got = end.result.traffic if end.result is not None else None
                if got is not None:
                    found[rung.name, shape] = got
                display.finished(end.index, f"{rung.name} {shape}: {'counted' if got else 'not counted'}")
                for note in end.result.notes if end.result is not None else ():
                    display.note(note)
    return found


def _failed(run: Run) -> bool:
    return run.failed
