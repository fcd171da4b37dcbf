"""What is shown while rungs run: a live display on a terminal, a plain line for each finished rung elsewhere."""

from __future__ import annotations

import textwrap
import time
from types import TracebackType
from typing import Self

from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ladder.cli.console import is_live, say, stdout

__all__ = ["Display"]

_NOTE_COLUMNS = 400
"""Of a note, which may quote a compiler at length."""


class Display:
    """Shows ``total`` jobs; use as a context manager, so that the terminal is left as it was.

    ``said`` is what the user has been told before: a note whose reason is in it is not said again.
    """

    def __init__(self, total: int, *, said: str = "") -> None:
        self._total, self._said = total, said
        self._done = 0
        self._began = time.monotonic()
        self._running: dict[int, tuple[str, float]] = {}
        self._noted: set[str] = set()
        self._spinner = Spinner("dots")
        console = stdout()
        self._live = None
        if is_live(console):
            self._live = Live(get_renderable=self._picture, console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def started(self, index: int, title: str) -> None:
        """A worker took job ``index``."""
        self._running[index] = (title, time.monotonic())

    def finished(self, index: int, line: str) -> None:
        """Job ``index`` ended; ``line`` says how."""
        self._done += 1
        _, began = self._running.pop(index)
        text = f"[{self._done:>{len(str(self._total))}}/{self._total}] {time.monotonic() - began:5.1f} s  {line}"
        if self._live is None:
            say(text)
        else:
            self._live.console.print(text)

    def note(self, text: str) -> None:
        """Something to know that is not a job's end, in a line; said once, however many jobs bring it along."""
        if text in self._noted or text.partition(": ")[2] in self._said:
            return
        self._noted.add(text)
        line = f"note: {textwrap.shorten(text, _NOTE_COLUMNS, placeholder=' ...')}"
        if self._live is None:
            say(line)
        else:
            self._live.console.print(line)

    def _picture(self) -> Table:
        now = time.monotonic()
        bar = ProgressBar(total=self._total, completed=self._done, width=24)
        picture = Table.grid(padding=(0, 2))
        picture.add_row(Text(f"{self._done} of {self._total}"), bar, Text(f"{now - self._began:.0f} s"))
        # A copy: the display's own thread draws while jobs come and go.
        for title, began in list(self._running.values()):
            picture.add_row(self._spinner, Text(title), Text(f"{now - began:.0f} s"))
        return picture
