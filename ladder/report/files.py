"""Put finished files into the report's folder: each one whole or not at all, the pages last."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ladder.errors import StoreError

__all__ = ["FIGURES", "MARKER", "put"]

FIGURES = "figures"
"""Folder of the figures inside the report's."""

MARKER = "<!-- made by: ladder report -->"
"""First line of a page of ours: only beside such a page are figures of an earlier report removed."""

_OURS = re.compile(r"[a-z0-9-]+-(?:\d+x\d+x\d+-(?:roofline|bounds|law|banks)|l2-limit)\.(?:svg|png)")


def put(out: Path, figures: Mapping[str, bytes], pages: Mapping[str, bytes]) -> None:
    """Write ``figures`` into ``out/figures`` and ``pages`` into ``out``.

    Everything is first written beside its place and then renamed: figures, then pages, so that a page never shows a
    figure which is not there yet. A failure leaves what was there before, or whole new files, and no part files.
    Figures of an earlier report that this one no longer has are removed.

    Raises:
        StoreError: the folder cannot be made or written.
    """
    staged: list[tuple[Path, Path]] = []
    folder = out / FIGURES
    try:
        ours = _made_by_us(out)
        folder.mkdir(parents=True, exist_ok=True)
        for parent, files in ((folder, figures), (out, pages)):
            for name, content in files.items():
                _stage(parent / name, content, staged)
        for part, place in staged:
            part.replace(place)
        if ours:
            for path in sorted(folder.iterdir()):
                if path.name not in figures and _OURS.fullmatch(path.name):
                    path.unlink()
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(
            f"cannot write the report to {out}: {reason}. Choose a folder that you can write with --out."
        ) from error
    finally:
        for part, _place in staged:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)


def _stage(place: Path, content: bytes, staged: list[tuple[Path, Path]]) -> None:
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.", suffix=".part")
    part = Path(name)
    staged.append((part, place))
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.chmod(0o644)


def _made_by_us(out: Path) -> bool:
    page = out / "index.md"
    try:
        with page.open(encoding="utf-8", errors="replace") as file:
            return file.readline().strip() == MARKER
    except FileNotFoundError:
        return False
