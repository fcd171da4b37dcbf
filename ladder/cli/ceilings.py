"""``ladder ceilings``: a GPU's roofs, what speaks for them, and where they meet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ladder import profiles
from ladder.backends.cuda import find_gpu
from ladder.ceilings import (
    Ceiling,
    Ceilings,
    Sustained,
    Trial,
    finding_text,
    keep,
    save,
    with_counters,
)
from ladder.cli.console import complain, say, show
from ladder.cli.options import ProfileOption
from ladder.cli.session import DEFAULT_PROFILE, ensure_writable, measure_here, measured_when
from ladder.cli.tables import Column, Columns
from ladder.errors import BackendError
from ladder.model import Device, Roofs
from ladder.ridges import LEVELS, Ridges, known_cards, moves
from ladder.workers import run_jobs

__all__ = ["ceilings"]

_NAMES = {"dram": "DRAM copy", "l2": "L2 read", "sm": "shared read", "fp32": "FP32", "tf32": "TF32", "bf16": "BF16"}
_TERA = 1e12


def ceilings(
    *,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure again, even if this card's roofs were measured today.")
    ] = False,
    json: Annotated[
        Path | None,
        typer.Option("--json", metavar="OUT.json", help="Keep everything that was tried here (ladder-ceilings/1)."),
    ] = None,
    profile: ProfileOption = None,
) -> None:
    """Measure the roofs of this GPU, and say where they meet.

    DRAM copy, L2 read, shared read, FP32 and the tensor cores, each by a probe whose machine code and, where ncu can
    read them, counters are compared with what was meant. Without a GPU, or with --profile, the recorded roofs are
    shown. Exit code: 0 all right, 1 a roof is not what was meant, 2 usage.
    """
    if json is not None:
        ensure_writable(json, "--json")
    reason = find_gpu()
    if reason is not None or profile is not None:
        _recorded(profile, reason)
        if json is not None:
            complain(f"nothing was measured, so {json} is not written")
            raise typer.Exit(2)
        return
    found = _measured(fresh=fresh)
    if json is not None:
        save(found, json)
        say(f"\nEverything that was tried: {json}")
    raise typer.Exit(int(bool(found.failed)))


def _recorded(name: str | None, reason: str | None) -> None:
    """What a profile says, after a line on why nothing is measured."""
    chosen = profiles.load_profile(name or DEFAULT_PROFILE)
    if name is None:
        say(f"Nothing is measured here: {reason}")
    say(f"Recorded roofs of {chosen.device.name} (profile {chosen.name}):")
    roofs = chosen.roofs
    rows = [*roofs.bytes_per_s, *roofs.flop_per_s]
    rates = {**roofs.bytes_per_s, **roofs.flop_per_s}
    show(
        Columns(
            columns=(
                Column(head="roof", cells=tuple(_NAMES.get(row, row) for row in rows), number=False),
                Column(head="rate", cells=tuple(_rate(rates[row], row in roofs.bytes_per_s) for row in rows)),
                Column(head="origin", cells=tuple(roofs.origin.get(row, "recorded") for row in rows), number=False),
                Column(head="how", cells=tuple(roofs.note.get(row, "") for row in rows), number=False, spare=1),
            )
        )
    )
    _say_ridges(chosen.device, roofs)


def _measured(*, fresh: bool) -> Ceilings:
    """Measure in a child process, or take what was measured today; then let ncu watch, if it has not yet.

    Raises:
        BackendError: the GPU could not be measured.
    """
    say("Measuring the roofs, half a minute the first time today ...")
    (end,) = run_jobs([None], partial(measure_here, fresh=fresh), one_thread=False)
    if end.result is None:
        raise BackendError(f"the roofs cannot be measured: {end.failure}")
    key, found = end.result
    if not any(finding.by == "counters" for each in found.ceilings for finding in each.findings):
        found = with_counters(found)
        keep(key, found)
    device = found.device
    say(f"{device.name}, driver {device.driver}: {measured_when(found)} in {found.seconds:.0f} s.")
    show(_table(found))
    for line in _checks(found.ceilings):
        say(line)
    show(_sweep(found))
    _say_ridges(device, found.roofs)
    return found


def _table(found: Ceilings) -> Columns:
    """A row for each roof, and below it what other operands reached."""
    rows: list[tuple[Ceiling, Sustained | None]] = []
    for each in found.ceilings:
        rows.append((each, None))
        rows += [(each, other) for other in each.others if other.config.data]

    def kept_up(ceiling: Ceiling, other: Sustained | None) -> Sustained:
        return other or ceiling.best

    def name(ceiling: Ceiling, other: Sustained | None) -> str:
        data = kept_up(ceiling, other).config.data
        return f"{_NAMES[ceiling.roof]}{f', {data} operands' if data else ''}"

    def per_clock(ceiling: Ceiling, other: Sustained | None) -> float | None:
        if other is None:
            return ceiling.per_clock
        return other.rate / (other.clock_hz * found.device.sm_count) if other.clock_hz else None

    def share(ceiling: Ceiling, other: Sustained | None) -> str:
        each = per_clock(ceiling, other)
        return "" if each is None or ceiling.limit is None else f"{each / ceiling.limit:.1%}"

    def verified(ceiling: Ceiling, other: Sustained | None) -> str:
        if other is not None:
            return ""
        return "NOT AS MEANT" if ceiling.failed else ", ".join(ceiling.verified_by) or "nothing"

    clocks = [kept_up(*row).clock_hz for row in rows]
    powers = [kept_up(*row).watched.power_w for row in rows]
    limits = [", ".join(kept_up(*row).watched.limits) for row in rows]
    return Columns(
        columns=(
            Column(head="roof", cells=tuple(name(*row) for row in rows), number=False),
            Column(head="rate", cells=tuple(_rate(o.rate if o else c.rate, c.unit == "B") for c, o in rows)),
            Column(head="clk/SM", cells=tuple(_each(per_clock(*row), row[0].unit) for row in rows)),
            Column(head="of limit", cells=tuple(share(*row) for row in rows)),
            Column(head="SM clock", cells=tuple("" if c is None else f"{c / 1e9:.3f} GHz" for c in clocks)),
            Column(head="power", cells=tuple("" if p is None else f"{p:.0f} W" for p in powers), spare=1),
            Column(head="verified by", cells=tuple(verified(*row) for row in rows), number=False),
            Column(head="clock held by", cells=tuple(limits), number=False, spare=2),
            Column(head="how", cells=tuple(kept_up(*row).words for row in rows), number=False, spare=3),
        ),
        caption="Limits per clock and SM: 128 bytes of the data pipe, two FLOP an FP32 lane, the tensor cores' width. "
        "Of two kinds of operands the higher rate is the roof.",
    )


def _checks(found: Sequence[Ceiling]) -> Iterator[str]:
    """What was not as meant, and what nobody could look at."""
    for each in found:
        for finding in each.failed:
            yield f"NOT AS MEANT, {_NAMES[each.roof]}: {finding_text(finding)}. Do not trust this roof."
    blind: dict[str, list[str]] = {}
    for each in found:
        for finding in each.findings:
            if finding.ok is None:
                blind.setdefault(f"not checked by {finding.by}: {finding.why}", []).append(_NAMES[each.roof])
    for why, names in blind.items():
        yield f"{', '.join(dict.fromkeys(names))} {why}"


def _sweep(found: Ceilings) -> Columns:
    """L2's footprints, for the configuration that was chosen."""
    config = found["l2"].best.config
    inside = {config.footprint_bytes, *(each.config.footprint_bytes for each in found["l2"].others)}

    def same(trial: Trial) -> bool:
        other = trial.config
        return (other.roof, other.block, other.params, other.numbers.get("share")) == (
            config.roof, config.block, config.params, config.numbers.get("share"),
        )  # fmt: skip

    rows = [trial for trial in found.trials if same(trial)]
    sizes = [trial.config.footprint_bytes or 0 for trial in rows]
    words = [
        "plateau" if size in inside else "" if trial.counts else "too few chunks"
        for trial, size in zip(rows, sizes, strict=True)
    ]
    return Columns(
        columns=(
            Column(head="L2 footprint", cells=tuple(f"{size / 2**20:.1f} MiB" for size in sizes)),
            Column(head="of L2", cells=tuple(f"{size / found.device.l2_bytes:.0%}" for size in sizes)),
            Column(head="rate", cells=tuple(_rate(trial.rate, True) for trial in rows)),
            Column(head="", cells=tuple(words), number=False),
        ),
        caption=f"{found['l2'].best.words}. The roof is the mean over the plateau.",
    )


def _say_ridges(device: Device, roofs: Roofs) -> None:
    """Ridge points of this card, and of the known ones beside it."""
    own = moves([(device.name, roofs)])
    say("\nRidge points, FLOP/byte: left of one the memory binds, right of it the pipe.")
    show(_ridge_table(own, factors=False))
    say("\nWhat moves the ridge: card and number format, FLOP/byte, and times the first row's.")
    show(_ridge_table(moves(known_cards(device, roofs)), factors=True))


def _ridge_table(rows: Sequence[Ridges], *, factors: bool) -> Columns:
    def point(row: Ridges, level: str) -> str:
        at = {str(name): value for name, value in row.flop_per_byte.items()}.get(level)
        times = {str(name): value for name, value in row.factor.items()}.get(level)
        if at is None:
            return "–"
        return f"{at:.3g}{f'  x {times:.2f}' if factors and times is not None else ''}"

    heads = {"dram": "DRAM", "l2": "L2", "sm": "SM data pipe"}
    return Columns(
        columns=(
            *((Column(head="card", cells=tuple(row.card for row in rows), number=False),) if factors else ()),
            Column(head="pipe", cells=tuple(_NAMES.get(row.pipe, row.pipe) for row in rows), number=False),
            Column(head="peak", cells=tuple(_rate(row.flop_per_s, False) for row in rows)),
            *(Column(head=heads[level], cells=tuple(point(row, level) for row in rows)) for level in LEVELS),
        )
    )


def _rate(value: float, memory: bool) -> str:
    return f"{value / _TERA:.4g} {'TB/s' if memory else 'TFLOP/s'}"


def _each(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:.4g} {unit}"
