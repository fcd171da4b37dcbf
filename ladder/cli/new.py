"""``ladder new``: a right, commented file to start a rung from."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ladder import catalog
from ladder.cli.console import say
from ladder.cli.options import complete_rung
from ladder.errors import InputError, StoreError

__all__ = ["new"]


def new(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="What the file, its kernel and its rung are called: letters, digits, underscores. A number in front, "
            "as in 18_mine, gives it a place on the ladder.",
        ),
    ],
    *,
    like: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="RUNG|FILE.cu",
            help="Copy this rung's file instead of the small tiled kernel.",
            autocompletion=complete_rung,
        ),
    ] = None,
    folder: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="Folder of the file; it is made if need be.")
    ] = Path(),
) -> None:
    """Write NAME.cu, a right file to start a rung from.

    It runs as it is; fill in what its header says. A file that is there already is never overwritten. Exit code: 0, or
    2 if the name or the folder cannot be used.
    """
    rungs = None if like is None else catalog.find([like])
    text = catalog.starting_file(name, like=None if rungs is None else rungs[0])
    path = folder / f"{name}.cu"
    _write(path, text)
    declared = catalog.parse_file(path)
    say(f"Wrote {path}: {', '.join(f'{rung.name}, {rung.title!r}' for rung in declared)}.")
    say("Next, prove it, count its traffic and place it; then look for a shape that it gets wrong:")
    for command in ("run", "check"):
        say(f"  {shlex.join(['ladder', command, str(path)])}")


def _write(path: Path, text: str) -> None:
    """Write ``text`` to ``path``, which must not be there yet."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError as error:
        if not path.exists():
            raise StoreError(f"--dir {path.parent} is a file; name a folder") from error
        raise InputError(
            f"{path} is there already and is left as it is; choose another name or another --dir"
        ) from error
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}; choose another --dir") from error
