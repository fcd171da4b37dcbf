"""Rungs emulated at one small shape, for commands that tell of rungs rather than run them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ladder.cli.options import complete_profile
from ladder.cli.session import Limits, Session, now, prepare
from ladder.climb import Climber, blank
from ladder.store import Results
from ladder.workers import DEFAULT_TIMEOUT_S

if TYPE_CHECKING:
    from ladder.report.study import Study

__all__ = ["SHAPE", "ProfileOption", "ShapeOption", "examine"]

SHAPE = "256x256x256"

ShapeOption = Annotated[str, typer.Option("--shape", metavar="MxNxK", help="Sizes to count and place at.")]
ProfileOption = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="Recorded GPU to compile for and to emulate, or a TOML file of one. Default: h200.",
        autocompletion=complete_profile,
    ),
]


def examine(names: Sequence[str], shape: str, profile: str | None) -> tuple[Session, tuple[Study, ...]]:
    """What is known of the rungs called ``names``, proved and counted by the emulator at ``shape``.

    Raises:
        LadderError: something the user gave cannot be used, or NVRTC is missing.
    """
    from ladder.report.study import studies  # noqa: PLC0415 -- the report's libraries take a second

    limits = Limits(timeout_s=DEFAULT_TIMEOUT_S)
    session = prepare(rungs=names, shapes=[shape], backend="emulated", profile=profile, limits=limits)
    start = Climber(session.backend, session.profile, session.roofs, time=False, engine=session.engine)
    with closing(session.run(session.jobs, start, lambda *_: None, lambda run: run.failed)) as ends:
        rows = {end.index: end.result or replace(blank(*end.job), error=end.failure) for end in ends}
    runs = tuple(rows[index] for index in sorted(rows))
    results = Results(created=now(), command="", device=session.device, roofs=session.roofs, runs=runs)
    return session, studies(session.rungs, results)
