"""What the experiments found, as tables for a person."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ladder.cli.tables import Column, Columns, number
from ladder.experiments import AskedRow, Experiments
from ladder.experiments.fits import Fit, deviation, edge_of, family_of, fits, law_at_l1, ragged
from ladder.experiments.intervals import Interval
from ladder.experiments.padding import pad_of, pitch_of, predicted
from ladder.laws import compulsory
from ladder.model import Roofs
from ladder.store import Run

__all__ = ["of"]

_LEVELS = ("dram", "l2", "sm")
_CAPTION = "FLOP/byte. At T = 4 a row of a tile is half of a 32-byte sector; L1 moves all of it."


def of(found: Experiments, wanted: Collection[str]) -> Iterator[Columns]:
    """The tables of the experiments that were asked for."""
    if "law" in wanted:
        yield _law(found.edges)
        yield _fits(fits(found.edges))
    if "transition" in wanted:
        yield _bounds(found.edges)
        yield _padding(found.padding, found.roofs)
    if "asked" in wanted:
        yield _asked(found.asked, found.roofs)


def _law(runs: Sequence[Run]) -> Columns:
    rows = [run for run in runs if run.intensity]
    left_out = [f"{run.rung} at {run.shape}: {run.skipped}" for run in runs if run.skipped]
    return Columns(
        columns=(
            _words("kernel", [family_of(run) for run in rows]),
            Column(head="T", cells=tuple(str(edge_of(run)) for run in rows)),
            _words("shape", [str(run.shape) for run in rows]),
            Column(head="law at L1", cells=tuple(number(law_at_l1(run)) for run in rows)),
            Column(head="L1", cells=tuple(number(run.intensity.get("l1")) for run in rows)),
            Column(head="off", cells=tuple(_off(deviation(run)) for run in rows)),
            Column(head="L2", cells=tuple(number(run.intensity.get("l2")) for run in rows)),
            Column(head="DRAM", cells=tuple(number(run.intensity.get("dram")) for run in rows)),
            Column(head="compulsory", cells=tuple(number(compulsory(run.shape)) for run in rows), spare=1),
        ),
        caption="\n".join(filter(None, [_CAPTION, ragged(rows), *left_out])),
    )


def _fits(found: Sequence[Fit]) -> Columns:
    return Columns(
        columns=(
            _words("kernel", [each.kernel for each in found]),
            Column(head="N", cells=tuple(str(each.n) for each in found)),
            _words("level", [each.level for each in found]),
            _words("slope, 95 %", [_interval(each.slope) if each.grows else "" for each in found]),
            Column(head="law", cells=tuple(f"{each.law:.4f}" for each in found)),
            _words("exponent, 95 %", [_interval(each.exponent) for each in found]),
            Column(head="points", cells=tuple(str(each.points) for each in found), spare=1),
        ),
        caption="Slope of I = slope x T through the origin; exponent of I = c T^p. Edges of whole sectors, T >= 8.",
    )


def _bounds(runs: Sequence[Run]) -> Columns:
    rows = [run for run in runs if run.placement]

    def bound(level: str) -> tuple[str, ...]:
        return tuple(_tera(run.placement.bounds_flop_per_s.get(level)) if run.placement else "" for run in rows)

    return Columns(
        columns=(
            _words("kernel", [family_of(run) for run in rows]),
            Column(head="T", cells=tuple(str(edge_of(run)) for run in rows)),
            _words("shape", [str(run.shape) for run in rows]),
            *(Column(head=f"{level} allows", cells=bound(level)) for level in _LEVELS),
            _words("bound by", [run.placement.bound_by if run.placement else "" for run in rows]),
            Column(head="measured", cells=tuple(_tera(run.flop_per_s) for run in rows), spare=1),
            Column(
                head="of roof",
                cells=tuple(_share(run.placement.fraction if run.placement else None) for run in rows),
                spare=1,
            ),
        ),
        caption="TFLOP/s: the intensity of each level times its roof; the lowest binds.",
    )


def _padding(runs: Sequence[Run], roofs: Roofs) -> Columns:
    del roofs
    laws = [predicted(pitch_of(run)) for run in runs]
    return Columns(
        columns=(
            Column(head="padding", cells=tuple(str(pad_of(run)) for run in runs)),
            Column(head="bytes a load", cells=tuple(str(law.width_bytes) for law in laws)),
            Column(head="wavefronts a column load", cells=tuple(str(law.column) for law in laws)),
            Column(head="predicted a request", cells=tuple(f"{law.per_request:.3f}" for law in laws)),
            Column(
                head="counted a request",
                cells=tuple(
                    "" if run.traffic is None or run.traffic.wavefronts_per_request is None
                    else f"{run.traffic.wavefronts_per_request:.3f}"
                    for run in runs
                ),
            ),
            Column(head="shared, FLOP/byte", cells=tuple(number(run.intensity.get("shared")) for run in runs)),
            Column(head="TFLOP/s", cells=tuple(_tera(run.flop_per_s) for run in runs), spare=1),
        ),
        caption="Rung 04 (padding 0) and rung 05: words of padding a column of the transposed tile.",
    )  # fmt: skip


def _asked(rows: Sequence[AskedRow], roofs: Roofs) -> Columns:
    copy = roofs.bytes_per_s.get("dram")
    against = "" if copy is None else f" of a copy's {copy / 1e12:.3g} TB/s"
    kept = [row for row in rows if row.traffic is not None]
    return Columns(
        columns=(
            _words("kernel", [row.name for row in kept]),
            _words("size", [row.size for row in kept]),
            Column(head="asked, MB", cells=tuple(_mega(row.bytes_at("asked")) for row in kept)),
            Column(head="DRAM, MB", cells=tuple(_mega(row.bytes_at("dram")) for row in kept)),
            Column(head="DRAM / asked", cells=tuple(_ratio(row.dram_over_asked) for row in kept)),
            Column(head="by asked", cells=tuple(_share(row.share("asked", roofs)) for row in kept), spare=1),
            Column(head="by DRAM", cells=tuple(_share(row.share("dram", roofs)) for row in kept), spare=1),
        ),
        caption=f"Rates of both kinds of bytes are shares{against}; above 100 % the bytes cannot have come from DRAM.",
    )


def _words(head: str, cells: Sequence[str]) -> Column:
    return Column(head=head, cells=tuple(cells), number=False)


def _interval(found: Interval) -> str:
    return f"{found.value:.4f} ± {found.half:.4f}"


def _off(value: float | None) -> str:
    return "" if value is None else f"{100 * value:+.2f} %"


def _tera(value: float | None) -> str:
    return "" if value is None else number(value / 1e12)


def _mega(value: int | None) -> str:
    return "" if value is None else number(value / 1e6)


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"
