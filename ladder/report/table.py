"""The table of a section: one row a run that was not skipped, only the columns that some run fills."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ladder.model import LEVELS, Level
from ladder.report.text import LEVEL_NAMES, ROOF_NAMES, number, percent, seconds
from ladder.report.view import Row, Section

__all__ = ["Cell", "Table", "table"]

_DASH = "–"
_TERA = 1e12


@dataclass(frozen=True, slots=True)
class Cell:
    """Text of one cell; ``css`` colours it, ``href`` links it, ``value`` is the number that it shows, to sort by."""

    text: str
    css: str = ""
    href: str = ""
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """``head`` holds (title, explanation) pairs; each of ``rows`` has a cell for each."""

    head: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    meaning: str
    cell: Callable[[Row], Cell]


def table(section: Section, *, link: Callable[[Row], str] = lambda _row: "") -> Table:
    """The section as a table; ``link`` gives a kernel's source, or an empty string."""
    kernel = _Column("kernel", "name in the catalogue", lambda row: Cell(row.name, row.run.kind, link(row)))
    columns = [kernel, _Column("check", "against numpy in float64", _check), *_verdict(), *_intensities()]
    rows = [[column.cell(row) for column in columns] for row in section.rows if row.status != "skipped"]
    kept = [i for i in range(len(columns)) if i < 2 or any(cells[i].text != _DASH for cells in rows)]
    return Table(
        head=tuple((columns[i].title, columns[i].meaning) for i in kept),
        rows=tuple(tuple(cells[i] for i in kept) for cells in rows),
    )


def _verdict() -> list[_Column]:
    return [
        _Column("bound by", "the level or pipe with the lowest roof", _bound_by),
        _Column("roof, TFLOP/s", "the lowest of intensity times bandwidth, and the FP32 peak", _roof),
        _Column("time", "median of device events", _time),
        _Column("cold / warm", "time with nothing in the L2 cache, over the time", _cold),
        _Column("TFLOP/s", "measured rate", _rate),
        _Column("of roof", "measured rate over the lowest roof", _fraction),
    ]


def _intensities() -> list[_Column]:
    columns = []
    for level in LEVELS:
        meaning = f"FLOP per byte: {_LEVEL_MEANINGS[level]}"
        columns.append(_Column(LEVEL_NAMES[level], meaning, _intensity(level)))
        if level in ("l1", "shared"):
            columns.append(_Column(f"{LEVEL_NAMES[level]} law", "predicted, and the count against it", _law(level)))
    return [
        *columns,
        _Column("wavefronts / request", "shared memory, loads and stores", _wavefronts),
        _Column("error / bound", "worst componentwise error over its bound", _error),
    ]


_LEVEL_MEANINGS: dict[Level, str] = {
    "asked": "every lane's bytes, as the source asks",
    "l1": "32-byte sectors that warps touch",
    "l2": "sectors between the SMs and L2",
    "dram": "bytes read from and written to DRAM",
    "shared": "128 bytes a wavefront of shared memory",
    "sm": "128 bytes a wavefront of the SM's data pipe, shared and global",
}


def _check(row: Row) -> Cell:
    css = {"right": "good", "wrong": "bad", "broke off": "bad", "sampled": "quiet words", "recorded": "quiet words"}
    return Cell(row.outcome, css.get(row.status, "quiet"))


def _error(row: Row) -> Cell:
    check = row.run.check
    return _number(None if check is None else check.worst_error_over_bound, 2)


def _intensity(level: Level) -> Callable[[Row], Cell]:
    return lambda row: _number(row.run.intensity.get(level))


def _law(level: Level) -> Callable[[Row], Cell]:
    def cell(row: Row) -> Cell:
        predicted = row.run.law.predicted.get(level) if row.run.law else None
        measured = row.run.intensity.get(level)
        if not predicted or not measured:
            return Cell(_DASH)
        away = measured / predicted
        # L1 is exact or wrong; at shared memory broadcasts and conflicts make factors.
        against = f"{100 * (away - 1):+.2f} %" if level == "l1" else f"×{number(away)}"
        return Cell(f"{number(predicted)} ({against})", value=predicted)

    return cell


def _wavefronts(row: Row) -> Cell:
    return _number(row.run.traffic.wavefronts_per_request if row.run.traffic else None)


def _bound_by(row: Row) -> Cell:
    placement = row.run.placement
    if placement is None or not row.placed:
        return Cell(_DASH)
    return Cell(ROOF_NAMES.get(placement.bound_by, placement.bound_by), f"level-{placement.bound_by}")


def _roof(row: Row) -> Cell:
    return _number(row.run.placement.roof_flop_per_s / _TERA if row.run.placement and row.placed else None)


def _time(row: Row) -> Cell:
    return Cell(seconds(row.run.time.median), value=row.run.time.median) if row.run.time else Cell(_DASH)


def _cold(row: Row) -> Cell:
    return _number(row.run.cold_over_warm)


def _rate(row: Row) -> Cell:
    return _number(row.run.flop_per_s / _TERA if row.run.flop_per_s else None)


def _fraction(row: Row) -> Cell:
    fraction = row.run.placement.fraction if row.run.placement else None
    return Cell(percent(fraction), value=fraction)


def _number(value: float | None, digits: int = 3) -> Cell:
    return Cell(number(value, digits), value=value)
