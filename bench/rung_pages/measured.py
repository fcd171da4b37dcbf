"""What the records say of the rungs of one file, as Markdown: rates, counters, and what binds them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from bench.rung_pages.records import Found, Record, gains, is_cube, rows_of
from bench.rung_pages.tables import Column, table
from ladder.catalog import code_sha256
from ladder.model import LEVELS, Level, Rung
from ladder.report.text import (
    LEVEL_NAMES,
    ORIGIN_MEANINGS,
    ROOF_NAMES,
    listing,
    markdown,
    number,
    percent,
    plural,
    seconds,
)
from ladder.store import Run
from ladder.tuned import Tuned

__all__ = ["measured"]

_TERA, _GIGA = 1e12, 1e9
STEADY = 0.02
"""How far two medians of the same kernel and shape may be apart and count as one."""

PAYS = 1.01
"""Ratio of rates from which a rung is faster than the one before it; below, the two are equal."""
_NOTHING = "No committed record has it yet, so nothing is claimed here."


def measured(
    rungs: Sequence[Rung],
    records: Sequence[Record],
    tunings: Sequence[Tuned],
    *,
    folder: Path,
    before: Sequence[Rung] = (),
) -> list[str]:
    """The lines about ``rungs``, card by card, beside the rungs ``before``; links are relative to ``folder``."""
    lines: list[str] = []
    for card in dict.fromkeys(record.card for record in records):
        found = [one for rung in rungs for one in rows_of(rung, records, card)]
        if found:
            lines += [*([""] if lines else []), *_card(rungs, found, folder, before=before, records=records)]
            lines += _tuned(rungs, [entry for entry in tunings if entry.card == card])
    return lines or [_NOTHING]


def _told(parameters: Mapping[str, int] | None) -> str:
    """``{"BK": 16}`` as ``BK = 16``; nothing for none."""
    return ", ".join(f"{name} = {value}" for name, value in (parameters or {}).items())


def _card(
    rungs: Sequence[Rung], found: Sequence[Found], folder: Path, *, before: Sequence[Rung], records: Sequence[Record]
) -> Iterator[str]:
    for record in dict.fromkeys(one.record.path for one in found):
        mine = [one for one in found if one.record.path == record]
        results, device = mine[0].record.results, mine[0].record.results.device
        link = Path(os.path.relpath(record, folder)).as_posix()
        yield (
            f"{device.name}, driver {device.driver or 'unknown'}, NVRTC {device.nvrtc or 'unknown'}, "
            f"{results.created[:10]}: [{record.name}]({link}). {_origins(mine)}"
        )
        yield ""
    if not all(one.current for one in found):
        yield "The file's text has changed since the rows marked with an asterisk were measured."
        yield ""
    several = [_KERNEL] if len(rungs) > 1 else []
    yield from table(found, [*several, _SHAPE, _PARAMETERS, *_TIMES, *_shares(found), *_BOUNDS])
    yield ""
    counted = [one for one in found if one.run.traffic is not None]
    if counted:
        requests = any(_wavefronts(one) for one in counted)
        also = ", and wavefronts of shared memory for each request of a warp" if requests else ""
        yield f"FLOP per byte at each level{also}:"
        yield ""
        yield from table(counted, [*several, _SHAPE, _PARAMETERS, *_COUNTERS])
        yield ""
    yield from _binding(rungs, found)
    yield from _gains(rungs, before, records, found[0].record.card)


def _origins(found: Sequence[Found]) -> str:
    """Where times and bytes come from, as one sentence."""
    holders: dict[str, list[str]] = {}
    for level in LEVELS:
        counts = [one.run.traffic.levels[level] for one in found if one.run.traffic and level in one.run.traffic.levels]
        for origin in sorted({count.origin for count in counts}):
            holders.setdefault(f"{origin}, {ORIGIN_MEANINGS[origin]}", []).append(LEVEL_NAMES[level])
    parts = ["times are measured, medians of device events"] if any(one.run.time for one in found) else []
    parts += [f"bytes at {listing(names)} are {origin}" for origin, names in holders.items()]
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _shares(found: Sequence[Found]) -> list[Column[Found]]:
    """A column for each library that some row can be held against."""
    peers = {run.rung: run.title for one in found for run in one.record.results.runs if run.kind == "peer"}
    timed = [run for one in found for run in (one.run, one.turn) if run is not None]
    beside = sorted({run.beside.rung for run in timed if run.beside is not None})
    return [(f"of {peers.get(name, name)}", _share(name)) for name in dict.fromkeys((*beside, *peers))]


def _share(peer: str) -> Callable[[Found], str]:
    """The rate over a library's: timed in turn with it where it was, else its row of the same record and shape."""

    def cell(one: Found) -> str:
        run = one.run
        for timed in (run, one.turn if _same_rate(run, one.turn) else None):
            if (
                timed is not None
                and timed.beside is not None
                and timed.beside.rung == peer
                and timed.speedup is not None
            ):
                return f"{timed.speedup:.2f}"
        same = (r.flop_per_s for r in one.record.results.runs if r.rung == peer and r.shape == run.shape)
        rate = next(same, None)
        return f"{run.flop_per_s / rate:.2f}" if rate and run.flop_per_s else ""

    return cell


def _same_rate(run: Run, turn: Run | None) -> bool:
    """Whether a ratio of ``turn`` holds for ``run``: under a power limit a kernel is slower alone than in turn."""
    if turn is None or run.time is None or turn.time is None:
        return run.time is None
    return abs(turn.time.median / run.time.median - 1) <= STEADY


def _bound_by(one: Found) -> str:
    place = one.run.placement
    return ROOF_NAMES.get(place.bound_by, place.bound_by) if place is not None else ""


def _roof(one: Found) -> str:
    return number(one.run.placement.roof_flop_per_s / _TERA) if one.run.placement is not None else ""


def _fraction(one: Found) -> str:
    place = one.run.placement
    return percent(place.fraction) if place is not None and place.fraction is not None else ""


def _wavefronts(one: Found) -> str:
    traffic = one.run.traffic
    return number(traffic.wavefronts_per_request) if traffic and traffic.wavefronts_per_request is not None else ""


def _level(level: Level) -> Callable[[Found], str]:
    return lambda one: number(one.run.intensity[level]) if level in one.run.intensity else ""


_KERNEL: Column[Found] = ("kernel", lambda one: f"`{one.run.rung}`")
_SHAPE: Column[Found] = ("M x N x K", lambda one: f"{one.run.shape}" + ("" if one.current else "\\*"))
_PARAMETERS: Column[Found] = ("parameters", lambda one: _told(one.run.params))
_TIMES: tuple[Column[Found], ...] = (
    ("check", lambda one: one.row.outcome),
    ("time", lambda one: seconds(one.run.time.median) if one.run.time else ""),
    ("TFLOP/s", lambda one: number(one.run.flop_per_s / _TERA) if one.run.flop_per_s else ""),
)
_BOUNDS: tuple[Column[Found], ...] = (
    ("bound by", _bound_by),
    ("roof, TFLOP/s", _roof),
    ("of roof", _fraction),
    ("SM clock, GHz", lambda one: number(one.run.sm_clock_hz / _GIGA) if one.run.sm_clock_hz else ""),
    ("power, W", lambda one: number(one.run.power_w) if one.run.power_w else ""),
)
_COUNTERS: tuple[Column[Found], ...] = (
    *((LEVEL_NAMES[level], _level(level)) for level in LEVELS),
    ("wavefronts a request", _wavefronts),
)


def _binding(rungs: Sequence[Rung], found: Sequence[Found]) -> Iterator[str]:
    """For each rung what binds it at the largest cube that it was placed at, and what ptxas gave it on the card."""
    for rung in rungs:
        placed = [one for one in found if one.run.rung == rung.name and one.row.placed and not one.run.params]
        if placed:
            one = max(placed, key=lambda each: (is_cube(each.run.shape), each.run.shape.flop))
            lever = f" *{markdown(one.row.reading.lever)}*" if one.row.reading.lever else ""
            binds = markdown(one.row.reading.binds)
            told = f" {markdown(one.row.reading.counted)}" if one.row.reading.counted else ""
            yield f"- `{rung.name}` at {one.run.shape}: {binds}{lever}{told}{_resources(one)}"


def _gains(rungs: Sequence[Rung], before: Sequence[Rung], records: Sequence[Record], card: str) -> Iterator[str]:
    """How much faster each rung is than the rung before it, size by size, and whether that is anything at all."""
    for rung in rungs:
        found = gains(rung, [each for each in before if each.precision == rung.precision], records, card)
        if found:
            sizes = listing([f"{ratio:.2f} at N = {shape.n} (`{name}`)" for shape, name, ratio in found])
            text = f"- `{rung.name}` over the rung before it, in one record: {sizes}."
            if max(ratio for _, _, ratio in found) < PAYS:
                text += " On this card it does not pay by itself; compare its counters with those on the other page."
            yield text


def _resources(one: Found) -> str:
    made = one.run.resources
    if made is None:
        return ""
    spills = f"{made.spill_bytes} bytes spilled" if made.spill_bytes else "no spills"
    full = f", occupancy {percent(made.occupancy)}" if made.occupancy is not None else ""
    return (
        f" NVRTC {one.record.results.device.nvrtc or 'there'} gave it {plural(made.registers, 'register')} a thread, "
        f"{made.smem_bytes / 1024:.4g} KiB of shared memory, {spills}{full}."
    )


def _tuned(rungs: Sequence[Rung], tunings: Sequence[Tuned]) -> Iterator[str]:
    now = {rung.name: code_sha256(rung) for rung in rungs}
    chosen = [entry for entry in tunings if now.get(entry.rung) == entry.code_sha256]
    if chosen:
        yield ""
        yield "What a tuner chose there, timed in turn with the declared parameters:"
        yield ""
        yield from table(chosen, [*([_TUNED_KERNEL] if len(rungs) > 1 else []), *_TUNED])


_TUNED_KERNEL: Column[Tuned] = ("kernel", lambda entry: f"`{entry.rung}`")
_TUNED: tuple[Column[Tuned], ...] = (
    ("M x N x K", lambda entry: f"{entry.shape}"),
    ("parameters", lambda entry: _told(entry.params)),
    ("TFLOP/s", lambda entry: number(entry.flop_per_s / _TERA)),
    ("of the declared", lambda entry: f"{entry.gain:.3f}"),
    ("of cuBLAS SGEMM", lambda entry: f"{entry.ratio_to_cublas:.2f}" if entry.ratio_to_cublas else ""),
)
