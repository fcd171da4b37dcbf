"""The command line: arguments, progress, exit codes. The only part that prints.

Exit codes: 0 all right, 1 a rung is wrong or failed, 2 usage, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

from ladder.cli.console import complain
from ladder.errors import LadderError

__all__ = ["main"]

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``ladder`` with ``arguments`` (``sys.argv`` without them); the exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal without Unicode shows a question mark, not a traceback.
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    from ladder.cli.app import app  # noqa: PLC0415 -- Ctrl-C while the libraries load is caught as well

    try:
        given = list(sys.argv[1:] if arguments is None else arguments)
        app(args=given, prog_name="ladder", obj=given)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except LadderError as error:
        complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (``ladder list | head``); flushing what is left would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0
