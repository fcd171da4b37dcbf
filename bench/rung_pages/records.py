"""The committed records under bench/results/, and which of their rows tell of a rung. Reads results, runs nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ladder.catalog import load_catalog
from ladder.model import Rung, Shape
from ladder.report.view import Row, sections
from ladder.store import SCHEMA, Results, Run, load
from ladder.tuned import SCHEMA as TUNED
from ladder.tuned import Tuned, load_tuned

__all__ = ["Found", "Record", "fastest", "gains", "is_cube", "load_records", "load_tunings", "rows_of", "showcase"]

RECORDS = Path(__file__).resolve().parents[1] / "results"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A results file of a real GPU, its rows as the report reads them."""

    path: Path
    results: Results
    rows: tuple[Row, ...]

    @property
    def card(self) -> str:
        """The GPU's name."""
        return self.results.device.name


@dataclass(frozen=True, slots=True)
class Found:
    """A row and the record that it stands in; ``turn`` is one of the same text and shape timed in turn with a peer."""

    record: Record
    row: Row
    turn: Run | None = None

    @property
    def run(self) -> Run:
        """The results' row."""
        return self.row.run

    @property
    def current(self) -> bool:
        """Whether it is of the file's present text."""
        return self.row.rung is not None


def load_records(folder: Path = RECORDS) -> tuple[Record, ...]:
    """What GPUs ran, from the results files in ``folder/CARD/``, the newest first.

    Raises:
        StoreError: a results file is damaged.
    """
    catalog = {rung.name: rung for rung in load_catalog()}
    found = []
    for path in _of_schema(folder, SCHEMA):
        results = load(path)
        if results.device.backend == "cuda":
            rows = tuple(row for section in sections(results, catalog) for row in section.rows)
            found.append(Record(path=path, results=results, rows=rows))
    return tuple(sorted(found, key=lambda record: record.results.created, reverse=True))


def load_tunings(folder: Path = RECORDS) -> tuple[Tuned, ...]:
    """What tuners found, from the records in ``folder/CARD/``.

    Raises:
        StoreError: such a record is damaged.
    """
    return tuple(entry for path in _of_schema(folder, TUNED) for entry in load_tuned(path))


def _of_schema(folder: Path, schema: str) -> Iterator[Path]:
    for path in sorted(folder.glob("*/*.json")):
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(data, dict) and data.get("schema") == schema:
            yield path


def rows_of(rung: Rung, records: Sequence[Record], card: str) -> list[Found]:
    """``rung``'s timed or counted rows on ``card``, one a shape and choice of parameters, cubes first, the small ahead.

    A row of the present text goes before one of an earlier text, a counted one before one that is timed alone, then the
    newer one before the older.
    """
    every = [Found(r, row) for r in records if r.card == card for row in r.rows if row.name == rung.name]
    every.sort(key=lambda one: (not one.current, one.run.traffic is None))
    chosen: dict[object, Found] = {}
    turns: dict[object, Run] = {}
    for one in every:
        key = one.run.shape, tuple((one.run.params or {}).items())
        if one.run.time is not None or one.run.traffic is not None:
            chosen.setdefault(key, one)
        if one.run.beside is not None:
            turns.setdefault((key, one.current), one.run)
    found = [replace(one, turn=turns.get((key, one.current))) for key, one in chosen.items()]
    return sorted(found, key=lambda one: (not is_cube(one.run.shape), one.run.shape.flop))


def gains(rung: Rung, before: Sequence[Rung], records: Sequence[Record], card: str) -> list[tuple[Shape, str, float]]:
    """(cube, name, ratio) by size: ``rung``'s rate over that of the fastest of ``before`` in the same record."""
    found: dict[Shape, tuple[str, float]] = {}
    names = {each.name for each in before}
    for record in (each for each in records if each.card == card):
        rates = {
            (row.run.shape, row.name): row.run.flop_per_s
            for row in record.rows
            if row.run.flop_per_s and is_cube(row.run.shape) and row.rung is not None and not row.run.params
        }
        for shape in {shape for shape, name in rates if name == rung.name}:
            others = {name: rate for (size, name), rate in rates.items() if size == shape and name in names}
            if others:
                best = max(others, key=others.__getitem__)
                found.setdefault(shape, (best, rates[shape, rung.name] / others[best]))
    return [(shape, *found[shape]) for shape in sorted(found, key=lambda each: each.flop)]


def is_cube(shape: Shape) -> bool:
    """Whether M, N and K are equal."""
    return shape.m == shape.n == shape.k


def showcase(rungs: Sequence[Rung], records: Sequence[Record]) -> tuple[str, Shape] | None:
    """The card and cube at which most files of ``rungs`` were timed, the largest such cube; None without one."""
    count: Counter[tuple[str, Shape]] = Counter()
    for card in dict.fromkeys(record.card for record in records):
        timed = {
            (rung.path, one.run.shape)
            for rung in rungs
            for one in rows_of(rung, records, card)
            if one.run.time is not None and is_cube(one.run.shape)
        }
        count.update((card, shape) for _, shape in timed)
    return max(count, key=lambda key: (count[key], key[1].flop), default=None)


def fastest(rungs: Sequence[Rung], records: Sequence[Record], card: str, shape: Shape) -> Found | None:
    """The fastest row of ``rungs`` on ``card`` at ``shape``; None if none was timed."""
    found = [one for rung in rungs for one in rows_of(rung, records, card) if one.run.shape == shape]
    timed = [one for one in found if one.run.flop_per_s]
    return max(timed, key=lambda one: one.run.flop_per_s or 0, default=None)
