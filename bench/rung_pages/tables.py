"""Markdown tables of the pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

__all__ = ["Column", "cells", "table"]

Row = TypeVar("Row")
Column = tuple[str, Callable[[Row], str]]
"""A heading, and what a row shows under it; nothing where it has nothing to show."""


def table(rows: Sequence[Row], columns: Sequence[Column[Row]]) -> Iterator[str]:
    """A table without the columns that no row fills."""
    yield from cells([title for title, _ in columns], [[cell(row) for _, cell in columns] for row in rows])


def cells(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The same from texts."""
    kept = [i for i in range(len(titles)) if any(row[i] for row in rows)]
    yield f"| {' | '.join(titles[i] for i in kept)} |"
    yield f"|{'---|' * len(kept)}"
    for row in rows:
        yield f"| {' | '.join(row[i] for i in kept)} |"
