"""Traffic that a GPU's own counters saw, read by Nsight Compute in a profiled run that is never timed."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ladder import catalog
from ladder.backends.driver import compute_capability, find_gpu
from ladder.counters import ncu
from ladder.counters.metrics import CORE, PIPE, add_up, for_chip, traffic_of
from ladder.errors import BackendError, DriverMissingError
from ladder.geometry import plan
from ladder.model import Rung, Shape, Traffic

__all__ = ["count_with_ncu", "ncu_status"]

DEFAULT_TIMEOUT_S = 300.0

Values = Mapping[str, float]


def ncu_status() -> str | None:
    """Why counters cannot be read, with the fix in one line; None when nothing speaks against it."""
    return find_gpu() or ncu.why_missing() or ncu.why_forbidden()


def count_with_ncu(
    rungs: Sequence[str],
    shapes: Sequence[Shape],
    *,
    cold: bool,
    keep: Path | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> dict[tuple[str, Shape], Traffic]:
    """Profile each rung once at each shape and read what every level moved.

    Two profiled runs, because the counters of DRAM and L2 are taken in one pass (a second pass would find other caches)
    and those of the SM's data pipe need more. A product of several launches is the sum of them.

    Args:
        rungs: names or paths of ``.cu`` files, as for :func:`ladder.catalog.find`; none means the whole catalogue.
        shapes: the products; those that a rung does not support, or that need no launch, are left out.
        cold: flush the caches before each launch; otherwise each product is computed once before it is profiled.
        keep: a CSV file for every counter of every launch, a row each.
        timeout_s: how long one profiled run may take.

    Returns:
        Traffic with origin ``"counted"`` by rung name and shape.

    Raises:
        DriverMissingError: there is no driver or no GPU.
        BackendError: no ncu, no permission to read counters (the message says how to get it), or the run failed.
    """
    missing = find_gpu()
    if missing is not None:
        raise DriverMissingError(missing)
    reason = ncu.why_missing() or ncu.why_forbidden()
    if reason is not None:
        raise BackendError(reason)
    jobs = [(rung, shape) for shape in shapes for rung in catalog.find(rungs) if _launches(rung, shape)]
    if not jobs:
        return {}
    counted: list[dict[str, float]] = [{} for _ in jobs]
    records: dict[tuple[int, int], dict[str, str]] = {}
    with tempfile.TemporaryDirectory(prefix="ladder-ncu-") as folder:
        for group in (CORE, PIPE):
            names = for_chip(group, compute_capability())
            report = ncu.profile(_child(jobs, Path(folder), warm=not cold), names, cold=cold, timeout_s=timeout_s)
            for job, rows in enumerate(_in_order(report, jobs)):
                counted[job].update(add_up(rows, names))
                for number, row in enumerate(rows):
                    records.setdefault((job, number), _about(*jobs[job], row, cold=cold)).update(_as_text(row, names))
    if keep is not None:
        ncu.write_csv(keep, [records[key] for key in sorted(records)])
    return {(rung.name, shape): traffic_of(values) for (rung, shape), values in zip(jobs, counted, strict=True)}


def _launches(rung: Rung, shape: Shape) -> int:
    return 0 if rung.supports(shape) is not None else len(plan(rung, shape))


def _child(jobs: Sequence[tuple[Rung, Shape]], folder: Path, *, warm: bool) -> list[str]:
    """The module and arguments of the process that ncu profiles."""
    spec = folder / "jobs.json"
    listed = [[str(rung.path.resolve()), rung.name, str(shape)] for rung, shape in jobs]
    spec.write_text(json.dumps({"warm": warm, "jobs": listed}), encoding="utf-8")
    return ["ladder.counters.child", str(spec)]


def _in_order(report: Sequence[ncu.Row], jobs: Sequence[tuple[Rung, Shape]]) -> list[list[ncu.Row]]:
    """The rows of each job: launches are profiled in the order in which the child makes them."""
    rest = list(report)
    out = []
    for rung, shape in jobs:
        count = _launches(rung, shape)
        mine, rest = rest[:count], rest[count:]
        kernel = rung.kernel.rpartition("::")[2]
        astray = next((row.kernel for row in mine if kernel not in row.kernel), None)
        if len(mine) < count or astray is not None:
            found = f"it reports {astray!r}" if astray is not None else f"it reports {len(mine)} of {count} launches"
            raise BackendError(f"ncu and rung {rung.name} at {shape} do not agree: {found}")
        out.append(mine)
    if rest:
        raise BackendError(f"ncu reports {len(rest)} launches more than were made, the first of {rest[0].kernel!r}")
    return out


def _about(rung: Rung, shape: Shape, row: ncu.Row, *, cold: bool) -> dict[str, str]:
    return {"rung": rung.name, "shape": str(shape), "cache": "cold" if cold else "warm", "kernel": row.kernel}


def _as_text(row: ncu.Row, names: Mapping[str, str]) -> dict[str, str]:
    return {name: f"{row.values[counter]:.17g}" for name, counter in names.items() if counter in row.values}
