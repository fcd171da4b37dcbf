"""Results files on disk: read with a reason when they cannot be, written whole or not at all."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ladder.errors import LadderError, StoreError
from ladder.store._json import SCHEMA, from_json, to_json
from ladder.store._rows import Results

__all__ = ["load", "read_as", "save", "write_whole"]

Read = TypeVar("Read")


def save(results: Results, path: str | Path) -> None:
    """Write ``results`` to ``path`` as JSON, whole or not at all.

    Raises:
        StoreError: the folder cannot be made or written.
    """
    write_whole(Path(path), _SAMPLES.sub(_in_a_line, json.dumps(to_json(results), indent=1)) + "\n")


_SAMPLES = re.compile(r'(?<="kept": \[)[^]]*(?=])')


def _in_a_line(samples: re.Match[str]) -> str:
    """Numbers of a list that stand on a line each, on one."""
    return " ".join(samples[0].split())


def write_whole(path: Path, text: str) -> None:
    """Write ``text`` to ``path``, whole or not at all: a temporary file in the same folder, then a rename.

    Raises:
        StoreError: the folder cannot be made or written.
    """
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise StoreError(f"cannot write {path}: {error.strerror or error}. Choose another path.") from error


def read_as(
    path: str | Path,
    schema: str,
    parse: Callable[[Mapping[str, Any]], Read],
    *,
    made_by: str,
    others: Mapping[str, str] | None = None,
) -> Read:
    """What ``parse`` makes of the JSON object at ``path``.

    Args:
        path: of the file.
        schema: what its ``schema`` has to be.
        parse: from the object; what it raises because of a value says that the file is damaged.
        made_by: the command that writes such files, told when the schema is another.
        others: what to do with a file of another schema, by the beginning of its name.

    Raises:
        StoreError: no such file, not JSON, not of this schema, or damaged.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise StoreError(f"{path} is not JSON: {error}") from error
    found = data.get("schema") if isinstance(data, dict) else type(data).__name__
    if not isinstance(data, dict) or found != schema:
        hints = [f"; {words}" for begin, words in (others or {}).items() if str(found).startswith(begin)]
        raise StoreError(
            f"{path} is not schema {schema} (found {found!r}); this takes what {made_by} wrote{''.join(hints)}"
        )
    try:
        return parse(data)
    except (KeyError, TypeError, ValueError, AttributeError, LadderError) as error:
        raise StoreError(f"{path}: damaged {schema} file: {type(error).__name__}: {error}") from error


def load(path: str | Path) -> Results:
    """Read a results file, as ``ladder run --json`` and :func:`save` write them.

    Raises:
        StoreError: no such file, not JSON, or not schema ``ladder/1``.
    """
    experiments = {"ladder-experiments/": f"give it as --experiments {path}"}
    return read_as(path, SCHEMA, from_json, made_by="`ladder run --json OUT.json`", others=experiments)
