"""The GPU's counters for the kernels of the experiments: all of them in one process under ncu, or two."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ladder.backends.driver import compute_capability
from ladder.counters import ncu, ncu_status
from ladder.counters.metrics import CORE, PIPE, add_up, for_chip, traffic_of
from ladder.errors import BackendError
from ladder.experiments.plan import Product, Streamed
from ladder.geometry import kernels
from ladder.model import Quantity, Traffic

__all__ = ["counted", "launched", "spec"]

TIMEOUT_S = 300.0

Job = Product | Streamed


def counted(jobs: Sequence[Job]) -> list[Traffic]:
    """What every level moved for each job, from cold caches; DRAM and shared memory alone for a product not ``whole``.

    Raises:
        BackendError: there is no ncu or no permission (the message says how to get it), or a profiled run failed.
    """
    reason = ncu_status()
    if reason is not None:
        raise BackendError(reason)
    values: list[dict[str, float]] = [{} for _ in jobs]
    whole = [index for index, job in enumerate(jobs) if isinstance(job, Streamed) or job.whole]
    rest = [index for index in range(len(jobs)) if index not in set(whole)]
    # Caches are flushed before every pass, so that counters of several passes are of the same launch.
    for group, chosen in (((*CORE, *PIPE), whole), (CORE, rest)):
        if chosen:
            names = for_chip(group, compute_capability())
            rows = _profile([jobs[index] for index in chosen], names)
            for index, mine in zip(chosen, rows, strict=True):
                values[index].update(add_up(mine, names))
    return [_traffic(found) for found in values]


def launched(job: Job) -> tuple[str, ...]:
    """Names of the kernels that a job launches, in order."""
    return (job.stream.kernel,) if isinstance(job, Streamed) else kernels(job.rung, job.shape)


def spec(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """The jobs as the profiled process reads them."""
    return [
        {"stream": str(job.stream.path), "n": job.n}
        if isinstance(job, Streamed)
        else {
            "rung": str(job.rung.path.resolve()),
            "name": job.rung.name,
            "params": dict(job.rung.params),
            "shape": str(job.shape),
        }
        for job in jobs
    ]


def _profile(jobs: Sequence[Job], names: dict[str, str]) -> list[list[ncu.Row]]:
    with tempfile.TemporaryDirectory(prefix="ladder-ncu-") as folder:
        told, log = Path(folder) / "jobs.json", Path(folder) / "ncu.csv"
        told.write_text(json.dumps(spec(jobs)), encoding="utf-8")
        command = ncu.command(["ladder.experiments.child", str(told)], names, cold=True, log=log)
        try:
            ended = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, env=ncu.environment()
            )
        except subprocess.TimeoutExpired as error:
            raise BackendError(f"ncu did not end within {TIMEOUT_S:g} s; give smaller shapes") from error
        text = ncu.read(log)
    problem = ncu.problem_in(text, ended.stderr, ended.stdout, exit_code=ended.returncode)
    if problem is not None:
        raise BackendError(problem)
    return in_order(ncu.parse(text), jobs)


def in_order(report: Sequence[ncu.Row], jobs: Sequence[Job]) -> list[list[ncu.Row]]:
    """The rows of each job: launches are profiled in the order in which they are made.

    Raises:
        BackendError: the report is not of these jobs.
    """
    rest = list(report)
    out = []
    for job in jobs:
        expected = launched(job)
        mine, rest = rest[: len(expected)], rest[len(expected) :]
        if len(mine) < len(expected) or any(name not in row.kernel for row, name in zip(mine, expected, strict=True)):
            found = ", ".join(row.kernel for row in mine) or "nothing"
            raise BackendError(f"ncu and {job.name} do not agree: it reports {found} for {', '.join(expected)}")
        out.append(mine)
    if rest:
        raise BackendError(f"ncu reports {len(rest)} launches more than were made, the first of {rest[0].kernel!r}")
    return out


def _traffic(values: dict[str, float]) -> Traffic:
    if set(PIPE) <= set(values):
        return traffic_of(values)
    # The rest of what traffic_of knows was not read.
    known = traffic_of(dict.fromkeys(PIPE, 0.0) | values)
    return Traffic(levels={"dram": Quantity(bytes=known.levels["dram"].bytes, origin="counted")})
