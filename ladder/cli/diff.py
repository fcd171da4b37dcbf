"""``ladder diff``: two rungs' sources, and their numbers side by side."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from ladder import catalog
from ladder.cli.console import say, say_text, show, show_table
from ladder.cli.options import complete_rung
from ladder.cli.study import SHAPE, ProfileOption, ShapeOption, examine
from ladder.cli.tables import Column, Columns, number
from ladder.errors import InputError
from ladder.model import LEVELS, Rung

if TYPE_CHECKING:
    from ladder.report.study import Study

__all__ = ["diff", "paired"]

Value = str | int | float | None

_TERA = 1e12
_STYLES = {"@@": "cyan", "+": "green", "-": "red"}
_MARKS = {"replace": "|", "delete": "<", "insert": ">", "equal": " "}
_MARK_STYLES = {"|": "yellow", "<": "red", ">": "green", " ": ""}


def diff(
    a: Annotated[
        str,
        typer.Argument(metavar="A", help="A rung's name, or the path of a .cu file.", autocompletion=complete_rung),
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.", autocompletion=complete_rung)],
    *,
    side_by_side: Annotated[
        bool, typer.Option("--side-by-side", "-y", help="Show both sources whole, next to each other.")
    ] = False,
    code: Annotated[bool, typer.Option("--code", help="Leave comments and empty lines out.")] = False,
    shape: ShapeOption = SHAPE,
    profile: ProfileOption = None,
) -> None:
    """Show two rungs beside each other: sources, then numbers.

    Parameters, what compiling them for a recorded GPU gives, intensities as the emulator counts them, what binds, and
    that GPU's recorded rates; no GPU is needed. Exit code: 0 whether they differ or not, 1 if one of them is wrong or
    failed, 2 usage.
    """
    left, right = _one(a), _one(b)
    if left.source == right.source:
        say(f"{left.name} and {right.name} have the same source, {right.path.name}.")
    elif side_by_side:
        show_table(_columns(left, right, code=code))
    else:
        for text in _unified(left, right, code=code):
            say_text(text)
    _, (of_left,) = examine([a], shape, profile)
    session, (of_right,) = examine([b], shape, profile)
    show(_numbers(of_left, of_right, f"At {of_left.row.run.shape}, for {session.device.name}."))
    for study in (of_left, of_right):
        if study.row.run.skipped is not None or study.row.run.failed:
            say(f"{study.rung.name}: {study.row.reading.binds}")
    raise typer.Exit(int(of_left.row.run.failed or of_right.row.run.failed))


def _one(name: str) -> Rung:
    found = catalog.find([name])
    if len(found) > 1:
        names = ", ".join(rung.name for rung in found)
        raise InputError(f"{name!r} stands for {len(found)} rungs, {names}; name one of them")
    return found[0]


def paired(a: Sequence[str], b: Sequence[str]) -> Iterator[tuple[str | None, str, str | None]]:
    """The lines of both in step, as (line of ``a``, mark, line of ``b``); None where one has no line.

    The mark is that of ``diff -y``: ``|`` for lines that differ, ``<`` and ``>`` for lines that one side has.
    """
    for tag, i0, i1, j0, j1 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        for left, right in zip_longest(a[i0:i1], b[j0:j1]):
            mark = _MARKS[tag] if left is not None and right is not None else ("<" if right is None else ">")
            yield left, mark, right


def _lines(rung: Rung, *, code: bool) -> list[str]:
    return catalog.code_lines(rung.source) if code else rung.source.splitlines()


def _unified(left: Rung, right: Rung, *, code: bool) -> Iterator[Text]:
    a, b = (_lines(rung, code=code) for rung in (left, right))
    for line in difflib.unified_diff(a, b, str(left.path), str(right.path), lineterm=""):
        style = next((style for head, style in _STYLES.items() if line.startswith(head)), "")
        yield Text(line, style="bold" if line.startswith(("--- ", "+++ ")) else style)


def _columns(left: Rung, right: Rung, *, code: bool) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(left.path.name, overflow="fold", ratio=1)
    table.add_column("")
    table.add_column(right.path.name, overflow="fold", ratio=1)
    for one, mark, other in paired(_lines(left, code=code), _lines(right, code=code)):
        style = _MARK_STYLES[mark]
        table.add_row(*(Text(cell or "", style=style) for cell in (one, mark, other)))
    return table


def _numbers(left: Study, right: Study, caption: str) -> Columns:
    rows = [(name, a, b) for name, a, b in _compared(left, right) if a is not None or b is not None]
    return Columns(
        columns=(
            Column(head="", cells=tuple(name for name, _, _ in rows), number=False),
            Column(head=left.rung.name, cells=tuple(_cell(a) for _, a, _ in rows)),
            Column(head=right.rung.name, cells=tuple(_cell(b) for _, _, b in rows)),
            Column(head="ratio", cells=tuple(_ratio(a, b) for _, a, b in rows), spare=1),
        ),
        caption=caption,
    )


def _compared(left: Study, right: Study) -> Iterator[tuple[str, Value, Value]]:
    """(what, of the left, of the right), group by group; None where a rung has no such thing."""
    for one, other in zip(_groups(left), _groups(right), strict=True):
        for name in dict.fromkeys((*one, *other)):
            yield name, one.get(name), other.get(name)


def _groups(study: Study) -> list[Mapping[str, Value]]:
    rung, run, made = study.rung, study.row.run, study.build
    built: dict[str, Value] = {}
    if made is not None:
        built = {
            "registers a thread": made.resources.registers,
            "shared memory, bytes": made.resources.smem_bytes,
            "spilled, bytes": made.resources.spill_bytes,
            "blocks an SM": made.blocks_per_sm,
            "occupancy": f"{made.resources.occupancy or 0:.0%}",
        }
    traffic, place = run.traffic, run.placement
    return [
        {"tile of C": "x".join(map(str, rung.tile)), "threads": rung.threads, "needs": rung.needs},
        dict(rung.params),
        built,
        {f"FLOP/byte, {level}": run.intensity[level] for level in LEVELS if level in run.intensity},
        {f"law, {level}": value for level, value in (run.law.predicted if run.law else {}).items()},
        {"wavefronts a request": traffic.wavefronts_per_request if traffic is not None else None},
        {
            "bound by": place.bound_by if place is not None else None,
            "roof, TFLOP/s": place.roof_flop_per_s / _TERA if place is not None else None,
        },
        {f"recorded, {rate.shape}": rate.flop_per_s / _TERA for rate in study.rates},
    ]


def _cell(value: Value) -> str:
    return number(value) if isinstance(value, float) else "" if value is None else str(value)


def _ratio(left: Value, right: Value) -> str:
    """Of the right over the left, where both are numbers and differ."""
    if isinstance(left, str) or isinstance(right, str) or not left or right is None or left == right:
        return ""
    return number(right / left)
