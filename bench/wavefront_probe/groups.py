"""All launches by group, and the record of them that is in the repository."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.wavefront_probe.case import Case, of_record
from bench.wavefront_probe.loads import g_fill, g_ld_lines, g_naive, g_tile_loads
from bench.wavefront_probe.shared import g_copy, g_mix
from bench.wavefront_probe.tiles import g_tiles
from bench.wavefront_probe.updates import g_red, g_st

__all__ = ["GROUPS", "RECORD", "dumped", "record_of", "recorded"]

RECORD = Path(__file__).resolve().parents[1] / "results" / "nvidia-h200" / "wavefront-probe.json"


def _cold() -> list[Case]:
    """Some launches once more, to be counted with flushed caches."""
    chosen = {
        "ld miss L1", "ld miss L8", "ld miss L32", "ld fill n128", "ld fill n64 W32 all SMs", "red line, new gap0",
        "red line, n1 W8 1056 blocks", "ld walk pitch 516 W32",
    }  # fmt: skip
    return [case for make in (g_ld_lines, g_fill, g_naive, g_red) for case in make() if case.name in chosen]


GROUPS: Mapping[str, Callable[[], list[Case]]] = {
    "loads": g_ld_lines,
    "fills": g_fill,
    "walks": g_naive,
    "tile_loads": g_tile_loads,
    "reductions": g_red,
    "stores": g_st,
    "mixes": g_mix,
    "copies": g_copy,
    "tiles": g_tiles,
    "cold": _cold,
}


def record_of(case: Case, counted: Mapping[str, int]) -> dict[str, Any]:
    """A row of the record: the launch and its counters."""
    return {**case.record(), "counted": dict(counted)}


def dumped(made: str, groups: Mapping[str, list[dict[str, Any]]]) -> str:
    """The record as JSON, a launch a line. ``made`` says when and on what."""
    rows = (
        f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in group) + "\n]"
        for name, group in groups.items()
    )
    return f'{{\n"made": {json.dumps(made)},\n"groups": {{\n' + ",\n".join(rows) + "\n}\n}\n"


def recorded() -> dict[str, list[tuple[Case, dict[str, int]]]]:
    """The launches of the H200's record and their counters, by group."""
    groups = json.loads(RECORD.read_text(encoding="utf-8"))["groups"]
    return {name: [(of_record(row), row["counted"]) for row in rows] for name, rows in groups.items()}
