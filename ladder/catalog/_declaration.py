"""The TOML declaration inside a ``.cu`` file's comments: find it, read it, and blame the right line."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ladder.errors import CatalogError

__all__ = ["Declaration", "parse_declaration", "read_declaration"]

_OPEN = r"\s*//\s*///\s*{fence}\s*"
_CLOSE = re.compile(r"\s*//\s*///\s*")
_COMMENT = re.compile(r"\s*// ?(.*)")
_TOML_LINE = re.compile(r"\s*\(at line (\d+), column \d+\)|\s*\(at end of document\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A rung's declaration as parsed TOML, with the lines it was written on.

    Attributes:
        path: the ``.cu`` file.
        source: its whole text.
        prose: the comment text above the declaration, without the slashes.
        values: the parsed TOML.
        first_line: 1-based line of the opening fence.
        lines: the TOML lines, the first of them on ``first_line + 1``.
    """

    path: Path
    source: str
    prose: str
    values: dict[str, Any]
    first_line: int
    lines: tuple[str, ...]

    def line_of(self, key: str) -> int:
        """The line that sets ``key``; failing that its table's, for a dotted key; failing that the opening fence's."""
        top, _, leaf = key.partition(".")
        top_pattern = re.compile(rf"""\s*(?:\[\s*){{0,2}}["']?{re.escape(top)}["']?\s*[=.\]]""")
        leaf_pattern = re.compile(rf"""\b{re.escape(leaf)}["']?\s*=""")
        numbered = list(enumerate(self.lines, start=self.first_line + 1))
        table = next((number for number, line in numbered if top_pattern.match(line)), self.first_line)
        if not leaf:
            return table
        return next((number for number, line in numbered if number >= table and leaf_pattern.search(line)), table)

    def refuse(self, key: str, what: str, fix: str) -> NoReturn:
        """Raise the one form of error that a bad key gets.

        Raises:
            CatalogError: always.
        """
        raise CatalogError(f"{self.path}:{self.line_of(key)}: key {key!r}: {what}; {fix}")


def read_declaration(path: Path, *, fence: str = "rung") -> Declaration:
    """Read ``path`` and parse the declaration between its two fences, the first of which says ``fence``.

    Raises:
        CatalogError: the file cannot be read, is not UTF-8, has no declaration or two of them, has one that does not
            end, or one that is not TOML.
    """
    return parse_declaration(path, _read(path), fence=fence)


def parse_declaration(path: Path, source: str, *, fence: str = "rung") -> Declaration:
    """The declaration in ``source``, the text of ``path``.

    Raises:
        CatalogError: as :func:`read_declaration`.
    """
    lines = source.removesuffix("\n").split("\n")
    opening = re.compile(_OPEN.format(fence=fence))
    opened = [number for number, line in enumerate(lines, start=1) if opening.fullmatch(line)]
    if not opened:
        raise CatalogError(
            f"{path}:1: no declaration; add comment lines that start with `// /// {fence}`, end with `// ///`, and "
            f'hold at least `// title = "..."` and `// kernel = "..."`'
        )
    if len(opened) > 1:
        raise CatalogError(
            f"{path}:{opened[1]}: a second declaration; one file holds one {fence}: move it to its own file"
        )
    first = opened[0]
    body = _body(path, lines, first)
    return Declaration(
        path=path,
        source=source,
        prose=_prose(lines[: first - 1]),
        values=_parse(path, body, first),
        first_line=first,
        lines=tuple(body),
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise CatalogError(f"{path}:{line}: not UTF-8 ({error.reason}); save the file as UTF-8") from error
    except OSError as error:
        raise CatalogError(f"{path}: cannot be read: {error.strerror or error}; check the path") from error


def _body(path: Path, lines: list[str], first: int) -> list[str]:
    body: list[str] = []
    for number, line in enumerate(lines[first:], start=first + 1):
        if _CLOSE.fullmatch(line):
            return body
        comment = _COMMENT.fullmatch(line)
        if comment is None:
            raise CatalogError(
                f"{path}:{number}: the declaration opened on line {first} has not ended, and this line is no comment; "
                f"start each of its lines with `//` and end it with `// ///`"
            )
        body.append(comment.group(1))
    raise CatalogError(f"{path}:{first}: the declaration does not end; close it with `// ///`")


def _parse(path: Path, body: list[str], first: int) -> dict[str, Any]:
    try:
        return tomllib.loads("\n".join(body))
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        place = _TOML_LINE.search(message)
        inside = int(place.group(1)) if place and place.group(1) else len(body)
        inside = min(inside, len(body))
        what = _TOML_LINE.sub("", message)
        text = body[inside - 1].strip() if inside else ""
        key = re.match(r"[\w.-]+(?=\s*=)", text)
        where = f"key {key.group()!r}" if key else "declaration"
        raise CatalogError(f"{path}:{first + inside}: {where}: not TOML: {what}; the line reads `{text}`") from error


def _prose(lines: list[str]) -> str:
    """The comment that ends right above the fence, without its slashes."""
    text: list[str] = []
    for line in reversed(lines):
        comment = _COMMENT.fullmatch(line)
        if comment is None:
            break
        text.append(comment.group(1).rstrip())
    return "\n".join(reversed(text)).strip("\n")
