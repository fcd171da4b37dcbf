"""The record of tuned parameters, schema ``ladder-tuned/1``: for each class of shapes the best that a tuner found.

    { "schema": "ladder-tuned/1",
      "entries": [ { "card": "NVIDIA H200", "driver": "580.159.04", "nvrtc": "13.0", "date": "2026-11-30T09:43:36Z",
                     "rung": "tma_pipeline", "source_sha256": "...", "code_sha256": "...",
                     "shape": {"m": 4096, "n": 4096, "k": 4096},
                     "class": {"tiles_log2": 3, "depth_log2": 12, "aligned": true},
                     "params": {"BK": 16, "STAGES": 4}, "flop_per_s": 5.6e13, "samples": 57,
                     "declared": {"BK": 8, "STAGES": 3}, "declared_flop_per_s": 5.5e13, "gain": 1.018,
                     "peer_flop_per_s": 5.1e13, "ratio_to_cublas": 1.098,
                     "tried": 12, "left_out": {"spills registers": 3} } ] }

``params`` and ``declared`` hold the tuned parameters alone. A record is merged, never edited by hand, and no source is
changed by it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ladder.model import Shape
from ladder.shapes import ShapeClass
from ladder.store import read_as, write_whole

__all__ = ["SCHEMA", "Tuned", "load_tuned", "merge_tuned", "tuned_from_json", "tuned_to_json"]

SCHEMA = "ladder-tuned/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """The best parameters of one rung for one class of shapes on one card.

    Attributes:
        card: the GPU's name, with its ``driver``, the ``nvrtc`` that compiled, and the ``date`` in UTC (ISO 8601).
        rung: the rung's name; ``source_sha256`` is that of its whole file, ``code_sha256`` that without comments.
        shape: what was timed, of class ``shape_class`` on that card.
        params: the values of the tuned parameters, and ``flop_per_s`` their median rate over ``samples`` samples.
        declared: the values in the rung's file, and ``declared_flop_per_s`` their rate, timed in turn with the others.
        peer_flop_per_s: cuBLAS SGEMM's, timed in turn with them; None where it was not there.
        tried: candidates that were timed; ``left_out`` counts the others by reason.

    Raises:
        ValueError: a rate that is not a positive number, or parameters with other names than the declared ones.
    """

    card: str
    driver: str | None
    nvrtc: str
    date: str
    rung: str
    source_sha256: str
    code_sha256: str
    shape: Shape
    shape_class: ShapeClass
    params: Mapping[str, int]
    flop_per_s: float
    samples: int
    declared: Mapping[str, int]
    declared_flop_per_s: float
    peer_flop_per_s: float | None
    tried: int
    left_out: Mapping[str, int]

    def __post_init__(self) -> None:
        for name in ("params", "declared", "left_out"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        for name in ("flop_per_s", "declared_flop_per_s", "peer_flop_per_s"):
            rate = getattr(self, name)
            if rate is not None and not 0 < rate < math.inf:
                raise ValueError(f"{self.rung} at {self.shape}: {name} is {rate!r}; a rate is positive")
        if set(self.params) != set(self.declared):
            raise ValueError(f"{self.rung}: params are {sorted(self.params)} and declared {sorted(self.declared)}")

    @property
    def gain(self) -> float:
        """Rate over that of the declared parameters."""
        return self.flop_per_s / self.declared_flop_per_s

    @property
    def ratio_to_cublas(self) -> float | None:
        """Rate over cuBLAS SGEMM's; None where it was not there."""
        return None if self.peer_flop_per_s is None else self.flop_per_s / self.peer_flop_per_s

    @property
    def key(self) -> tuple[str, str, ShapeClass]:
        """What a later entry replaces: card, rung and class."""
        return self.card, self.rung, self.shape_class


def load_tuned(path: Path) -> tuple[Tuned, ...]:
    """The entries of a record, sorted by card, rung and class.

    Raises:
        StoreError: no such file, not JSON, or not schema ``ladder-tuned/1``.
    """
    return read_as(
        path,
        SCHEMA,
        lambda data: _sorted(tuned_from_json(entry) for entry in data["entries"]),
        made_by="bench/tune.py --out OUT.json",
    )


def merge_tuned(path: Path, entries: Iterable[Tuned]) -> tuple[Tuned, ...]:
    """Add ``entries`` to the record at ``path``, which may not be there yet; gives all that it then holds.

    An entry replaces an earlier one of the same card, rung and class. The file is written whole or not at all.

    Raises:
        StoreError: the file is there and is no such record, or cannot be written.
    """
    merged = {entry.key: entry for entry in (load_tuned(path) if path.exists() else ())}
    merged |= {entry.key: entry for entry in entries}
    every = _sorted(merged.values())
    write_whole(path, json.dumps({"schema": SCHEMA, "entries": [tuned_to_json(e) for e in every]}, indent=1) + "\n")
    return every


def _sorted(entries: Iterable[Tuned]) -> tuple[Tuned, ...]:
    return tuple(sorted(entries, key=lambda entry: entry.key))


def tuned_to_json(entry: Tuned) -> dict[str, Any]:
    """One entry as the schema has it; ``gain`` and ``ratio_to_cublas`` are for readers."""
    found: dict[str, Any] = {}
    for field in fields(entry):
        value = getattr(entry, field.name)
        if isinstance(value, Shape):
            found["shape"] = {"m": value.m, "n": value.n, "k": value.k}
        elif isinstance(value, ShapeClass):
            found["class"] = {name: getattr(value, name) for name in ("tiles_log2", "depth_log2", "aligned")}
        else:
            found[field.name] = dict(value) if isinstance(value, Mapping) else value
    return found | {"gain": entry.gain, "ratio_to_cublas": entry.ratio_to_cublas}


def tuned_from_json(data: Mapping[str, Any]) -> Tuned:
    """The inverse of :func:`tuned_to_json`; what is derived is computed again.

    Raises:
        KeyError, TypeError, ValueError, ShapeError: an entry that is not of the schema.
    """
    own = {field.name: data[field.name] for field in fields(Tuned) if field.name not in {"shape", "shape_class"}}
    return Tuned(**own, shape=Shape(**data["shape"]), shape_class=ShapeClass(**data["class"]))
