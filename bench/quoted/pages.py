"""The marks in a page, and what belongs between them."""

from __future__ import annotations

import re
from pathlib import Path

from bench.quoted.values import value

__all__ = ["PAGES", "quoted", "unquoted"]

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = tuple(DOCS / name for name in ("reading-the-roofline.md", "questions.md", "tuning.md"))

_MARKED = re.compile(r"<!--= (?P<words>[^>]+?) -->(?P<old>.*?)<!--=-->", re.DOTALL)
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_LINK = re.compile(r"\]\([^)]*\)")
_NUMBER = re.compile(r"\d+\.\d+")


def quoted(text: str) -> str:
    """``text`` with everything between its marks made again.

    Raises:
        ValueError: a mark asks for what :func:`bench.quoted.values.value` does not know.
    """

    def again(found: re.Match[str]) -> str:
        made = value(found["words"].split())
        inside = f"\n{made}\n" if "\n" in made else made
        return f"<!--= {found['words']} -->{inside}<!--=-->"

    return _MARKED.sub(again, text)


def unquoted(text: str) -> list[str]:
    """Numbers with a decimal point that stand in ``text`` outside marks, code and links: nothing vouches for them."""
    for pattern in (_MARKED, _CODE, _LINK):
        text = pattern.sub(" ", text)
    return _NUMBER.findall(text)
