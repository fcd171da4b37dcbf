"""All experiments from their jobs to their rows: worker processes, counters, and what belongs together put together."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Protocol

from ladder.climb import blank, placed
from ladder.errors import BackendError
from ladder.experiments.counting import counted
from ladder.experiments.model import AskedRow
from ladder.experiments.plan import Product, Streamed
from ladder.experiments.work import Worker, asked_row
from ladder.model import Device, Quantity, Roofs, Traffic
from ladder.profiles import Profile
from ladder.store import Run
from ladder.workers import Finished

__all__ = ["Jobs", "RunJobs", "asked_bytes", "counts_of", "gathered", "with_asked", "with_counts"]

Job = Product | Streamed
Row = Run | AskedRow


class RunJobs(Protocol):
    """Runs jobs in worker processes: :func:`ladder.workers.run_jobs` with the limits of a session."""

    def __call__(self, jobs: Sequence[Job], start: Callable[[], Callable[[Job], Row]]) -> Generator[Finished[Job, Row]]:
        """Yield each job's end, in whatever order they end."""
        ...


class Jobs:
    """The jobs of the experiments that were asked for, each once, and where their rows go."""

    def __init__(self, edges: Sequence[Product], padding: Sequence[Product], asked: Sequence[Job]) -> None:
        self.edges, self.padding, self.asked = tuple(edges), tuple(padding), tuple(asked)

    @property
    def all(self) -> tuple[Job, ...]:
        """In the order in which they run: those that read the same operands one after the other."""
        return (*self.edges, *self.padding, *self.asked)

    def split(self, rows: Sequence[Row]) -> tuple[tuple[Run, ...], tuple[Run, ...], tuple[AskedRow, ...]]:
        """Rows of the jobs of :attr:`all`, by experiment."""
        first, second = len(self.edges), len(self.edges) + len(self.padding)
        return (
            tuple(row for row in rows[:first] if isinstance(row, Run)),
            tuple(row for row in rows[first:second] if isinstance(row, Run)),
            tuple(asked_row(row) if isinstance(row, Run) else row for row in rows[second:]),
        )


def gathered(
    jobs: Sequence[Job], run: RunJobs, start: Worker, *, finished: Callable[[int, Row], None] | None = None
) -> list[Row]:
    """The row of every job, in their order; a job that its process did not survive has a row that says so."""
    rows: dict[int, Row] = {}
    for end in run(jobs, start):
        row = end.result if end.result is not None else _failed(end.job, end.failure or "its process ended")
        rows[end.index] = row
        if finished is not None:
            finished(end.index, row)
    return [rows[index] for index in range(len(jobs))]


def counts_of(jobs: Sequence[Job], rows: Sequence[Row]) -> tuple[dict[int, Traffic], str | None]:
    """The GPU's counters by job, for those that are right, or why there are none."""
    right = [index for index, row in enumerate(rows) if row.time is not None]
    if not right:
        return {}, None
    try:
        found = counted([jobs[index] for index in right])
    except BackendError as error:
        return {}, str(error)
    return dict(zip(right, found, strict=True)), None


def with_counts(jobs: Sequence[Job], rows: Sequence[Row], counts: dict[int, Traffic], roofs: Roofs) -> list[Row]:
    """``rows`` with what was counted, and their place under ``roofs``."""
    out: list[Row] = []
    for index, (job, row) in enumerate(zip(jobs, rows, strict=True)):
        traffic = counts.get(index)
        if traffic is None:
            out.append(row)
        elif isinstance(row, AskedRow) or isinstance(job, Streamed) or not job.whole:
            out.append(replace(row, traffic=traffic))
        else:
            out.append(placed(replace(row, traffic=traffic), roofs, job.rung.precision))
    return out


def asked_bytes(
    jobs: Sequence[Job], rows: Sequence[Row], run: RunJobs, device: Device, roofs: Roofs
) -> dict[int, Quantity]:
    """The bytes that lanes ask for, by job, which no counter tells: the emulator's, and a stream's declared ones.

    What the emulator does not know, such as a kernel that copies by TMA, stays without, and so does what is not right.
    """
    emulated = replace(device, backend="emulated")
    right = [index for index, row in enumerate(rows) if row.time is not None]
    chosen = [
        index for index in right if isinstance(job := jobs[index], Product) and job.rung.why_not_on(emulated) is None
    ]
    start = Worker("emulated", Profile(name="this GPU", device=emulated, roofs=roofs), roofs)
    found = gathered([jobs[index] for index in chosen], run, start)
    asked = {
        index: row.traffic.levels["asked"]
        for index, row in zip(chosen, found, strict=True)
        if row.traffic is not None and "asked" in row.traffic.levels
    }
    for index in right:
        job = jobs[index]
        if isinstance(job, Streamed):
            asked[index] = Quantity(bytes=job.stream.at(job.stream.asked_bytes, job.n), origin="modelled")
    return asked


def with_asked(rows: Sequence[AskedRow], asked: dict[int, Quantity]) -> tuple[AskedRow, ...]:
    """``rows`` with what their lanes ask for."""
    return tuple(_with_asked(row, asked.get(index)) for index, row in enumerate(rows))


def _with_asked(row: AskedRow, asked: Quantity | None) -> AskedRow:
    if asked is None:
        return row
    known = row.traffic or Traffic(levels={})
    return replace(row, traffic=replace(known, levels={**known.levels, "asked": asked}))


def _failed(job: Job, why: str) -> Row:
    if isinstance(job, Streamed):
        stream = job.stream
        return AskedRow(
            name=stream.name, title=stream.title, kind="stream", size=f"n = {job.n}",
            flop=stream.at(stream.flop, job.n), problem=why,
        )  # fmt: skip
    return replace(blank(job.rung, job.shape), params=dict(job.rung.params), error=why)
