"""The command ``ladder`` as a user's shell runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

Answer = subprocess.CompletedProcess[str]


def environment(**changes: str) -> dict[str, str]:
    """Our environment with this checkout on the path, and ``changes``."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | changes


def command(*arguments: str | Path) -> list[str]:
    """The words of the command."""
    return [sys.executable, "-m", "ladder", *map(str, arguments)]


def ladder(*arguments: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Answer:
    """Run it to its end, with no terminal."""
    return subprocess.run(
        command(*arguments),
        cwd=cwd,
        env=env or environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def rows(path: Path) -> dict[str, dict[str, Any]]:
    """The results file's rows by rung."""
    return {run["rung"]: run for run in json.loads(path.read_text(encoding="utf-8"))["runs"]}
