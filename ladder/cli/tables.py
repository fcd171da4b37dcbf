"""Results as tables for a person."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from ladder.catalog import prose_fields
from ladder.model import LEVELS, Activity, Level, Roofs, Rung
from ladder.store import Run

__all__ = ["Column", "Columns", "activity", "catalogue", "number", "outcome", "places", "traffic"]

_INTENSITIES: tuple[Level, ...] = ("dram", "l2", "l1", "shared", "sm")
_STYLE = {
    "right": "green",
    "WRONG": "bold red",
    "FAILED": "bold red",
    "skipped": "yellow",
    "recorded": "yellow",
    "unchecked": "yellow",
}
_GAP = 2
_WORDS = 60
_NOTABLE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table; ``spare`` ones are left out of a narrow terminal, the highest first; 0 stays."""

    head: str
    cells: tuple[str, ...]
    number: bool = True
    spare: int = 0

    @property
    def width(self) -> int:
        """Columns of the terminal that its longest cell takes."""
        return max(map(len, (self.head, *self.cells)))


_PLACES_WIDTH = 100
"""Of the table that ends a run, in logs too; the results file has everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """A table that knows what to leave out; ``caption`` explains it, ``most`` is how wide it may be on any screen."""

    columns: tuple[Column, ...]
    caption: str = ""
    most: int = 100_000

    def fit(self, width: int) -> tuple[Table, str]:
        """The columns that ``width`` has room for, and the caption with what was left out."""
        kept = [column for column in self.columns if any(column.cells) or not column.spare]
        dropped: list[str] = []
        while sum(column.width + _GAP for column in kept) > width + _GAP and any(column.spare for column in kept):
            least = max(kept, key=lambda column: column.spare)
            kept.remove(least)
            dropped.insert(0, least.head)
        # The column divider is the other half of the gap.
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, _GAP - 1, 0, 0), pad_edge=False)
        for column in kept:
            table.add_column(column.head, justify="right" if column.number else "left", overflow="fold")
        for cells in zip(*(column.cells for column in kept), strict=True):
            table.add_row(*(Text(cell, style=_STYLE.get(cell, "")) for cell in cells))
        left_out = f" No room for: {', '.join(dropped)}." if dropped else ""
        return table, f"{self.caption}{left_out}".strip()


def outcome(run: Run) -> str:
    """One word for how a rung ended; ``recorded`` if it was skipped and has the counts of the recorded card."""
    if run.skipped is not None:
        return "skipped" if run.traffic is None else "recorded"
    if run.error is not None:
        return "FAILED"
    if run.check is None:
        return "unchecked"
    return "right" if run.check.passed else "WRONG"


def catalogue(rungs: Iterable[Rung]) -> Columns:
    """What can be run: a row per rung."""
    found = list(rungs)
    return Columns(
        columns=(
            _text("rung", [rung.name for rung in found]),
            _text("title", [rung.title for rung in found]),
            _text("tile", ["x".join(map(str, rung.tile)) for rung in found], spare=1),
            Column(head="threads", cells=tuple(str(rung.threads) for rung in found), spare=2),
            _text("needs", [rung.needs for rung in found], spare=3),
            _text("shapes", [_multiple(rung) for rung in found], spare=4),
            _text("file", [rung.path.name for rung in found], spare=5),
            _text("removes", [_first_words(prose_fields(rung).get("removes", "")) for rung in found], spare=6),
        )
    )


def places(runs: Sequence[Run], roofs: Roofs) -> Columns:
    """Where each rung sits: check, intensity by level, what binds, the roof and the share of it, the law."""
    found = [run.placement for run in runs]

    def law(level: Level) -> tuple[str, ...]:
        return tuple(number(run.law.predicted.get(level) if run.law else None) for run in runs)

    def intensity(level: Level, spare: int) -> Column:
        cells = tuple(number(run.intensity.get(level)) for run in runs)
        return Column(head=level, cells=cells, spare=spare)

    shares = tuple(f"{p.fraction:.0%}" if p and p.fraction is not None else "" for p in found)
    return Columns(
        columns=(
            _text("rung", [run.rung for run in runs]),
            *_shape(runs),
            _text("check", [outcome(run) for run in runs]),
            *(intensity(level, spare) for level, spare in zip(_INTENSITIES, (4, 6, 3, 2, 1), strict=True)),
            Column(head="law l1", cells=law("l1"), spare=5),
            Column(head="law shared", cells=law("shared"), spare=7),
            _text("bound by", [_roof_name(p.bound_by, roofs) if p else "" for p in found]),
            Column(head="roof", cells=tuple(_tera(p.roof_flop_per_s) if p else "" for p in found)),
            Column(head="rate", cells=tuple(_tera(run.flop_per_s) for run in runs), spare=1),
            Column(head="of roof", cells=shares, spare=1),
            Column(head="cold/warm", cells=tuple(number(run.cold_over_warm) for run in runs), spare=8),
        ),
        caption="Intensity by level, and what the rung's law predicts: FLOP/byte. Roof and rate: TFLOP/s."
        + (" Recorded: not run here, the counts are the card's." if "recorded" in map(outcome, runs) else ""),
        most=_PLACES_WIDTH,
    )


def traffic(runs: Sequence[Run]) -> Columns:
    """A row per rung and level: bytes, intensity, wavefronts, requests."""
    rows = [(run, *row) for run in runs for row in _levels(run)]
    return Columns(
        columns=(
            _text("rung", [run.rung for run, *_ in rows]),
            *_shape([run for run, *_ in rows]),
            _text("level", [row[1] for row in rows]),
            Column(head="bytes", cells=tuple(row[2] for row in rows)),
            Column(head="FLOP/byte", cells=tuple(row[3] for row in rows)),
            Column(head="wavefronts", cells=tuple(row[4] for row in rows), spare=2),
            Column(head="requests", cells=tuple(row[5] for row in rows), spare=3),
            Column(head="per request", cells=tuple(row[6] for row in rows), spare=1),
            _text("origin", [row[7] for row in rows], spare=4),
        ),
        caption="A wavefront is a pass of 128 bytes through the SM's data pipe; all kinds add up to sm.",
    )


def activity(runs: Sequence[Run]) -> Columns | None:
    """A row per rung: FP32 work and what its warps did meanwhile; None when nobody counted that."""
    found = [(run, run.activity) for run in runs if run.activity is not None]
    if not found:
        return None
    of_work = [a.flop / run.shape.flop if a.flop is not None and run.shape.flop else None for run, a in found]
    return Columns(
        columns=(
            _text("rung", [run.rung for run, _ in found]),
            *_shape([run for run, _ in found]),
            Column(head="FP32 FLOP", cells=tuple("" if a.flop is None else str(a.flop) for _, a in found), spare=2),
            Column(head="of 2MNK", cells=tuple("" if share is None else f"{share:.6g}" for share in of_work)),
            Column(head="tensor", cells=tuple(str(a.tensor_instructions or "") for _, a in found), spare=3),
            Column(head="occupancy", cells=tuple(_share(a.occupancy) for _, a in found)),
            Column(head="SMs busy", cells=tuple(_share(a.busy) for _, a in found), spare=1),
            Column(head="issuing", cells=tuple(_share(a.issue_active) for _, a in found)),
            _text("warps wait for", [_waits(a) for _, a in found], spare=4),
            _text("origin", [a.origin for _, a in found], spare=5),
        ),
        caption="Tensor: warp instructions. Issuing: cycles with an instruction issued, of those with a warp.",
    )


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _waits(seen: Activity) -> str:
    return ", ".join(f"{reason} {share:.0%}" for reason, share in seen.leading_stalls[:3] if share >= _NOTABLE)


def _levels(run: Run) -> Iterator[tuple[str, str, str, str, str, str, str]]:
    counts = run.traffic
    if counts is None:
        return
    shared = (counts.wavefronts_ld + counts.wavefronts_st, counts.requests_ld + counts.requests_st)
    for level in LEVELS:
        quantity = counts.levels.get(level)
        if level == "sm" and counts.global_requests:
            yield "global", "", "", *_pipe(counts.global_wavefronts, counts.global_requests), ""
            for name, more in (("fetches", counts.fetch_wavefronts), ("other", counts.other_wavefronts)):
                if more:
                    yield name, "", "", str(more), "", "", ""
        if quantity is not None:
            pipe = _pipe(*shared) if level == "shared" and shared[1] else ("", "", "")
            yield level, str(quantity.bytes), number(run.intensity.get(level)), *pipe, quantity.origin


def _pipe(wavefronts: int, requests: int) -> tuple[str, str, str]:
    return str(wavefronts), str(requests), number(wavefronts / requests)


def _shape(runs: Sequence[Run]) -> list[Column]:
    """A column of shapes, when there is more than one."""
    several = len({run.shape for run in runs}) > 1
    return [_text("shape", [str(run.shape) for run in runs])] if several else []


def _text(head: str, cells: Sequence[str], *, spare: int = 0) -> Column:
    return Column(head=head, cells=tuple(cells), number=False, spare=spare)


def _first_words(prose: str) -> str:
    """The words up to the first pause, as far as a cell has room for them."""
    words = re.split(r"[:.,;](?:\s|$)", prose, maxsplit=1)[0]
    return words if len(words) <= _WORDS else f"{words[: _WORDS - 1].rstrip()}…"


def _multiple(rung: Rung) -> str:
    limits = ", ".join(f"{axis} % {step}" for axis, step in zip("MNK", rung.multiple, strict=True) if step > 1)
    return limits or "any"


def _roof_name(bound_by: str, roofs: Roofs) -> str:
    roof = "sm" if bound_by == "shared" else bound_by
    return bound_by if roofs.origin.get(roof) != "modelled" else f"{bound_by} (modelled)"


def number(value: float | None) -> str:
    """Three digits, or all of those before the point."""
    if value is None:
        return ""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _tera(value: float | None) -> str:
    return "" if value is None else number(value / 1e12)
