"""A card for each run: what its rung removes, what was counted for it, its source, and the rung that comes next."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ladder.catalog import prose_fields
from ladder.model import LEVELS, Rung
from ladder.report.text import LEVEL_NAMES, number, percent, seconds, si
from ladder.report.view import Row, Section

__all__ = ["Card", "Line", "cards"]

_PROSE = ("removes", "leaves")
_SMALLEST = 0.02
"""Part of the warps' time below which a reason to wait is left out."""

_METHODS = {"graph": " in CUDA graphs", "launches": "", None: ""}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a kernel; ``new`` when the rung before has none that reads the same."""

    text: str
    new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What the pages show of one run.

    Attributes:
        row: the run, its status and its reading.
        anchor: the card's id, unique on the page.
        prose: what the rung's own header says, as (label, text) pairs; once for each rung of a results file.
        timed: how long it takes, and how the card ran meanwhile; empty without a time.
        counters: (quantity, value, origin) triples.
        source: the kernel, from its first line of code; once for each file, empty in its other cards.
        before: the rung that ``source`` is held against; empty for the first.
        following: (name, anchor) of the next rung's first card, None at the end.
    """

    row: Row
    anchor: str
    prose: tuple[tuple[str, str], ...]
    timed: str
    counters: tuple[tuple[str, str, str], ...]
    source: tuple[Line, ...]
    before: str
    following: tuple[str, str] | None

    @property
    def new_lines(self) -> int:
        """How many lines of ``source`` the rung before does not have."""
        return sum(line.new for line in self.source)


def cards(section: Section, anchor: str, told: set[str]) -> tuple[Card, ...]:
    """The cards of ``section``'s runs but the skipped ones. ``told`` holds what earlier sections showed already."""
    rows = [row for row in section.rows if row.status != "skipped"]
    anchors = [f"{anchor}-k{index}" for index in range(1, len(rows) + 1)]
    out = []
    for index, row in enumerate(rows):
        first = row.rung is not None and str(row.rung.path) not in told
        before = _neighbour(rows[:index][::-1], row)
        out.append(
            Card(
                row=row,
                anchor=anchors[index],
                prose=_prose(row.rung) if row.rung is not None and row.name not in told else (),
                timed=_timed(row),
                counters=_counters(row),
                source=_source(row.rung, before.rung if before else None) if row.rung is not None and first else (),
                before=before.name if before else "",
                following=_following(rows, anchors, index),
            )
        )
        if row.rung is not None:
            told.update((row.name, str(row.rung.path)))
    return tuple(out)


def _prose(rung: Rung) -> tuple[tuple[str, str], ...]:
    fields = prose_fields(rung)
    return tuple((label.capitalize(), fields[label]) for label in _PROSE if label in fields)


def _neighbour(rows: Sequence[Row], row: Row) -> Row | None:
    """The nearest of ``rows`` that is a rung of another file."""
    if row.rung is None or row.run.kind != "rung":
        return None
    path = row.rung.path
    return next((one for one in rows if one.run.kind == "rung" and one.rung and one.rung.path != path), None)


def _following(rows: Sequence[Row], anchors: Sequence[str], index: int) -> tuple[str, str] | None:
    found = _neighbour(rows[index + 1 :], rows[index])
    return None if found is None else (found.name, anchors[rows.index(found)])


def _timed(row: Row) -> str:
    """How long a product takes, warm and cold, how the card ran meanwhile, and what a library launched for it."""
    run = row.run
    sentences: list[str | None] = []
    if run.time is not None:
        taken = f"{seconds(run.time.median)}, the median of {run.time.samples} samples{_METHODS[run.time.method]}"
        if run.time_cold is not None and run.cold_over_warm is not None:
            taken += f"; {seconds(run.time_cold.median)} from a cold L2, {number(run.cold_over_warm)} times as long"
        card = [si(run.clock_hz, "Hz") if run.clock_hz else "", f"{number(run.power_w)} W" if run.power_w else ""]
        at = " and ".join(filter(None, card))
        sentences.append(f"{taken}; at {at}" if at else taken)
    sentences += [run.remark, run.kernel and f"Kernel: {run.kernel}"]
    return " ".join(f"{sentence}." for sentence in sentences if sentence)


def _counters(row: Row) -> tuple[tuple[str, str, str], ...]:
    return (*_moved(row), *_done(row))


def _done(row: Row) -> Iterator[tuple[str, str, str]]:
    """What its warps executed and waited for."""
    activity = row.run.activity
    if activity is None:
        return
    instructions = {
        "FFMA, times lanes": activity.ffma,
        "FADD, times lanes": activity.fadd,
        "FMUL, times lanes": activity.fmul,
        "instructions of the tensor pipe": activity.tensor_instructions,
    }
    shares = {
        "occupancy achieved": activity.occupancy,
        "SM cycles with a warp": activity.busy,
        "of those, cycles that issue": activity.issue_active,
        **{f"warps' time: {reason}": share for reason, share in activity.leading_stalls if share >= _SMALLEST},
    }
    yield from ((name, f"{count:,}", activity.origin) for name, count in instructions.items() if count is not None)
    yield from ((name, percent(share), activity.origin) for name, share in shares.items() if share is not None)


def _moved(row: Row) -> tuple[tuple[str, str, str], ...]:
    traffic = row.run.traffic
    if traffic is None:
        return ()
    out: list[tuple[str, str, str]] = [
        (f"{LEVEL_NAMES[level]} bytes", f"{found.bytes:,}", found.origin)
        for level in LEVELS
        if (found := traffic.levels.get(level)) is not None
    ]
    origin = next((traffic.levels[level].origin for level in ("shared", "sm") if level in traffic.levels), "")
    counts = {
        "shared wavefronts, loads": traffic.wavefronts_ld,
        "shared wavefronts, stores": traffic.wavefronts_st,
        "shared requests, loads": traffic.requests_ld,
        "shared requests, stores": traffic.requests_st,
        "global wavefronts": traffic.global_wavefronts,
        "global requests": traffic.global_requests,
    }
    out.extend((name, f"{count:,}", origin) for name, count in counts.items() if count)
    if traffic.wavefronts_per_request is not None:
        out.append(("shared wavefronts per request", number(traffic.wavefronts_per_request), origin))
    return tuple(out)


def _source(rung: Rung, before: Rung | None) -> tuple[Line, ...]:
    lines, old = _code(rung), _code(before) if before is not None else []
    if before is None:
        return tuple(Line(line, new=False) for line in lines)
    match = difflib.SequenceMatcher(a=[_bare(line) for line in old], b=[_bare(line) for line in lines], autojunk=False)
    kept = {index for block in match.get_matching_blocks() for index in range(block.b, block.b + block.size)}
    return tuple(Line(line, new=index not in kept and bool(_bare(line))) for index, line in enumerate(lines))


def _code(rung: Rung) -> list[str]:
    """The file without the comment that it begins with: that is prose and declaration."""
    lines = rung.source.rstrip().splitlines()
    start = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith("//")), 0)
    return lines[start:]


def _bare(line: str) -> str:
    """What the compiler sees of ``line``: neither its indentation nor its comment."""
    return "".join(line.partition("//")[0].split())
