"""``ladder experiment``: the law of the tile edge, the transition to shared memory, asked against counted bytes."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ladder.cli import experiment_tables as tables
from ladder.cli.console import complain, say, show
from ladder.cli.options import Backend, BackendOption, EngineName, EngineOption, Jobs, ProfileOption, Timeout
from ladder.cli.progress import Display
from ladder.cli.session import Limits, Session, ensure_writable, now, prepare
from ladder.experiments import EXPERIMENTS, AskedRow, Experiments, plan, save
from ladder.experiments.plan import Product, Streamed
from ladder.experiments.run import Jobs as Plan
from ladder.experiments.run import asked_bytes, counts_of, gathered, with_asked, with_counts
from ladder.experiments.work import Worker, compiler
from ladder.model import Shape
from ladder.store import Run
from ladder.workers import DEFAULT_TIMEOUT_S, Finished

__all__ = ["experiment"]

MOST_WORKERS = 16

Job = Product | Streamed
Row = Run | AskedRow


class Name(StrEnum):
    """Which experiment."""

    LAW = "law"
    TRANSITION = "transition"
    ASKED = "asked"


def experiment(
    context: typer.Context,
    names: Annotated[
        list[Name] | None,
        typer.Argument(metavar="law|transition|asked", help="Which experiments; none means all three."),
    ] = None,
    *,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            "--shape",
            metavar="MxNxK",
            help="Sizes of the products; may be repeated. Default: one that L2 holds and, for the law and the "
            "transition, one that it does not.",
        ),
    ] = None,
    backend: BackendOption = Backend.AUTO,
    profile: ProfileOption = None,
    engine: EngineOption = EngineName.AUTO,
    json: Annotated[
        Path | None, typer.Option("--json", metavar="OUT.json", help="Keep what was found here, for ladder report.")
    ] = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    jobs: Jobs = None,
) -> None:
    """Run the experiments that the ladder is about.

    law: intensity at L1, L2 and DRAM against the tile edge T = 4 ... 64, with fitted slopes. transition: what each
    level allows as T grows, then padding 0 ... 8 and 32 against bank conflicts. asked: every kernel placed by the bytes
    that its lanes ask for and by those that DRAM moved.

    Exit code: 0, 1 a kernel is wrong or failed, 2 usage, 130 interrupted.
    """
    if json is not None:
        ensure_writable(json, "--json")
    limits = Limits(timeout_s=timeout, workers=jobs)
    session = prepare(
        rungs=[], shapes=shape or [], backend=backend, profile=profile, limits=limits, engine=engine.value, measure=True
    )
    wanted = {name.value for name in names or []} or set(EXPERIMENTS)
    arguments: Any = context.obj
    found = _experiments(session, wanted, session.shapes if shape else (), shlex.join(["ladder", *arguments]))
    if json is not None:
        save(found, json)
    for table in tables.of(found, wanted):
        show(table)
    if json is not None:
        say(f"Experiments: {json}")
    raise typer.Exit(_verdict(found))


def _experiments(session: Session, wanted: set[str], shapes: Sequence[Shape], command: str) -> Experiments:
    where = session.backend
    edges: tuple[Product, ...] = ()
    padding: tuple[Product, ...] = ()
    asked: tuple[Job, ...] = ()
    if wanted & {"law", "transition"}:
        edges = plan.edges(shapes or plan.LAW_SHAPES[where], where)
    if "transition" in wanted:
        padding = plan.padded(shapes[0] if shapes else plan.PADDING_SHAPE[where])
    if "asked" in wanted:
        asked = plan.asked(shapes[0] if shapes else plan.ASKED_SHAPE[where], session.device)
    todo = Plan(edges, padding, asked)
    say(session.about)
    start = Worker(session.backend, session.profile, session.roofs, engine=session.engine)
    beside = replace(session, backend="emulated", limits=replace(session.limits, workers=_workers(session)))
    if where == "cuda":
        say(f"Compiling {len(todo.all)} kernels ...")
        with closing(beside.run(todo.all, partial(compiler, session.device), _ignore, lambda _: False)) as ends:
            for _ in ends:
                pass
    rows = _watched(session, todo.all, start)
    if where == "emulated":
        found_edges, found_padding, found_asked = todo.split(rows)
    else:
        say("Reading the GPU's counters with ncu, and counting on the emulator what lanes ask for ...")
        of_asked = rows[len(rows) - len(asked) :]
        # ncu waits for the GPU, the emulator for the CPU: neither disturbs the other's counts.
        with ThreadPoolExecutor(max_workers=1) as aside:
            counting = aside.submit(counts_of, todo.all, rows)
            lanes = asked_bytes(asked, of_asked, _runner(beside), session.device, session.roofs)
            counts, why = counting.result()
        if why is not None:
            say(f"No hardware counters: {why}.")
        found_edges, found_padding, found_asked = todo.split(with_counts(todo.all, rows, counts, session.roofs))
        found_asked = with_asked(found_asked, lanes)
    return Experiments(
        created=now(), command=command, device=session.device, roofs=session.roofs, edges=found_edges,
        padding=found_padding, asked=found_asked,
    )  # fmt: skip


def _workers(session: Session) -> int:
    """Processes that compile or emulate at once: nothing is timed meanwhile."""
    return session.limits.workers or min(os.cpu_count() or 1, MOST_WORKERS)


def _ignore(_index: int, _job: Job) -> None:
    """Nothing to show when it starts."""


def _watched(session: Session, jobs: Sequence[Job], start: Worker) -> list[Row]:
    with Display(len(jobs), said=session.about) as display:

        def finished(index: int, row: Row) -> None:
            display.finished(index, f"{jobs[index].name}: {_problem(row) or _skipped(row) or 'done'}")

        return gathered(jobs, _runner(session, display), start, finished=finished)


def _runner(session: Session, display: Display | None = None) -> Any:
    """Runs jobs in the session's worker processes."""

    def run(jobs: Sequence[Job], start: Callable[[], Callable[[Job], Row]]) -> Generator[Finished[Job, Row]]:
        def on_start(index: int, job: Job) -> None:
            if display is not None:
                display.started(index, job.name)

        with closing(session.run(jobs, start, on_start, lambda row: _problem(row) is not None)) as ends:
            yield from ends

    return run


def _problem(row: Row) -> str | None:
    """Why a row is not what it should be; a skipped one is all right."""
    if isinstance(row, AskedRow):
        return row.problem
    return row.error or (row.check.failure if row.check else None)


def _skipped(row: Row) -> str | None:
    return None if isinstance(row, AskedRow) or row.skipped is None else "skipped"


def _verdict(found: Experiments) -> int:
    wrong = [(row.rung, _problem(row)) for row in (*found.edges, *found.padding) if _problem(row)]
    wrong += [(row.name, row.problem) for row in found.asked if row.problem]
    for name, problem in wrong:
        complain(f"{name}: {problem}")
    return 1 if wrong else 0
