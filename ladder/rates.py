"""What rungs reached on recorded cards, packaged: the table that a choice of rung is made from.

``profiles/NAME_rates.json``, schema ``ladder-rates/1``, is made from committed records by ``python bench/rates.py`` and
holds, of each proved and timed rung, its rate at each recorded shape, and the tuned parameters of each class of shapes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from ladder.errors import ShapeError, StoreError
from ladder.model import Device, Shape
from ladder.shapes import ShapeClass
from ladder.store import Results
from ladder.tuned import Tuned

__all__ = [
    "SCHEMA",
    "SUFFIX",
    "Rate",
    "Rates",
    "TunedParams",
    "from_text",
    "load_rates",
    "nearest_card",
    "rates_from",
    "to_text",
]

SCHEMA = "ladder-rates/1"
SUFFIX = "_rates.json"
DIGITS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """One rung at one shape, proved there; ``cold_over_warm`` is what it takes with nothing in the L2 cache."""

    rung: str
    shape: Shape
    flop_per_s: float
    cold_over_warm: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.flop_per_s < math.inf:
            raise ValueError(f"{self.rung} at {self.shape}: {self.flop_per_s!r} FLOP/s; a rate is positive")


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedParams:
    """The best ``params`` of a rung for one class of shapes; they hold for the code that ``code_sha256`` tells."""

    rung: str
    shape_class: ShapeClass
    params: Mapping[str, int]
    code_sha256: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", MappingProxyType(dict(self.params)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """One card's table. ``sources`` are the records it was made from, as paths from the root of the checkout."""

    card: str
    compute_capability: tuple[int, int]
    sm_count: int
    sources: tuple[str, ...]
    rows: tuple[Rate, ...]
    tuned: tuple[TunedParams, ...] = ()

    def tuned_for(self, rung: str, shape_class: ShapeClass) -> TunedParams | None:
        """The tuned parameters of a rung for a class of shapes, if there are any."""
        return next((t for t in self.tuned if (t.rung, t.shape_class) == (rung, shape_class)), None)


def rates_from(records: Mapping[str, Results], tuned: Mapping[str, Sequence[Tuned]]) -> Rates:
    """The table of the one card that ``records`` and ``tuned``, each by its path, speak of.

    Rows that are proved and timed count; of several for the same rung and shape, that of the last record.

    Raises:
        StoreError: no record of a GPU's times, or records of different cards.
    """
    rows: dict[tuple[str, Shape], Rate] = {}
    for results in records.values():
        for run in results.runs:
            rate = run.flop_per_s
            if run.kind == "rung" and run.check is not None and run.check.passed and rate is not None:
                cold = run.cold_over_warm and _rounded(run.cold_over_warm)
                rows[run.rung, run.shape] = Rate(
                    rung=run.rung, shape=run.shape, flop_per_s=_rounded(rate), cold_over_warm=cold
                )
    if not rows:
        raise StoreError(f"no proved and timed rung in {', '.join(records) or 'no record'}; make one on a GPU")
    device = next(iter(records.values())).device
    cards = {results.device.name for results in records.values()} | {t.card for many in tuned.values() for t in many}
    if len(cards) > 1:
        raise StoreError(f"the records are of different cards: {', '.join(sorted(cards))}; give those of one")
    found = {
        (entry.rung, entry.shape_class): TunedParams(
            rung=entry.rung, shape_class=entry.shape_class, params=entry.params, code_sha256=entry.code_sha256
        )
        for many in tuned.values()
        for entry in many
        if entry.params != entry.declared
    }
    return Rates(
        card=device.name,
        compute_capability=device.compute_capability,
        sm_count=device.sm_count,
        sources=(*records, *tuned),
        rows=tuple(sorted(rows.values(), key=lambda row: (row.shape.flop, str(row.shape), -row.flop_per_s))),
        tuned=tuple(found[key] for key in sorted(found)),
    )


def _rounded(rate: float) -> float:
    """To four digits: more than two sessions have in common."""
    return float(f"{rate:.{DIGITS}g}")


def to_text(rates: Rates) -> str:
    """The table as JSON, one row a line, so that a change of a rate is a change of a line."""
    rows = [
        {"rung": row.rung, "shape": str(row.shape), "flop_per_s": row.flop_per_s}
        | ({} if row.cold_over_warm is None else {"cold_over_warm": row.cold_over_warm})
        for row in rates.rows
    ]
    tuned = [
        {
            "rung": t.rung,
            "class": {name: getattr(t.shape_class, name) for name in ("tiles_log2", "depth_log2", "aligned")},
            "params": dict(t.params),
            "code_sha256": t.code_sha256,
        }
        for t in rates.tuned
    ]
    head: dict[str, Any] = {
        "schema": SCHEMA,
        "card": rates.card,
        "compute_capability": "{}.{}".format(*rates.compute_capability),
        "sm_count": rates.sm_count,
        "sources": list(rates.sources),
    }
    lines = [f' "{key}": {json.dumps(value)},' for key, value in head.items()]
    return "\n".join(["{", *lines, f' "rows": {_lines(rows)},', f' "tuned": {_lines(tuned)}', "}", ""])


def _lines(items: Iterable[Any]) -> str:
    listed = ",\n  ".join(json.dumps(item) for item in items)
    return f"[\n  {listed}\n ]" if listed else "[]"


@lru_cache(maxsize=1)
def load_rates() -> tuple[Rates, ...]:
    """The packaged tables of all recorded cards, by name of their profile.

    Raises:
        StoreError: a table is damaged.
    """
    folder = files("ladder.profiles")
    names = sorted(f.name for f in folder.iterdir() if f.name.endswith(SUFFIX))
    return tuple(from_text(folder.joinpath(name).read_text(encoding="utf-8"), where=name) for name in names)


def from_text(text: str, *, where: str) -> Rates:
    """The inverse of :func:`to_text`.

    Raises:
        StoreError: not JSON, not of this schema, or damaged; the message names ``where``.
    """
    try:
        data = json.loads(text)
        if data["schema"] != SCHEMA:
            raise StoreError(f"{where} is {data['schema']!r}; this version reads {SCHEMA}: make it with bench/rates.py")
        major, minor = (int(part) for part in data["compute_capability"].split("."))
        return Rates(
            card=data["card"],
            compute_capability=(major, minor),
            sm_count=data["sm_count"],
            sources=tuple(data["sources"]),
            rows=tuple(Rate(**(row | {"shape": Shape.parse(row["shape"])})) for row in data["rows"]),
            tuned=tuple(
                TunedParams(
                    rung=t["rung"],
                    shape_class=ShapeClass(**t["class"]),
                    params=t["params"],
                    code_sha256=t["code_sha256"],
                )
                for t in data["tuned"]
            ),
        )
    except (KeyError, TypeError, ValueError, AttributeError, ShapeError) as error:
        raise StoreError(f"{where}: damaged {SCHEMA} file: {type(error).__name__}: {error}") from error


def nearest_card(tables: Sequence[Rates], device: Device) -> Rates | None:
    """The table of ``device``, else that of the card most like it; None without any.

    By name, then by the nearest generation, minor number and number of SMs, in this order.
    """

    def unlike(table: Rates) -> tuple[bool, int, int, float]:
        (major, minor), (own_major, own_minor) = table.compute_capability, device.compute_capability
        sms_apart = abs(math.log(table.sm_count / device.sm_count))
        return table.card != device.name, abs(major - own_major), abs(minor - own_minor), sms_apart

    return min(tables, key=unlike, default=None)
