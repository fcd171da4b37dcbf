"""Arguments and options that several commands have, and what a shell completes in them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ladder import catalog, profiles
from ladder.errors import LadderError

__all__ = [
    "Backend",
    "BackendOption",
    "EngineName",
    "EngineOption",
    "Jobs",
    "ProfileOption",
    "Rungs",
    "Shapes",
    "Timeout",
    "complete_profile",
    "complete_rung",
]


def complete_rung(incomplete: str) -> list[str]:
    """Names of rungs, and ``.cu`` files and folders, that begin with what was typed."""
    try:
        names = [rung.name for rung in catalog.load_catalog()]
    except LadderError:
        names = []
    head = incomplete[: incomplete.rfind("/") + 1]
    files = [f"{head}{path.name}{'/' if path.is_dir() else ''}" for path in sorted(Path(head or ".").glob("*"))]
    given = [name for name in files if name.endswith((".cu", "/")) and not name.removeprefix(head).startswith(".")]
    return [name for name in (*names, *given) if name.startswith(incomplete)]


def complete_profile(incomplete: str) -> list[str]:
    """Names of the packaged profiles that begin with what was typed."""
    return [name for name in profiles.available() if name.startswith(incomplete.lower())]


Rungs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RUNG|FILE.cu",
        help="Names of rungs or paths of .cu files; none means all of them.",
        autocompletion=complete_rung,
    ),
]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="MxNxK",
        help="Sizes; may be repeated. Default: 256x256x256, on a GPU 4096x4096x4096.",
    ),
]


class Backend(StrEnum):
    """Where to run."""

    AUTO = "auto"
    CUDA = "cuda"
    EMULATED = "emulated"


BackendOption = Annotated[
    Backend,
    typer.Option("--backend", help="Where to run; auto is a GPU if there is one, else the emulator."),
]
ProfileOption = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        autocompletion=complete_profile,
        help="Recorded GPU to emulate, or a TOML file of one; its roofs place the rungs. Default: h200.",
    ),
]
Timeout = Annotated[
    float, typer.Option("--timeout", metavar="S", help="Seconds that one rung may take before its process is stopped.")
]


class EngineName(StrEnum):
    """What executes PTX on the CPU."""

    AUTO = "auto"
    NUMPY = "numpy"
    C = "c"


EngineOption = Annotated[
    EngineName,
    typer.Option("--engine", help="What executes PTX on the CPU; auto is C if there is a compiler, else numpy."),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", metavar="N", help="Rungs at once. Default: the CPUs, at most 4, and one on a GPU."),
]
