"""Where memories and pipes meet, on this card and on the known ones: the rows of a small table."""

from __future__ import annotations

from dataclasses import dataclass

from ladder.report.text import LEVEL_NAMES, ROOF_NAMES, number, si
from ladder.ridges import LEVELS, known_cards, moves
from ladder.store import Results

__all__ = ["HEAD", "RidgeRow", "ridge_rows"]

HEAD = tuple(LEVEL_NAMES[level] for level in LEVELS)
"""The memories, as columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RidgeRow:
    """One pipe of one card.

    Attributes:
        card: its name.
        pipe: the pipe's name.
        peak: the pipe's, with its unit.
        own: whether these are the roofs of the results that the page is of.
        points: by memory, FLOP/byte at the ridge and the factor against the first row that has it; a dash for a memory
            without a roof.
    """

    card: str
    pipe: str
    peak: str
    own: bool
    points: tuple[str, ...]


def ridge_rows(results: Results) -> tuple[RidgeRow, ...]:
    """A row for each pipe of the known cards; the card of ``results`` with its own roofs."""
    device = results.device
    return tuple(
        RidgeRow(
            card=row.card,
            pipe=ROOF_NAMES.get(row.pipe, row.pipe),
            peak=si(row.flop_per_s, "FLOP/s"),
            own=row.card == device.name,
            points=tuple(
                f"{number(row.flop_per_byte[level])} (× {number(row.factor[level])})"
                if level in row.flop_per_byte
                else "–"
                for level in LEVELS
            ),
        )
        for row in moves(known_cards(device, results.roofs))
    )
