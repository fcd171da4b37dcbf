"""The commands and their options. What they do is in :mod:`ladder.cli.commands`."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import ladder
from ladder import catalog
from ladder.cli import commands, tables
from ladder.cli.ceilings import ceilings
from ladder.cli.compare import compare
from ladder.cli.console import say, show
from ladder.cli.diff import diff
from ladder.cli.experiment import experiment
from ladder.cli.explain import explain
from ladder.cli.new import new
from ladder.cli.options import (
    Backend,
    BackendOption,
    EngineName,
    EngineOption,
    Jobs,
    ProfileOption,
    Rungs,
    Shapes,
    Timeout,
)
from ladder.cli.profile import profile as make_profile
from ladder.cli.session import Limits, Session, ensure_writable, prepare
from ladder.climb import Searcher
from ladder.counters import ncu_status
from ladder.errors import InputError
from ladder.workers import DEFAULT_TIMEOUT_S

__all__ = ["app"]

LAST_RUN = Path("docs/report/results.json")
"""Where ``make ladder`` keeps its results, in the folder that it was called in."""

app = typer.Typer(
    name="ladder",
    help="A ladder of CUDA matmul kernels: each compiled, proved right, counted and placed on a nested roofline, with "
    "a GPU and without.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        say(f"ladder {ladder.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options before the command."""


@app.command("list")
def list_rungs(rungs: Rungs = None) -> None:
    """List the rungs: tile, threads, what each needs."""
    show(tables.catalogue(catalog.find(rungs or [])))


@app.command()
def run(
    context: typer.Context,
    rungs: Rungs = None,
    *,
    shape: Shapes = None,
    backend: BackendOption = Backend.AUTO,
    profile: ProfileOption = None,
    engine: EngineOption = EngineName.AUTO,
    json: Annotated[
        Path | None,
        typer.Option("--json", metavar="OUT.json", help="Keep the results here, written after every rung."),
    ] = None,
    scaling: Annotated[
        bool,
        typer.Option(
            "--scaling",
            help="Add N = 2048, 4096 and 8192 (on a GPU 1024), to see where L2 stops holding the "
            "operands. The emulator counts them from a few threadblocks and does not check them.",
        ),
    ] = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    jobs: Jobs = None,
) -> None:
    """Check, count, time and place rungs.

    Exit code: 0 all right (a skipped rung is not wrong), 1 a rung is wrong or failed, 2 usage, 130 interrupted.
    """
    if json is not None:
        ensure_writable(json, "--json")
    session = _session(
        rungs, shape, backend, profile, Limits(timeout_s=timeout, workers=jobs), engine, measure=True, scaling=scaling
    )
    table = partial(tables.places, roofs=session.roofs)
    raise typer.Exit(commands.climb_rungs(session, time=True, command=_command(context), output=json, table=table))


@app.command()
def count(
    context: typer.Context,
    rungs: Rungs = None,
    *,
    shape: Shapes = None,
    backend: BackendOption = Backend.AUTO,
    profile: ProfileOption = None,
    engine: EngineOption = EngineName.AUTO,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    jobs: Jobs = None,
) -> None:
    """Count the bytes that rungs move at each level, and what their warps do.

    Bytes, wavefronts, requests, intensities and FP32 work: a GPU's own counters where ncu can read them, with occupancy
    and what warps wait for, else exact counts of the emulator. Only what is right is counted.
    """
    limits = Limits(timeout_s=timeout, workers=jobs)
    session = _session(rungs, shape, _with_counters(backend), profile, limits, engine)
    raise typer.Exit(
        commands.climb_rungs(
            session,
            time=False,
            command=_command(context),
            output=None,
            table=tables.traffic,
            more=tables.activity,
        )
    )


@app.command()
def check(
    rungs: Rungs = None,
    *,
    shape: Shapes = None,
    backend: BackendOption = Backend.AUTO,
    profile: ProfileOption = None,
    engine: EngineOption = EngineName.AUTO,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    jobs: Jobs = None,
    examples: Annotated[
        int, typer.Option("--examples", metavar="N", min=1, help="Products that hypothesis draws for each rung.")
    ] = 60,
    budget: Annotated[
        float, typer.Option("--budget", metavar="S", help="Seconds after which nothing new is drawn for a rung.")
    ] = 60.0,
) -> None:
    """Search for the smallest shape that rungs get wrong.

    Tries the given shapes, then those that kernels are known to get wrong, then what hypothesis draws, and shrinks what
    fails. Exit code: 0 nothing found, 1 a rung is wrong or failed, 2 usage, 130 interrupted.
    """
    if not budget > 0:
        raise InputError(f"--budget {budget:g}: give seconds, more than 0")
    session = _session(rungs, shape, backend, profile, Limits(timeout_s=timeout, workers=jobs), engine)
    shapes = session.shapes if shape else ()
    searcher = Searcher(
        session.backend, session.profile, shapes, examples=examples, budget_s=budget, engine=session.engine
    )
    raise typer.Exit(commands.check_rungs(session, searcher))


@app.command()
def report(
    results: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RESULTS.json", help=f"What ladder run --json wrote. Default: {LAST_RUN}."),
    ] = None,
    *,
    experiments: Annotated[
        list[Path] | None,
        typer.Option("--experiments", metavar="EXP.json", help="What ladder experiment --json wrote; may be repeated."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the report.")] = LAST_RUN.parent,
) -> None:
    """Make a report of results: Markdown, HTML, figures."""
    raise typer.Exit(commands.write_report(results or [LAST_RUN], out, experiments=experiments or []))


@app.command()
def doctor() -> None:
    """Say what was found here, and the fix for the rest.

    Python, packages, NVRTC, compiler cache, GPU and driver, ncu. Exit code: 0 if rungs can be emulated, else 1.
    """
    raise typer.Exit(commands.examine())


for command in (ceilings, experiment, new, explain, diff, compare):
    app.command()(command)
app.command("profile")(make_profile)


def _session(
    rungs: list[str] | None,
    shapes: list[str] | None,
    backend: Backend,
    profile: str | None,
    limits: Limits,
    engine: EngineName,
    *,
    measure: bool = False,
    scaling: bool = False,
) -> Session:
    return prepare(
        rungs=rungs or [],
        shapes=shapes or [],
        backend=backend,
        profile=profile,
        limits=limits,
        engine=engine.value,
        measure=measure,
        scaling=scaling,
    )


def _with_counters(backend: Backend) -> Backend:
    """A backend that can count."""
    if backend == Backend.EMULATED:
        return backend
    reason = ncu_status()
    if reason is None:
        return Backend.CUDA
    if backend == Backend.CUDA:
        raise InputError(f"{reason}. Count with --backend emulated")
    return Backend.EMULATED


def _command(context: typer.Context) -> str:
    arguments: Any = context.obj
    return shlex.join(["ladder", *arguments])
