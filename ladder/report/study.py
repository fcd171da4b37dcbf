"""What a study of one rung shows: its words, tiles, compiled resources and counts, and what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ladder.catalog import load_catalog, prose_fields
from ladder.errors import CompileError
from ladder.geometry import Launch, plan
from ladder.model import Device, Resources, Rung
from ladder.nvrtc import compile_rung
from ladder.occupancy import blocks_per_sm, occupancy, padded_smem_bytes
from ladder.rates import Rate, load_rates
from ladder.report.view import Row, sections
from ladder.store import Results

__all__ = ["Build", "Study", "build", "next_rung", "recorded", "studies"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A rung's kernel as ptxas made it for one device, and how it fills a multiprocessor of it."""

    arch: str
    nvrtc: str
    resources: Resources
    blocks_per_sm: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A rung, and what is known of it at one shape on one device.

    Attributes:
        rung: the declaration.
        row: the run, and what binds it.
        launches: those of the product; empty where the shape has none or is not supported, and for a persistent rung
            that was not built, whose grid is what fits.
        build: what compiling it for the device gave; None where it cannot be, and ``unbuilt`` says why.
        rates: what the packaged record of the device has of it; empty for a file that is not the ladder's.
        after: the next rung of the ladder.
    """

    rung: Rung
    row: Row
    launches: tuple[Launch, ...]
    build: Build | None
    unbuilt: str
    rates: tuple[Rate, ...]
    after: Rung | None

    @property
    def prose(self) -> dict[str, str]:
        """The labelled paragraphs of its header."""
        return prose_fields(self.rung)


def studies(rungs: Sequence[Rung], results: Results) -> tuple[Study, ...]:
    """A study for each of ``rungs`` from its row in ``results``, which holds one shape.

    Raises:
        NvrtcMissingError: NVRTC cannot be loaded.
    """
    (section,) = sections(results, {rung.name: rung for rung in rungs})
    rows = {row.name: row for row in section.rows}
    return tuple(_study(rung, rows[rung.name], results.device) for rung in rungs)


def _study(rung: Rung, row: Row, device: Device) -> Study:
    why = rung.why_not_on(replace(device, backend="cuda"))
    made = None
    if why is None:
        try:
            made = build(rung, device)
        except CompileError as error:
            why = str(error)
    return Study(
        rung=rung,
        row=row,
        launches=_launches(rung, row, device, made),
        build=made,
        unbuilt=why or "",
        rates=recorded(rung, device),
        after=next_rung(rung),
    )


def _launches(rung: Rung, row: Row, device: Device, made: Build | None) -> tuple[Launch, ...]:
    """Those of the product; none where the grid depends on a build that there is not."""
    if rung.supports(row.run.shape) is not None or (rung.persistent and made is None):
        return ()
    resident = max(1, made.blocks_per_sm) * device.sm_count if made is not None else None
    return plan(rung, row.run.shape, resident=resident)


def build(rung: Rung, device: Device) -> Build:
    """Compile ``rung`` for ``device``; no GPU is needed.

    Raises:
        CompileError: NVRTC refuses it.
        NvrtcMissingError: NVRTC cannot be loaded.
    """
    made = compile_rung(rung, arch=rung.arch_for(device))
    smem_bytes = padded_smem_bytes(device, smem_bytes=made.resources.smem_bytes, most=rung.blocks_per_sm)
    threads, registers = rung.threads, made.resources.registers
    share = occupancy(device, threads=threads, registers=registers, smem_bytes=smem_bytes)
    return Build(
        arch=made.arch,
        nvrtc=made.nvrtc_version,
        resources=replace(made.resources, occupancy=share),
        blocks_per_sm=blocks_per_sm(device, threads=threads, registers=registers, smem_bytes=smem_bytes),
    )


def recorded(rung: Rung, device: Device) -> tuple[Rate, ...]:
    """What the packaged record of ``device`` says that ``rung``, if it is the ladder's own, reached; by shape."""
    if rung.source not in {each.source for each in load_catalog() if each.name == rung.name}:
        return ()
    tables = [table for table in load_rates() if table.card == device.name]
    return tuple(rate for table in tables for rate in table.rows if rate.rung == rung.name)


def next_rung(rung: Rung) -> Rung | None:
    """The first rung of the ladder's next file; None for the last, for a law and for a file elsewhere."""
    ladder = [each for each in load_catalog() if each.kind == "rung"]
    if rung.path.resolve() not in {each.path.resolve() for each in ladder}:
        return None
    return next((each for each in ladder if each.number > rung.number), None)
