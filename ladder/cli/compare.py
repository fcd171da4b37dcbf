"""``ladder compare``: what changed between two results files, for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ladder import store
from ladder.cli.console import complain, say, show
from ladder.cli.tables import Column, Columns, number
from ladder.comparison import TOLERANCE, TRAFFIC_TOLERANCE, Change, Comparison, Pair, outcome
from ladder.comparison import compare as compared
from ladder.errors import InputError, StoreError
from ladder.model import LEVELS, STEADY_CLOCK, Level
from ladder.store import Results, Run

__all__ = ["compare"]

NOTHING_IN_COMMON = 2
_SHOWN = 8
"""Rows of one file that are named, before the rest is a count."""


def compare(
    before: Annotated[Path, typer.Argument(metavar="A.json", help="Results of ladder run --json, the earlier ones.")],
    after: Annotated[Path, typer.Argument(metavar="B.json", help="The later ones.")],
    *,
    tolerance: Annotated[
        float,
        typer.Option(
            "--tolerance",
            metavar="PERCENT",
            help="How much a median may change and still be the same, beside its own spread. Two sessions differ by "
            "more than the samples of one.",
        ),
    ] = 100 * TOLERANCE,
    every: Annotated[bool, typer.Option("--all", help="Show the rows that have not changed, too.")] = False,
) -> None:
    """Compare two results files, beyond the spread.

    Of each rung, shape and choice of parameters in both: the ratio of the median times, changed checks, changed bytes
    at a level, and first of all what differs about card, driver and compiler. A time has changed when the ranges from
    the 20th to the 80th percentile have nothing in common and the medians differ by more than --tolerance. Exit code: 0
    unchanged or better, 1 something got slower or is wrong and was not, 2 usage, or no row in common.
    """
    if not 0 <= tolerance < float("inf"):
        raise InputError(f"--tolerance {tolerance:g}: give percent, 0 or more")
    missing = next((path for path in (before, after) if not path.exists()), None)
    if missing is not None:
        raise StoreError(f"no results at {missing}; make them: ladder run --json {missing}")
    old, new = store.load(before), store.load(after)
    found = compared(old, new, tolerance=tolerance / 100)
    _say_sessions(old, new, before, after, found)
    if not found.pairs:
        complain(f"{before} and {after} have no rung at the same shape in common; nothing was compared")
        raise typer.Exit(NOTHING_IN_COMMON)
    _say_rows(found, tolerance, every=every)
    raise typer.Exit(int(found.worse))


def _say_sessions(old: Results, new: Results, before: Path, after: Path, found: Comparison) -> None:
    for letter, path, results in (("A", before, old), ("B", after, new)):
        device = results.device
        where = f"{device.name}{', emulated' if device.backend == 'emulated' else ''}"
        driver = f", driver {device.driver}" if device.driver else ""
        say(f"{letter}  {path}: {where}{driver}, NVRTC {device.nvrtc or 'unknown'}, {results.created[:10]}")
    if found.session:
        say(f"Different: {'; '.join(map(_change, found.session))}.")
    else:
        say("Same card, driver and NVRTC.")
    if found.roofs:
        say(f"Roofs, B/s or FLOP/s: {'; '.join(map(_change, found.roofs))}.")


def _say_rows(found: Comparison, tolerance: float, *, every: bool) -> None:
    shown = [pair for pair in found.pairs if every or pair.changed]
    timed = [pair for pair in shown if pair.ratio is not None and (every or pair.verdict != "same")]
    if timed:
        show(_times(timed))
    traffic = [pair for pair in shown if pair.moved]
    if traffic:
        show(_traffic(traffic))
    for pair in shown:
        if pair.check is not None:
            say(f"{_name(pair.after)}: {_change(pair.check)}{_why(pair.after)}")
    for letter, runs in (("A", found.only_before), ("B", found.only_after)):
        if runs:
            say(f"Only in {letter}: {_names(runs)}")
    for run in found.only_after:
        if run.failed:
            say(f"{_name(run)}, which is new, is {outcome(run)}{_why(run)}")
    for line in (*_warnings(found), *_summary(found, tolerance)):
        say(line)


def _warnings(found: Comparison) -> Iterator[str]:
    """Why times may differ though nothing was changed."""
    apart = [pair for pair in found.pairs if pair.clocks_apart is not None]
    if apart:
        worst = max(apart, key=lambda pair: pair.clocks_apart or 0)
        clocks = " and ".join(f"{(run.clock_hz or 0) / 1e9:.3f}" for run in (worst.before, worst.after))
        yield (
            f"Warning: {_rows_of(apart)} timed at SM clocks more than {100 * STEADY_CLOCK:g} % apart, "
            f"{_name(worst.after)} at {clocks} GHz ({100 * (worst.clocks_apart or 0):.1f} %): their times tell of the "
            "clocks as well."
        )
    otherwise = [pair for pair in found.pairs if pair.timed_otherwise]
    if otherwise:
        yield (
            f"Warning: {_rows_of(otherwise)} timed in a CUDA graph in one file and launch by launch in the other, "
            "which takes longer where products are short."
        )


def _rows_of(pairs: Sequence[Pair]) -> str:
    return "1 row was" if len(pairs) == 1 else f"{len(pairs)} rows were"


def _times(pairs: Sequence[Pair]) -> Columns:
    return Columns(
        columns=(
            *_rows(pairs),
            Column(head="A, us", cells=tuple(_microseconds(pair.before) for pair in pairs), spare=2),
            Column(head="B, us", cells=tuple(_microseconds(pair.after) for pair in pairs), spare=2),
            Column(head="B / A", cells=tuple(f"{pair.ratio:.3f}" for pair in pairs if pair.ratio is not None)),
            Column(head="", cells=tuple(pair.verdict or "" for pair in pairs), number=False),
            Column(head="file", cells=tuple("edited" if p.edited else "" for p in pairs), number=False, spare=1),
        ),
        caption="Median times; B / A above 1 is slower.",
    )


def _traffic(pairs: Sequence[Pair]) -> Columns:
    def ratios(level: Level) -> tuple[str, ...]:
        moved = ({each.level: each for each in pair.moved}.get(level) for pair in pairs)
        return tuple("" if each is None else f"{each.ratio:.4f}" if each.ratio is not None else "new" for each in moved)

    levels = [level for level in LEVELS if any(ratios(level))]
    return Columns(
        columns=(
            *_rows(pairs),
            *(Column(head=level, cells=ratios(level)) for level in levels),
        ),
        caption=f"Bytes by level, B / A, where they changed by more than {TRAFFIC_TOLERANCE:.1%}.",
    )


def _rows(pairs: Sequence[Pair]) -> tuple[Column, ...]:
    """What a row is of."""
    runs = [pair.after for pair in pairs]
    return (
        Column(head="rung", cells=tuple(run.rung for run in runs), number=False),
        Column(head="shape", cells=tuple(str(run.shape) for run in runs), number=False),
        Column(head="parameters", cells=tuple(map(_params, runs)), number=False, spare=3),
    )


def _summary(found: Comparison, tolerance: float) -> Iterator[str]:
    count = {word: sum(pair.verdict == word for pair in found.pairs) for word in ("slower", "faster", "same")}
    times = "no times in both"
    if sum(count.values()):
        times = (
            f"{count['slower']} slower, {count['faster']} faster, {count['same']} within the spread or {tolerance:g} %"
        )
    yield f"{len(found.pairs)} {'row' if len(found.pairs) == 1 else 'rows'} in both: {times}."
    checks, traffic = (sum(map(bool, each)) for each in zip(*((p.check, p.moved) for p in found.pairs), strict=True))
    yield f"Changed checks: {checks or 'none'}. Changed traffic: {traffic or 'none'}."


def _name(run: Run) -> str:
    return " ".join(filter(None, (run.rung, str(run.shape), _params(run))))


def _names(runs: Sequence[Run]) -> str:
    more = f", and {len(runs) - _SHOWN} more" if len(runs) > _SHOWN else ""
    return f"{', '.join(_name(run) for run in runs[:_SHOWN])}{more}"


def _params(run: Run) -> str:
    return " ".join(f"{name}={value}" for name, value in (run.params or {}).items())


def _why(run: Run) -> str:
    why = run.skipped or run.error or (run.check.failure if run.check else None)
    return f": {why.partition(chr(10))[0]}" if why else ""


def _change(change: Change) -> str:
    return f"{change.what} {change.before or 'unknown'} -> {change.after or 'unknown'}"


def _microseconds(run: Run) -> str:
    return number(1e6 * run.time.median) if run.time is not None else ""
