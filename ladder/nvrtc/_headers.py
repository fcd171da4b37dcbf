"""Which headers a source includes, so that the cache knows when one of them changes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

__all__ = ["included"]

_INCLUDE = re.compile(r"""(?:^[ \t]*\#[ \t]*include|__has_include[ \t]*\()[ \t]*["<]([^">\n]+)[">]""", re.MULTILINE)


def included(source: str, *, folder: Path, include_path: Sequence[Path]) -> dict[Path, bytes]:
    """Contents of every header that ``source`` names and that is found, and of those they name in turn.

    A name is looked for beside the file that includes it, then along ``include_path``. Conditional includes all count;
    a header that is found nowhere is NVRTC's own, or its error to report.
    """
    found: dict[Path, bytes] = {}
    pending = [(source, folder)]
    while pending:
        text, here = pending.pop()
        for name in _INCLUDE.findall(text):
            header = next((p for p in (root / name for root in (here, *include_path)) if p.is_file()), None)
            if header is None or header.resolve() in found:
                continue
            try:
                content = header.read_bytes()
            except OSError:  # NVRTC will say so, with the line that includes it
                continue
            found[header.resolve()] = content
            pending.append((content.decode(errors="replace"), header.parent))
    return found
