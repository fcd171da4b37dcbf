"""Experiments as schema ``ladder-experiments/1``: the file that the report reads. Written atomically."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ladder import store
from ladder.experiments.fits import fits
from ladder.experiments.model import AskedRow, Experiments
from ladder.experiments.padding import pitch_of, predicted
from ladder.model import Shape
from ladder.store import Results, Run

__all__ = ["SCHEMA", "load", "save"]

SCHEMA = "ladder-experiments/1"

_EMPTY = Shape(m=0, n=0, k=0)


def save(found: Experiments, path: str | Path) -> None:
    """Write ``found`` as JSON, whole or not at all.

    Raises:
        StoreError: the folder cannot be made or written.
    """
    store.write_whole(Path(path), json.dumps(to_json(found), indent=1) + "\n")


def load(path: str | Path) -> Experiments:
    """Read a file that :func:`save` wrote.

    Raises:
        StoreError: no such file, not JSON, or not of this schema.
    """
    return store.read_as(path, SCHEMA, from_json, made_by="ladder experiment --json")


def to_json(found: Experiments) -> dict[str, Any]:
    """The schema's dictionary: device, ceilings and rows of products as in ``ladder/1``, and what follows from them."""
    head = _rows(found, ())
    return {
        "schema": SCHEMA,
        **{key: head[key] for key in ("created", "command", "device", "ceilings")},
        "law": {"runs": _rows(found, found.edges)["runs"], "fits": [_fit(each) for each in fits(found.edges)]},
        "transition": {
            "padding": [
                {**row, "predicted": predicted(pitch_of(run)).to_json()}
                for row, run in zip(_rows(found, found.padding)["runs"], found.padding, strict=True)
            ]
        },
        "asked": {"rows": [_asked(row, found) for row in found.asked]},
    }


def from_json(data: Mapping[str, Any]) -> Experiments:
    """The inverse of :func:`to_json`; what follows from the rows is computed again, not read."""
    head = {key: data[key] for key in ("created", "command", "device", "ceilings")}

    def runs(rows: Any) -> tuple[Run, ...]:
        return store.from_json({**head, "runs": rows}).runs

    session = store.from_json({**head, "runs": []})
    return Experiments(
        created=session.created,
        command=session.command,
        device=session.device,
        roofs=session.roofs,
        edges=runs(data["law"]["runs"]),
        padding=runs(data["transition"]["padding"]),
        asked=tuple(_asked_row(row, runs) for row in data["asked"]["rows"]),
    )


def _rows(found: Experiments, runs: tuple[Run, ...]) -> dict[str, Any]:
    return store.to_json(
        Results(created=found.created, command=found.command, device=found.device, roofs=found.roofs, runs=runs)
    )


def _fit(each: Any) -> dict[str, Any]:
    return {name: getattr(each, name) for name in each.__dataclass_fields__} | {
        "slope": each.slope.to_json(),
        "exponent": each.exponent.to_json(),
    }


def _asked(row: AskedRow, found: Experiments) -> dict[str, Any]:
    # Time and traffic are written as those of a product, so that there is one form of each.
    bare = Run(rung=row.name, title=row.title, kind="rung", shape=_EMPTY, time=row.time, traffic=row.traffic)
    (written,) = _rows(found, (bare,))["runs"]
    return {
        "name": row.name,
        "title": row.title,
        "kind": row.kind,
        "size": row.size,
        "flop": row.flop,
        "problem": row.problem,
        "time_s": written["time_s"],
        "traffic": written["traffic"],
        "dram_over_asked": row.dram_over_asked,
        "of_copy": {level: row.share(level, found.roofs) for level in ("asked", "dram")},
    }


def _asked_row(data: Mapping[str, Any], runs: Any) -> AskedRow:
    bare = {"rung": data["name"], "title": data["title"], "kind": "rung", "shape": {"m": 0, "n": 0, "k": 0}}
    (run,) = runs([bare | {"time_s": data["time_s"], "traffic": data["traffic"]}])
    row = AskedRow(
        name=data["name"], title=data["title"], kind=data["kind"], size=data["size"], flop=data["flop"],
        problem=data["problem"],
    )  # fmt: skip
    return replace(row, traffic=run.traffic, time=run.time)
