"""Results, arranged for reading: one section a results file and shape, one row a run. No drawing, no text layout."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ladder.catalog import source_sha256
from ladder.errors import ShapeError
from ladder.geometry import plan
from ladder.laws import predict, useful
from ladder.model import Device, Kind, Origin, Precision, Rung, Shape
from ladder.report.diagnose import Reading, read
from ladder.report.signals import conflict_degree
from ladder.store import Results, Run

__all__ = ["STATUS_WORDS", "Row", "Section", "Status", "origins", "sections"]

Status = Literal["right", "wrong", "broke off", "skipped", "recorded", "not checked", "sampled"]

STATUS_WORDS: dict[str, str] = {
    "sampled": "not run: counted from sampled threadblocks",
    "recorded": "not run: counts of the recorded card",
}
"""What a status is called where its own word would not do."""

_KIND_ORDER: tuple[Kind, ...] = ("rung", "law", "peer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run and what the report says about it.

    Attributes:
        run: the results' row.
        status: the outcome of its proof.
        reading: what binds it and which lever helps.
        rung: the catalogue's declaration, if it is the one that ran.
        edge: effective edge of the C tile: the harmonic mean of BM and BN; None when nothing tells.
        precision: what its product is worth, as the catalogue or a library's name says.
    """

    run: Run
    status: Status
    reading: Reading
    rung: Rung | None
    edge: float | None
    precision: Precision = "fp32"

    @property
    def name(self) -> str:
        """The rung's name."""
        return self.run.rung

    @property
    def outcome(self) -> str:
        """The status in words."""
        return STATUS_WORDS.get(self.status, self.status)

    @property
    def placed(self) -> bool:
        """Whether it has a place on the roofline."""
        return self.run.placement is not None and self.run.placement.roof_flop_per_s > 0

    @property
    def height_flop_per_s(self) -> float | None:
        """Where it is drawn: the measured rate, or without a clock the lowest roof; None when it has neither."""
        if self.run.flop_per_s is not None:
            return self.run.flop_per_s
        return self.run.placement.roof_flop_per_s if self.run.placement is not None and self.placed else None

    @property
    def conflict_degree(self) -> float | None:
        """Wavefront bytes over lane bytes at the shared level."""
        return conflict_degree(self.run)

    @property
    def law_error(self) -> float | None:
        """Measured over predicted L1 intensity, less 1."""
        predicted = self.run.law.predicted.get("l1") if self.run.law else None
        measured = self.run.intensity.get("l1")
        return measured / predicted - 1 if measured and predicted else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """All rows of one results file at one shape, rungs before laws before peers, each in the ladder's order."""

    results: Results
    shape: Shape
    rows: tuple[Row, ...]

    @property
    def timed(self) -> bool:
        """Whether any row has a time."""
        return any(row.run.time is not None for row in self.rows)

    @property
    def placed(self) -> tuple[Row, ...]:
        """Rows with a place on the roofline."""
        return tuple(row for row in self.rows if row.placed)


def sections(results: Results, catalog: Mapping[str, Rung] | None = None) -> tuple[Section, ...]:
    """``results`` by shape: the largest cube that ran leads; smaller cubes, unproved ones and other shapes follow."""
    known = catalog or {}
    proved = {run.shape for run in results.runs if run.check is not None}

    def place(shape: Shape) -> tuple[bool, bool, int]:
        return not shape.m == shape.n == shape.k, shape not in proved, -shape.flop

    shapes = sorted(dict.fromkeys(run.shape for run in results.runs), key=place)
    return tuple(
        Section(
            results=results,
            shape=shape,
            rows=tuple(_row(run, results, known.get(run.rung)) for run in _ordered(results.runs, shape, known)),
        )
        for shape in shapes
    )


def origins(section: Section) -> dict[str, dict[Origin, list[str]]]:
    """For each level and for the time: which origins its numbers have, and in which rows."""
    out: dict[str, dict[Origin, list[str]]] = {}
    for row in section.rows:
        if row.run.traffic is not None:
            for level, quantity in row.run.traffic.levels.items():
                out.setdefault(level, {}).setdefault(quantity.origin, []).append(row.name)
        if row.run.time is not None:
            out.setdefault("time", {}).setdefault("measured", []).append(row.name)
    return out


def _ordered(runs: Sequence[Run], shape: Shape, catalog: Mapping[str, Rung]) -> list[Run]:
    position = {name: index for index, name in enumerate(catalog)}
    chosen = [run for run in runs if run.shape == shape]
    return sorted(chosen, key=lambda run: (_KIND_ORDER.index(run.kind), position.get(run.rung, len(position))))


def _row(run: Run, results: Results, rung: Rung | None) -> Row:
    precision: Precision = rung.precision if rung is not None else "tf32" if "tf32" in run.rung else "fp32"
    # A rung of the same name but another text would lend the row a tile that it did not have.
    if rung is not None and source_sha256(rung) != run.source_sha256:
        rung = None
    if rung is not None and run.law is not None:
        # The law is no measurement: a record says what was known of it then.
        run = replace(run, law=predict(rung, run.shape))
    blocks = _blocks(rung, run.shape) if rung is not None else None
    inside = useful(rung, run.shape) if rung is not None and run.shape.flop else None
    reading = read(
        run,
        results.roofs,
        sm_count=results.device.sm_count,
        blocks=blocks,
        blocks_per_sm=_blocks_per_sm(rung, run, results.device) if rung is not None else None,
        roof_clock_hz=_roof_clock_hz(run, results),
        useful=inside,
    )
    return Row(
        run=run, status=_status(run, results.device), reading=reading, rung=rung, edge=_edge(run, rung),
        precision=precision,
    )  # fmt: skip


def _roof_clock_hz(run: Run, results: Results) -> float | None:
    """The clock of the FP32 roof; None for what another pipe binds, whose roof was taken at a clock of its own."""
    bound_by = run.placement.bound_by if run.placement is not None else None
    return None if bound_by in results.roofs.flop_per_s and bound_by != "fp32" else results.device.sm_clock_hz


def _status(run: Run, device: Device) -> Status:
    if run.skipped is not None:
        return "skipped" if run.traffic is None else "recorded"
    if run.error is not None:
        return "broke off"
    if run.check is None:
        # The emulator proves whatever it executes; without a check its counts come from some of the threadblocks.
        return "sampled" if device.backend == "emulated" and run.traffic is not None else "not checked"
    return "right" if run.check.passed else "wrong"


def _blocks(rung: Rung, shape: Shape) -> int | None:
    """Threadblocks of the product; None when there are none, or when their number says nothing of idle SMs."""
    if rung.persistent:
        # As many as fit at once, whatever the shape: whether each has work, only counters tell.
        return None
    try:
        return sum(launch.blocks for launch in plan(rung, shape))
    except ShapeError:
        return None


def _blocks_per_sm(rung: Rung, run: Run, device: Device) -> int | None:
    """How many threadblocks an SM holds at once, from the occupancy; None when a file does not tell that."""
    occupancy = run.resources.occupancy if run.resources is not None else None
    if not occupancy or not device.max_threads_per_sm:
        return None
    return max(1, round(occupancy * device.max_threads_per_sm / (32 * math.ceil(rung.threads / 32))))


def _edge(run: Run, rung: Rung | None) -> float | None:
    if run.law is None:
        return None
    if rung is not None:
        bm, bn = rung.tile
        return 2 * bm * bn / (bm + bn)
    predicted = run.law.predicted.get("l1")
    if not predicted:
        return None
    return _edge_of_law(run.law.name, predicted, run.shape)


def _edge_of_law(name: str, predicted: float, shape: Shape) -> float | None:
    """Solve the law's closed form for T: results do not hold the tile, but a prediction made from it."""
    if name == "tile_product":
        return 6 * predicted
    remaining = 1 - 2 * predicted / shape.k
    return 4 * predicted / remaining if name == "c_stationary" and remaining > 0 else None
