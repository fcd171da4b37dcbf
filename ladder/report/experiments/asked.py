"""Asked against counted: every kernel placed by the bytes that its lanes ask for and by those that DRAM moved."""

from __future__ import annotations

from collections.abc import Sequence

from ladder.experiments import AskedRow
from ladder.model import Level, Roofs
from ladder.report.experiments.chart import Chart, Collected, Line, Panel, Tone, log_axis, rows_axis
from ladder.report.table import Cell, Table
from ladder.report.text import number, percent, short, si

__all__ = ["chart", "finding", "table"]

_FIRST = "naive"
"""The kernel whose percentage is explained, if it is there; else the one that is farthest off."""

_ROW_IN = 0.2


def chart(rows: Sequence[AskedRow], roofs: Roofs) -> Chart | None:
    """Two points a kernel; None when no kernel has both."""
    both = [row for row in rows if row.dram_over_asked is not None]
    if not both:
        return None
    timed = [row for row in both if row.share("asked", roofs) is not None]
    shown = timed or both
    y = rows_axis([short(row.name, 22) for row in shown])
    asked, moved, lines = Collected(), Collected(), []
    notes: list[tuple[float, str, Tone]] = []
    for index, row in enumerate(shown):
        one, other = (_place(row, level, roofs) for level in ("asked", "dram"))
        lines.append(Line(x=(one, other), y=(float(index), float(index)), tone="muted", width=1.2))
        asked.add(one, index, f"{_named(row)}<br>lanes ask for {_size(row, 'asked')}{_rate(row, 'asked', roofs)}")
        moved.add(other, index, f"{_named(row)}<br>DRAM moved {_size(row, 'dram')}{_rate(row, 'dram', roofs)}")
        notes.append((float(index), f"× {number(row.dram_over_asked, 2)}", "muted"))
    title = "% of what DRAM sustains in a copy" if timed else "bytes over those that lanes ask for"
    x = log_axis(title, [*asked.x, *moved.x, 100.0 if timed else 1.0])
    full = 100.0 if timed else 1.0
    limit = "a copy's rate" if timed else "as many as were asked for"
    lines.append(Line(x=(full, full), y=(y.low, y.high), tone="dram", width=1.6, name=limit))
    return Chart(
        kind="experiment-asked",
        title="Asked against counted",
        finding=finding(rows, roofs),
        caption="One row a kernel: ○ by the bytes that its lanes ask for, ■ by those that DRAM moved; × is DRAM over "
        "asked. Reads alone, as those of dot, go a little faster than a copy. Far to the right of the line bytes "
        "cannot have come from DRAM, so a place by asked bytes is no place under DRAM's roof; where ■ is to the right "
        "of ○, DRAM moved bytes that nobody asked for.",
        panels=(
            Panel(
                title="", x=x, y=y, lines=tuple(lines), notes=tuple(notes),
                points=(asked.points(tone="ink", symbol="circle", filled=False, name="by what lanes ask for"),
                        moved.points(tone="dram", symbol="square", name="by what DRAM moved")),
            ),
        ),
        height_in=_ROW_IN * len(shown) + 1.2,
        left_in=1.55,
        right_in=0.7,
    )  # fmt: skip


def _place(row: AskedRow, level: Level, roofs: Roofs) -> float:
    share = row.share(level, roofs)
    if share is not None:
        return 100 * share
    return 1.0 if level == "asked" else row.dram_over_asked or 1.0


def finding(rows: Sequence[AskedRow], roofs: Roofs) -> str:
    """The impossible percentage explained, and the kernel that wastes most."""
    both = [row for row in rows if row.dram_over_asked is not None]
    if not both:
        return "No kernel has both kinds of bytes."
    first = max(both, key=lambda row: row.share("asked", roofs) or 0.0)
    if (first.share("asked", roofs) or 0.0) <= 1:
        first = next((row for row in both if row.name == _FIRST), min(both, key=lambda row: row.dram_over_asked or 1.0))
    wasteful = max(both, key=lambda row: row.dram_over_asked or 0.0)
    text = _explained(first, roofs)
    if (wasteful.dram_over_asked or 0.0) > 1.5:
        text += (
            f" The other way round, {wasteful.name} asks for {_size(wasteful, 'asked')} and DRAM moved "
            f"{number(wasteful.dram_over_asked)} times that"
        )
        by_asked, by_dram = (wasteful.share(level, roofs) for level in ("asked", "dram"))
        text += f": {percent(by_asked)} of a copy's rate by one, {percent(by_dram)} by the other." if by_asked else "."
    return text


def _explained(row: AskedRow, roofs: Roofs) -> str:
    by_asked, by_dram = (row.share(level, roofs) for level in ("asked", "dram"))
    caches = (
        f"of the {_size(row, 'asked')} that its lanes ask for DRAM moved {_size(row, 'dram')}, "
        f"{percent(row.dram_over_asked)}: caches and broadcasts served the rest"
    )
    if by_asked is None:
        return f"{row.name}: {caches}. No clock ran, so there is no rate to place."
    if by_asked > 1:
        return (
            f"By asked bytes {row.name} runs at {percent(by_asked)} of what DRAM sustains in a copy, which is "
            f"impossible: {caches}, and by the bytes that DRAM moved it runs at {percent(by_dram)}."
        )
    rates = f"at {percent(by_asked)} of a copy's rate, by DRAM's at {percent(by_dram)}"
    return f"By asked bytes {row.name} runs {rates}: {caches}."


def _named(row: AskedRow) -> str:
    return f"<b>{row.name}</b>, {row.size}"


def _size(row: AskedRow, level: Level) -> str:
    return si(row.bytes_at(level) or 0, "B")


def _rate(row: AskedRow, level: Level, roofs: Roofs) -> str:
    moved, share = row.bytes_at(level), row.share(level, roofs)
    if moved is None or share is None or row.time is None:
        return ""
    return f"<br>{si(moved / row.time.median, 'B/s')}, {percent(share)} of a copy's"


def table(rows: Sequence[AskedRow], roofs: Roofs) -> Table:
    """Every kernel: both kinds of bytes, their ratio and their rates."""
    head = (
        ("kernel", "a stream kernel, a rung, or a law's product"),
        ("size", "n, or M x N x K"),
        ("asked", "bytes of every lane, as the source asks"),
        ("DRAM", "bytes read and written"),
        ("DRAM / asked", "the ratio"),
        ("by asked", "rate of those bytes over a copy's"),
        ("by DRAM", "the same of what DRAM moved"),
        ("FLOP/byte asked", "work over asked bytes"),
        ("FLOP/byte DRAM", "work over DRAM's bytes"),
    )
    out = []
    for row in rows:
        if row.traffic is None:
            continue
        asked, moved = row.bytes_at("asked"), row.bytes_at("dram")
        out.append(
            (
                Cell(row.name),
                Cell(row.size),
                Cell("–" if asked is None else si(asked, "B"), value=asked),
                Cell("–" if moved is None else si(moved, "B"), value=moved),
                Cell(number(row.dram_over_asked), value=row.dram_over_asked),
                Cell(percent(row.share("asked", roofs)), value=row.share("asked", roofs)),
                Cell(percent(row.share("dram", roofs)), value=row.share("dram", roofs)),
                Cell(number(row.flop / asked if asked else None)),
                Cell(number(row.flop / moved if moved else None)),
            )
        )
    return Table(head=head, rows=tuple(out))
