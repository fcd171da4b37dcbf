"""What the page says, as plain data for the two templates: Markdown and HTML show the same."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ladder.experiments import Experiments
from ladder.model import LEVELS, Level, Origin, Rung
from ladder.report import banks_figure, bounds_figure, l2_figure, law_figure, roofline_figure
from ladder.report.cards import Card, cards
from ladder.report.draw import Drawing
from ladder.report.experiments import Told, told
from ladder.report.explore import Asked, view
from ladder.report.l2 import finding, series
from ladder.report.ridges import HEAD, RidgeRow, ridge_rows
from ladder.report.summary import brief, summary
from ladder.report.table import Table, table
from ladder.report.text import LEVEL_NAMES, ORIGIN_MEANINGS, ROOF_NAMES, listing, number, si, slug
from ladder.report.view import Row, Section, origins, sections
from ladder.roofline import ridge
from ladder.store import Results

__all__ = ["Figure", "Group", "Page", "Part", "Roof", "build"]

_FIGURES = (roofline_figure.draw, bounds_figure.draw, law_figure.draw, banks_figure.draw)
_ROOF_ORDER: tuple[Level, ...] = ("dram", "l2", "sm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A drawing and the file name, without ending, that it gets in ``figures/``."""

    drawing: Drawing
    stem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """One line of the table of ceilings."""

    name: str
    css: str
    value: str
    ridge: str
    origin: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One shape of a results file.

    ``skipped`` are the runs that did not take place: they have a row neither in the table nor in a figure, and no card.
    ``brief`` stands for the part while it is folded, ``view`` is what the interactive figures show of it.
    """

    title: str
    anchor: str
    brief: str
    summary: tuple[str, ...]
    figures: tuple[Figure, ...]
    table: Table
    cards: tuple[Card, ...]
    skipped: tuple[Row, ...]
    view: Mapping[str, Any] | None
    origins: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One results file; ``across`` is the figure over its cubic shapes, and ``finding`` what it shows.

    ``ridges`` are those of the known cards; only the first results file of a card has them.
    """

    title: str
    anchor: str
    facts: tuple[tuple[str, str], ...]
    roofs: tuple[Roof, ...]
    ridges: tuple[RidgeRow, ...]
    timed: bool
    parts: tuple[Part, ...]
    across: Figure | None
    finding: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The whole report. ``method`` is a relative link to the method's description, empty when it is not there."""

    groups: tuple[Group, ...]
    meanings: tuple[tuple[str, str], ...]
    method: str
    experiments: tuple[Told, ...] = ()
    ridge_head: tuple[str, ...] = HEAD

    @property
    def views(self) -> list[dict[str, Any]]:
        """What the interactive figures show, by results file; files without a run that can be drawn have none."""
        titles = Counter(group.title for group in self.groups)
        every = [
            {
                "device": group.title if titles[group.title] == 1 else f"{group.title}, {dict(group.facts)['made']}",
                "shapes": [dict(part.view) for part in group.parts if part.view is not None],
            }
            for group in self.groups
        ]
        return [each for each in every if each["shapes"]]

    @property
    def figures(self) -> Iterator[Figure]:
        """All of them, in the order of the page."""
        for each in self.experiments:
            yield from (Figure(drawing=study.drawing, stem=study.stem) for study in each.studies)
        for group in self.groups:
            for index, part in enumerate(group.parts):
                yield from part.figures
                if index == 0 and group.across is not None:
                    yield group.across


def build(
    results: Sequence[Results],
    out: Path,
    catalog: Mapping[str, Rung] | None,
    experiments: Sequence[Experiments] = (),
) -> Page:
    """Arrange ``results`` and draw every figure. Nothing is written; ``out`` only makes links relative."""
    taken: Counter[str] = Counter()
    asked = {
        (run.rung, run.source_sha256, run.shape): run.traffic.levels["asked"]
        for each in results
        for run in each.runs
        if run.traffic is not None and "asked" in run.traffic.levels
    }
    names = [each.device.name for each in results]
    groups = tuple(
        _group(each, out, catalog, taken, asked, first=names.index(each.device.name) == index)
        for index, each in enumerate(results)
    )
    method = out.parent / "method.md"
    return Page(
        groups=groups,
        meanings=tuple((origin, meaning) for origin, meaning in ORIGIN_MEANINGS.items()),
        method="../method.md" if method.is_file() else "",
        experiments=tuple(told(each, _unique(_anchor(each), taken)) for each in experiments),
    )


def _group(
    results: Results,
    out: Path,
    catalog: Mapping[str, Rung] | None,
    taken: Counter[str],
    asked: Asked,
    *,
    first: bool,
) -> Group:
    device = results.device
    where = "emulated on the CPU" if device.backend == "emulated" else "run on the GPU"
    anchor = _unique(slug(f"{device.name} {device.backend}"), taken)
    found = sections(results, catalog)
    told: set[str] = set()
    across = l2_figure.draw(found)
    return Group(
        title=f"{device.name}, {where}",
        anchor=anchor,
        facts=_facts(results),
        roofs=_roofs(results),
        ridges=ridge_rows(results) if first else (),
        timed=any(section.timed for section in found),
        parts=tuple(_part(section, f"{anchor}-{section.shape}", out, told, asked) for section in found),
        across=None if across is None else Figure(drawing=across, stem=f"{anchor}-{across.kind}"),
        finding="" if across is None else finding(series(found), device),
    )


def _anchor(each: Experiments) -> str:
    return slug(f"experiments {each.device.name} {each.device.backend}")


def _unique(name: str, taken: Counter[str]) -> str:
    taken[name] += 1
    return name if taken[name] == 1 else _unique(f"{name}-{taken[name]}", taken)


def _facts(results: Results) -> tuple[tuple[str, str], ...]:
    device = results.device
    whose = "" if device.backend == "cuda" else ", of the recorded GPU"
    facts = [
        ("made", results.created),
        ("command", results.command),
        ("compute capability", "{}.{}".format(*device.compute_capability)),
        ("SMs", str(device.sm_count)),
        ("L2", f"{number(device.l2_bytes / 2**20)} MiB"),
    ]
    if device.nvrtc:
        facts.append(("NVRTC", device.nvrtc))
    if device.driver:
        facts.append(("driver", f"{device.driver}{whose}"))
    if device.sm_clock_hz:
        facts.append(("SM clock", f"{si(device.sm_clock_hz, 'Hz')}{whose}"))
    if device.power_w:
        facts.append(("power", f"{number(device.power_w)} W"))
    return tuple(facts)


def _roofs(results: Results) -> tuple[Roof, ...]:
    roofs = results.roofs
    out = []
    for name in _ROOF_ORDER:
        corner = ridge(roofs, name)
        value = roofs.bytes_per_s.get(name)
        if value is not None:
            out.append(_roof(results, name, si(value, "B/s"), f"{number(corner)} FLOP/byte"))
    out.extend(_roof(results, name, si(value, "FLOP/s"), "") for name, value in roofs.flop_per_s.items())
    return tuple(out)


def _roof(results: Results, name: str, value: str, corner: str) -> Roof:
    roofs = results.roofs
    return Roof(
        name=ROOF_NAMES.get(name, name), css=f"level-{name}", value=value, ridge=corner,
        origin=roofs.origin.get(name, "recorded"), note=roofs.note.get(name, ""),
    )  # fmt: skip


def _part(section: Section, anchor: str, out: Path, told: set[str], asked: Asked) -> Part:
    drawings = [drawing for draw in _FIGURES if (drawing := draw(section)) is not None]
    return Part(
        title=f"{section.shape}",
        anchor=anchor,
        brief=brief(section),
        summary=tuple(summary(section)),
        figures=tuple(Figure(drawing=drawing, stem=f"{anchor}-{drawing.kind}") for drawing in drawings),
        table=table(section, link=lambda row: _source(row, out)),
        cards=cards(section, anchor, told),
        skipped=tuple(row for row in section.rows if row.status == "skipped"),
        view=view(section, {drawing.kind: drawing.alt for drawing in drawings}, asked),
        origins=_origins(section),
    )


def _source(row: Row, out: Path) -> str:
    """Relative link to a kernel's file, when the report lies in the same project; a copy elsewhere gets none."""
    if row.rung is None:
        return ""
    folder = out.resolve()
    root = next((each for each in folder.parents if (each / "pyproject.toml").is_file()), None)
    path = row.rung.path.resolve()
    if root is None or root not in path.parents:
        return ""
    return Path(os.path.relpath(path, folder)).as_posix()


def _origins(section: Section) -> tuple[tuple[str, str, str], ...]:
    """(origin, what has it, its meaning) for every origin that occurs here, roofs included."""
    holders: dict[Origin, list[str]] = {origin: [] for origin in ORIGIN_MEANINGS}
    found = origins(section)
    labels: dict[str, str] = {level: f"{LEVEL_NAMES[level]} bytes" for level in LEVELS}
    labels["time"] = "times"
    for level, label in labels.items():
        for origin, names in found.get(level, {}).items():
            alone = len(found[level]) == 1
            holders[origin].append(label if alone else f"{label} of {listing(names, 4)}")
    roofs = section.results.roofs
    for name in (*roofs.bytes_per_s, *roofs.flop_per_s):
        holders.setdefault(roofs.origin.get(name, "recorded"), []).append(f"{ROOF_NAMES.get(name, name)} roof")
    return tuple(
        (origin, listing(held, 12), ORIGIN_MEANINGS.get(origin, "of unknown origin"))
        for origin, held in holders.items()
        if held
    )
