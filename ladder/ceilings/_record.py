"""Ceilings as schema ``ladder-ceilings/1``: every trial, every roof, and what speaks for it. Written atomically."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from ladder.ceilings._types import Ceiling, Ceilings, Config, Finding, Sustained, Trial
from ladder.model import Device, Watched
from ladder.store import read_as, write_whole

__all__ = ["SCHEMA", "config_from_json", "config_to_json", "from_json", "load", "save", "to_json"]

SCHEMA = "ladder-ceilings/1"


def save(ceilings: Ceilings, path: str | Path, *, key: str = "") -> None:
    """Write ``ceilings`` as JSON, whole or not at all.

    Args:
        ceilings: what to keep.
        path: of the file.
        key: what they hold for, for a cache; kept as it is.

    Raises:
        StoreError: the folder cannot be made or written.
    """
    write_whole(Path(path), json.dumps(to_json(ceilings) | ({"key": key} if key else {}), indent=1) + "\n")


def load(path: str | Path) -> Ceilings:
    """The inverse of :func:`save`.

    Raises:
        StoreError: no such file, not JSON, or not of this schema.
    """
    return read_as(path, SCHEMA, from_json, made_by="ladder ceilings --json")


def to_json(ceilings: Ceilings) -> dict[str, Any]:
    """The schema's dictionary."""
    device = asdict(ceilings.device) | {"compute_capability": "{}.{}".format(*ceilings.device.compute_capability)}
    return {
        "schema": SCHEMA,
        "origin": "measured",
        "created": ceilings.created,
        "seconds": ceilings.seconds,
        "device": device,
        "ceilings": [_ceiling_to_json(each) for each in ceilings.ceilings],
        "trials": [
            {
                "roof": trial.roof,
                "words": trial.words,
                "rate": trial.rate,
                "counts": trial.counts,
                "config": config_to_json(trial.config),
            }
            for trial in ceilings.trials
        ],
    }


def from_json(data: Mapping[str, Any]) -> Ceilings:
    """The inverse of :func:`to_json`; what follows from other fields is computed again, not read."""
    device = dict(data["device"])
    major, minor = (int(part) for part in device["compute_capability"].split("."))
    device["compute_capability"] = (major, minor)
    return Ceilings(
        device=Device(**{field.name: device[field.name] for field in fields(Device) if field.name in device}),
        created=data["created"],
        seconds=data["seconds"],
        ceilings=tuple(map(_ceiling_from_json, data["ceilings"])),
        trials=tuple(
            Trial(config=config_from_json(t["config"]), words=t["words"], rate=t["rate"], counts=t["counts"])
            for t in data["trials"]
        ),
    )


def config_to_json(config: Config) -> dict[str, Any]:
    """A configuration, with the order of its template arguments."""
    plain = {field.name: getattr(config, field.name) for field in fields(Config)}
    return plain | {"params": dict(config.params), "numbers": dict(config.numbers)}


def config_from_json(data: Mapping[str, Any]) -> Config:
    """The inverse of :func:`config_to_json`."""
    return Config(**data)


def _ceiling_to_json(ceiling: Ceiling) -> dict[str, Any]:
    return {
        "roof": ceiling.roof,
        "per_s": f"{'bytes' if ceiling.unit == 'B' else 'flop'}_per_s",
        "rate": ceiling.rate,
        "per_clock_per_sm": ceiling.per_clock,
        "limit_per_clock_per_sm": ceiling.limit,
        "what": ceiling.what,
        "note": ceiling.note,
        "verified_by": list(ceiling.verified_by),
        "best": _sustained_to_json(ceiling.best),
        "others": [_sustained_to_json(each) for each in ceiling.others],
        "findings": [asdict(finding) for finding in ceiling.findings],
    }


def _ceiling_from_json(data: Mapping[str, Any]) -> Ceiling:
    return Ceiling(
        roof=data["roof"],
        rate=data["rate"],
        per_clock=data["per_clock_per_sm"],
        limit=data["limit_per_clock_per_sm"],
        what=data["what"],
        best=_sustained_from_json(data["best"]),
        others=tuple(map(_sustained_from_json, data["others"])),
        findings=tuple(Finding(**finding) for finding in data["findings"]),
    )


def _sustained_to_json(kept_up: Sustained) -> dict[str, Any]:
    plain = {field.name: getattr(kept_up, field.name) for field in fields(Sustained)}
    return plain | {"config": config_to_json(kept_up.config), "watched": asdict(kept_up.watched)}


def _sustained_from_json(data: Mapping[str, Any]) -> Sustained:
    return Sustained(
        **{**data, "config": config_from_json(data["config"]), "watched": Watched(**data["watched"])},
    )
