"""What a card and its host did while products were timed that makes the times hard to compare, in sentences."""

from __future__ import annotations

from collections.abc import Iterable

from ladder.model import STEADY_CLOCK, Watched
from ladder.store import Run

__all__ = ["remarks"]

NAMED = 6
"""Rows that a sentence names; the rest is a count."""


def remarks(runs: Iterable[Run]) -> tuple[str, ...]:
    """Sentences for clocks that moved by more than 2 %, for each thing that held them down, and for a late host.

    Rows are named with their shapes, unless these are all the same.
    """
    timed = [(run, run.time) for run in runs if run.time is not None]
    one_shape = len({run.shape for run, _ in timed}) == 1
    moved: list[str] = []
    held: dict[str, list[str]] = {}
    late: list[str] = []
    for run, time in timed:
        name = run.rung if one_shape else f"{run.rung} {run.shape}"
        seen = time.watched or Watched()
        if time.late:
            late.append(f"{name} ({time.late} of {time.samples} samples)")
        spread, low, high = seen.clock_spread, seen.sm_clock_low_hz, seen.sm_clock_high_hz
        if spread is not None and low is not None and high is not None and spread > STEADY_CLOCK:
            moved.append(f"{name} ({low / 1e9:.3f} to {high / 1e9:.3f} GHz)")
        for limit in seen.limits:
            held.setdefault(limit, []).append(name)
    lines = [f"The SM clock was held down ({limit}) while timing {_listed(names)}." for limit, names in held.items()]
    if moved:
        lines.insert(0, f"The SM clock moved by more than {100 * STEADY_CLOCK:g} % while timing {_listed(moved)}.")
    if late:
        lines.append(f"The host queued launches too late, so that its gaps may be in the time of {_listed(late)}.")
    return tuple(lines)


def _listed(names: list[str]) -> str:
    more = f", and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"
