"""What a GPU's own counters saw of a product, read by Nsight Compute in a profiled run that is never timed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ladder import catalog
from ladder.backends.driver import compute_capability, find_gpu
from ladder.counters import ncu
from ladder.counters.batches import Batched, Caches, Job, launched, profile_each
from ladder.counters.metrics import CORE, PIPE, WORK, activity_of, add_up, for_chip, traffic_of, warp_metrics
from ladder.errors import BackendError, DriverMissingError
from ladder.model import Activity, Device, Shape, Traffic

__all__ = ["Profiled", "count_with_ncu", "ncu_status", "profile_products"]

DEFAULT_LIMIT_S = 120.0
"""How long one product may take under ncu, with all of its passes."""

Key = tuple[str, Shape]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiled:
    """What was counted, by rung name and shape.

    Attributes:
        traffic: bytes by level.
        activity: what warps executed and waited for; without what this chip or this ncu does not count.
        lost: why a product has no traffic.
        notes: a line for each kind of counter that is missing everywhere.
    """

    traffic: Mapping[Key, Traffic]
    activity: Mapping[Key, Activity]
    lost: Mapping[Key, str]
    notes: tuple[str, ...] = ()


def ncu_status() -> str | None:
    """Why counters cannot be read, with the fix in one line; None when nothing speaks against it."""
    return find_gpu() or ncu.why_missing() or ncu.why_forbidden()


def count_with_ncu(
    rungs: Sequence[str],
    shapes: Sequence[Shape],
    *,
    cold: bool,
    keep: Path | None = None,
    timeout_s: float = DEFAULT_LIMIT_S,
) -> dict[Key, Traffic]:
    """The traffic of each rung at each shape; see :func:`profile_products`.

    Args:
        rungs: names or paths of ``.cu`` files, as for :func:`ladder.catalog.find`; none means the whole catalogue.
        shapes: the products.
        cold: with empty caches; otherwise each product is computed once before it is profiled.
        keep: a CSV file for every counter of every launch, a row each.
        timeout_s: how long one product may take.

    Raises:
        DriverMissingError: there is no driver or no GPU.
        BackendError: no ncu, no permission to read counters (the message says how to get it), or a product failed.
    """
    jobs = [(rung, shape) for shape in shapes for rung in catalog.find(rungs)]
    found = profile_products(jobs, cold=cold, keep=keep, limit_s=timeout_s, activity=False)
    for (name, shape), reason in found.lost.items():
        raise BackendError(f"{name} at {shape}: {reason}")
    return dict(found.traffic)


def profile_products(
    jobs: Sequence[Job],
    *,
    cold: bool,
    keep: Path | None = None,
    limit_s: float = DEFAULT_LIMIT_S,
    activity: bool = True,
) -> Profiled:
    """Profile each product and read what every level moved, and what the warps did.

    Two profiled runs for the traffic, because the counters of DRAM and L2 are taken in one pass and those of the SM's
    data pipe need more; the second of them brings the counters of warps as well. Cold, the first empties the caches
    once before each product: a kernel that packs an operand leaves it in L2 for the next one, as it does when nobody
    looks. The second empties them before each launch and pass, so that all passes are of the same thing. A third
    counts FP32 instructions, for which ncu patches the kernel. A product of several launches, one that packs an
    operand among them, is the sum of them. One that fails or does not end loses its own counters only.

    Args:
        jobs: rungs and shapes; what a rung does not support, what needs no launch and what the GPU cannot run is left
            out.
        cold: with empty caches; otherwise each product is computed once before it is profiled.
        keep: a CSV file for every counter of every launch, a row each.
        limit_s: how long one product may take in one of the runs.
        activity: read more than the traffic.

    Raises:
        DriverMissingError: there is no driver or no GPU.
        BackendError: no ncu, no permission to read counters (the message says how to get it), or ncu fails on its own.
    """
    missing = find_gpu()
    if missing is not None:
        raise DriverMissingError(missing)
    reason = ncu.why_missing() or ncu.why_forbidden()
    if reason is not None:
        raise BackendError(reason)
    chip = compute_capability()
    # Nothing else of a device decides whether a rung runs.
    gpu = Device(backend="cuda", name="this GPU", compute_capability=chip, sm_count=1, l2_bytes=0)
    able = [(rung, shape) for rung, shape in jobs if rung.why_not_on(gpu) is None and launched(rung, shape)]
    counts = _Counts(able, chip, cold=cold, limit_s=limit_s)
    counts.read(CORE)
    if not activity or not counts.try_to_read((*PIPE, *warp_metrics(chip)), "what warps wait for"):
        counts.read(PIPE)
    if activity:
        counts.try_to_read(WORK, "FP32 instructions")
    if keep is not None:
        counts.write(keep)
    return counts.profiled()


class _Counts:
    """Counters of some products, run by run. A product that one run loses is left out of those that follow."""

    def __init__(self, jobs: Sequence[Job], chip: tuple[int, int], *, cold: bool, limit_s: float) -> None:
        self.jobs, self.chip, self.cold, self.limit_s = list(jobs), chip, cold, limit_s
        self.values: list[dict[str, float]] = [{} for _ in jobs]
        self.records: dict[tuple[int, int], dict[str, str]] = {}
        self.lost: dict[int, str] = {}
        self.notes: list[str] = []

    def read(self, group: Sequence[str]) -> None:
        """Profile with these counters; a product that they are not read of is lost."""
        self.lost |= self._run(group, one_pass=group is CORE)

    def try_to_read(self, group: Sequence[str], what: str) -> bool:
        """The same, when these counters as a whole can be had; else a note says that there is no ``what``."""
        try:
            lost = self._run(group, one_pass=False)
        except BackendError as error:
            self.notes.append(f"not counted: {what}: {error}")
            return False
        if set(PIPE) & set(group):
            self.lost |= lost
        else:
            self.notes += [f"not counted: {what} of {_job_name(self.jobs[i])}: {why}" for i, why in lost.items()]
        return True

    def _run(self, group: Sequence[str], *, one_pass: bool) -> Mapping[int, str]:
        caches: Caches = "warm" if not self.cold else "cold at first" if one_pass else "cold"
        names = for_chip(group, self.chip)
        left = [index for index in range(len(self.jobs)) if index not in self.lost]
        found: Batched = profile_each([self.jobs[i] for i in left], names, caches=caches, limit_s=self.limit_s)
        for position, rows in found.rows.items():
            index = left[position]
            self.values[index].update(add_up(rows, names))
            for number, row in enumerate(rows):
                record = self.records.setdefault((index, number), self._about(index, row))
                record |= {n: f"{row.values[c]:.17g}" for n, c in names.items() if c in row.values}
        return {left[position]: why for position, why in found.lost.items()}

    def _about(self, index: int, row: ncu.Row) -> dict[str, str]:
        rung, shape = self.jobs[index]
        state = "cold" if self.cold else "warm"
        return {"rung": rung.name, "shape": str(shape), "cache": state, "kernel": row.kernel}

    def write(self, path: Path) -> None:
        """Every counter of every launch, a row each."""
        ncu.write_csv(path, [self.records[key] for key in sorted(self.records)])

    def profiled(self) -> Profiled:
        """What all runs together gave."""
        keys = [(rung.name, shape) for rung, shape in self.jobs]
        whole = [index for index in range(len(keys)) if index not in self.lost]
        found = {keys[index]: activity_of(self.values[index]) for index in whole}
        return Profiled(
            traffic={keys[index]: traffic_of(self.values[index]) for index in whole},
            activity={key: activity for key, activity in found.items() if activity is not None},
            lost={keys[index]: why for index, why in self.lost.items()},
            notes=tuple(self.notes),
        )


def _job_name(job: Job) -> str:
    rung, shape = job
    return f"{rung.name} at {shape}"
