"""Where text goes: rich on a terminal, plain uncut lines elsewhere."""

from __future__ import annotations

import sys
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ladder.cli.tables import Columns

__all__ = ["complain", "is_live", "say", "say_text", "show", "show_table", "stdout"]

_UNCUT = 100_000
"""Width of a pipe or a file, in columns: tables take the room that they need, and nothing is folded or cut."""


def stdout() -> Console:
    """The console of standard output as it is now (tests and pipes replace ``sys.stdout``)."""
    return _console(sys.stdout)


def is_live(console: Console) -> bool:
    """Whether a display may be redrawn in place."""
    return bool(console.file.isatty()) and not console.is_dumb_terminal


def say(text: str = "") -> None:
    """One line, or several, on standard output, flushed."""
    _print(_console(sys.stdout), text)


def say_text(text: Text) -> None:
    """One styled line on standard output, flushed."""
    _print(_console(sys.stdout), text)


def show(columns: Columns) -> None:
    """A table on standard output, flushed; on a terminal only the columns that it has room for."""
    table, caption = columns.fit(min(stdout().width, columns.most))
    show_table(table)
    if caption:
        say(caption)


def show_table(table: Table) -> None:
    """A table of rich's, after an empty line."""
    console = _console(sys.stdout)
    if is_live(console):
        console.print()
        console.print(table)
    else:
        with console.capture() as captured:
            console.print(table)
        say("\n" + "\n".join(line.rstrip() for line in captured.get().splitlines()))


def complain(text: str) -> None:
    """An error in one line, more when it quotes a compiler, on standard error."""
    _print(_console(sys.stderr), f"ladder: {text}")


def _console(stream: TextIO) -> Console:
    width = None if stream.isatty() else _UNCUT
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def _print(console: Console, text: str | Text) -> None:
    console.print(text, soft_wrap=not console.is_terminal)
    console.file.flush()
