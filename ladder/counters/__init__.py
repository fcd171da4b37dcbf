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
from ladder.errors import BackendError, DriverMissingError, ShapeError
from ladder.geometry import kernels
from ladder.model import Device, Rung, Shape, Traffic

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
    and those of the SM's data pipe need more. A product of several launches, one that packs an operand among them, is
    the sum of them.

    Args:
        rungs: names or paths of ``.cu`` files, as for :func:`ladder.catalog.find`; none means the whole catalogue.
        shapes: the products; those that a rung does not support, or that need no launch, are left out, and so are rungs
            that the GPU cannot run.
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
    gpu = Device(
        backend="cuda", name="this GPU", compute_capability=compute_capability(), sm_count=1, l2_bytes=0
    )  # nothing else decides whether a rung runs
    able = [rung for rung in catalog.find(rungs) if rung.why_not_on(gpu) is None]
    jobs = [(rung, shape) for shape in shapes for rung in able if _launched(rung, shape)]
    if not jobs:
        return {}
    counted: list[dict[str, float]] = [{} for _ in jobs]
    records: dict[tuple[int, int], dict[str, str]] = {}
    with tempfile.TemporaryDirectory(prefix="ladder-ncu-") as folder:
        for group in (CORE, PIPE):
            names = for_chip(group, gpu.compute_capability)
            report = ncu.profile(_child(jobs, Path(folder), warm=not cold), names, cold=cold, timeout_s=timeout_s)
            for job, rows in enumerate(_in_order(report, jobs)):
                counted[job].update(add_up(rows, names))
                for number, row in enumerate(rows):
                    records.setdefault((job, number), _about(*jobs[job], row, cold=cold)).update(_as_text(row, names))
    if keep is not None:
        ncu.write_csv(keep, [records[key] for key in sorted(records)])
    return {(rung.name, shape): traffic_of(values) for (rung, shape), values in zip(jobs, counted, strict=True)}


def _launched(rung: Rung, shape: Shape) -> tuple[str, ...]:
    """The kernels that a product launches, in order; none for a shape that the rung does not support."""
    try:
        return kernels(rung, shape)
    except ShapeError:
        return ()


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
        expected = _launched(rung, shape)
        mine, rest = rest[: len(expected)], rest[len(expected) :]
        astray = next((row.kernel for row, name in zip(mine, expected, strict=False) if name not in row.kernel), None)
        if len(mine) < len(expected) or astray is not None:
            short = f"it reports {len(mine)} of {len(expected)} launches"
            found = f"it reports {astray!r}" if astray is not None else short
            raise BackendError(f"ncu and rung {rung.name} at {shape} do not agree: {found}")
        out.append(mine)
    if rest:
        raise BackendError(f"ncu reports {len(rest)} launches more than were made, the first of {rest[0].kernel!r}")
    return out


def _about(rung: Rung, shape: Shape, row: ncu.Row, *, cold: bool) -> dict[str, str]:
    return {"rung": rung.name, "shape": str(shape), "cache": "cold" if cold else "warm", "kernel": row.kernel}


def _as_text(row: ncu.Row, names: Mapping[str, str]) -> dict[str, str]:
    return {name: f"{row.values[counter]:.17g}" for name, counter in names.items() if counter in row.values}
