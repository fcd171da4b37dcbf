"""What a recorded card counted of rungs that the emulator cannot run, packaged: they have a place without the card.

``profiles/NAME_counts.json`` is a results file (``ladder/1``) with rows of such rungs alone, and of these the traffic
alone, by its origin ``recorded``. ``python bench/rates.py`` makes it from committed records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from importlib.resources import as_file, files

from ladder.catalog import load_catalog, source_sha256
from ladder.errors import StoreError
from ladder.model import Rung, Shape, Traffic
from ladder.store import Results, Run, load

__all__ = ["SUFFIX", "counts_from", "recorded_traffic"]

SUFFIX = "_counts.json"


def counts_from(records: Iterable[Results]) -> Results:
    """The counts that ``records`` of one card have of rungs that the emulator cannot run.

    Proved rows with traffic count, of the rungs as their files are now; of several for the same rung and shape, that
    of the last record.

    Raises:
        StoreError: there is no record.
    """
    given = list(records)
    if not given:
        raise StoreError("no record to take counts from; make one on a GPU")
    device = given[-1].device
    emulated = replace(device, backend="emulated")
    beyond = {rung.name: source_sha256(rung) for rung in load_catalog() if rung.why_not_on(emulated) is not None}
    rows: dict[tuple[str, Shape], Run] = {}
    for results in given:
        for run in results.runs:
            proved = run.check is not None and run.check.passed
            if proved and run.traffic is not None and beyond.get(run.rung) == run.source_sha256:
                rows[run.rung, run.shape] = Run(
                    rung=run.rung,
                    title=run.title,
                    kind=run.kind,
                    shape=run.shape,
                    source_sha256=run.source_sha256,
                    traffic=_as_recorded(run.traffic),
                )
    return Results(
        created=given[-1].created,
        command="python bench/rates.py",
        device=device,
        roofs=given[-1].roofs,
        runs=tuple(rows[key] for key in sorted(rows, key=lambda key: (key[0], key[1].flop, str(key[1])))),
    )


def _as_recorded(traffic: Traffic) -> Traffic:
    return replace(traffic, levels={name: replace(q, origin="recorded") for name, q in traffic.levels.items()})


def recorded_traffic(rung: Rung, shape: Shape, card: str) -> Traffic | None:
    """What the card of this name counted of ``rung``, as its file is now, at ``shape``; None where no record tells.

    Raises:
        StoreError: a packaged file is damaged.
    """
    found = _tables().get(card, {}).get((rung.name, shape))
    return found.traffic if found is not None and found.source_sha256 == source_sha256(rung) else None


@lru_cache(maxsize=1)
def _tables() -> Mapping[str, Mapping[tuple[str, Shape], Run]]:
    tables = {}
    for file in files("ladder.profiles").iterdir():
        if file.name.endswith(SUFFIX):
            with as_file(file) as path:
                results = load(path)
            tables[results.device.name] = {(run.rung, run.shape): run for run in results.runs}
    return tables
