"""The pages' text: a file's own words, its parameters and the records, and one section that comes from compiling it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

from bench.rung_pages import machine_code
from bench.rung_pages.measured import measured
from bench.rung_pages.records import Record, fastest, showcase
from bench.rung_pages.tables import cells
from ladder.catalog import load_catalog, prose_fields
from ladder.model import Rung
from ladder.report.text import ROOF_NAMES, listing, markdown, number
from ladder.report.tile_figure import draw
from ladder.tuned import Tuned

__all__ = ["FOLDER", "INDEX", "File", "compiled", "files", "index", "page", "split"]

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "rungs"
INDEX = "README.md"

MARKER = "<!-- made by: python -m bench.rung_pages -->"
_COMPILED = re.compile(r"<!-- compiled, fingerprint (\w+) -->\n(.*)\n<!-- compiled, end -->", re.DOTALL)
_LABELS = ("removes", "how", "leaves", "source")


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One ``.cu`` file and the rungs that it declares: one, or one for each value of its sweep."""

    path: Path
    rungs: tuple[Rung, ...]

    @property
    def stem(self) -> str:
        """Its page's name, without ending."""
        return self.path.stem

    @property
    def number(self) -> str:
        """Two digits, as in the file's name."""
        return f"{self.rungs[0].number:02d}"

    @property
    def name(self) -> str:
        """What its rungs are called together."""
        return re.sub(r"^\d+_", "", self.stem)

    @property
    def title(self) -> str:
        """The rungs' title; of a sweep, what differs is listed: ``"Tile, T = 16, 32, 64"``."""
        titles = [rung.title.split() for rung in self.rungs]
        if len(titles) == 1:
            return self.rungs[0].title
        same = next((i for i, words in enumerate(zip(*titles, strict=False)) if len(set(words)) > 1), 0)
        return " ".join([*titles[0][:same], ", ".join(" ".join(words[same:]) for words in titles)])

    @property
    def prose(self) -> Mapping[str, str]:
        """The labelled paragraphs of its header."""
        return prose_fields(self.rungs[0])

    @property
    def shown(self) -> Rung:
        """The rung that the figure shows: of a sweep, the last."""
        return self.rungs[-1]


@cache
def files() -> tuple[File, ...]:
    """The rung files, in the ladder's order."""
    rungs = [rung for rung in load_catalog() if rung.kind == "rung"]
    return tuple(File(path=path, rungs=tuple(found)) for path, found in groupby(rungs, key=lambda rung: rung.path))


def page(file: File, records: Sequence[Record], tunings: Sequence[Tuned], compiled_section: str) -> str:
    """The whole page of ``file``, around what :func:`compiled` gives for it."""
    every = files()
    place = [each.stem for each in every].index(file.stem)
    before, after = every[place - 1] if place else None, every[place + 1] if place + 1 < len(every) else None
    source = Path(os.path.relpath(file.path, FOLDER)).as_posix()
    way = [f"[all rungs]({INDEX})"]
    way[:0] = [f"[rung {before.number}]({before.stem}.md)"] if before else []
    way += [f"[rung {after.number}]({after.stem}.md)"] if after else []
    lines = [
        MARKER,
        "",
        f"# Rung {file.number}: {markdown(file.title)}",
        "",
        f"{listing([f'`{rung.name}`' for rung in file.rungs], 12)}: {_linked(file.prose.get('summary', file.title))}",
        "",
        f"[{file.path.name}]({source}) · {' · '.join(way)}",
        "",
        *(f"- **{label.capitalize()}:** {_linked(file.prose[label])}" for label in _LABELS if label in file.prose),
        f"- **Needs:** {_needs(file.rungs[0])}.",
        "",
        "## Who holds which tile",
        "",
        *_figure(file),
        "",
        "## What it reaches, and what binds it",
        "",
        *measured(file.rungs, records, tunings, folder=FOLDER, before=before.rungs if before else ()),
        "",
        "## As compiled",
        "",
        compiled_section,
        "",
        "## What comes next",
        "",
        _next(after),
    ]
    return "\n".join(lines) + "\n"


def _linked(prose: str) -> str:
    """``prose`` in Markdown, where each "rung 07" leads to that rung's page."""
    pages = {file.number: file.stem for file in files()}

    def link(match: re.Match[str]) -> str:
        return f"[{match[0]}]({pages[match[1]]}.md)" if match[1] in pages else match[0]

    return re.sub(r"\b[Rr]ungs? (\d\d)\b", link, markdown(prose))


def _needs(rung: Rung) -> str:
    needs = [f"`{rung.needs}`" + ("" if rung.arch else " or later")]
    limits = [f"{axis} a multiple of {step}" for axis, step in zip("MNK", rung.multiple, strict=True) if step > 1]
    needs.append(listing(limits) if limits else "any M, N and K")
    if rung.align_bytes > 4:
        needs.append(f"A, B and C at multiples of {rung.align_bytes} bytes")
    return "; ".join(needs)


def _figure(file: File) -> Iterator[str]:
    drawing = draw(file.shown)
    of = f" Drawn for `{file.shown.name}`." if len(file.rungs) > 1 else ""
    yield f"![{markdown(drawing.alt)}]({file.stem}.svg)"
    yield ""
    yield f"{drawing.caption}{of}"


def _next(after: File | None) -> str:
    if after is None:
        return "Nothing yet: this is the top of the ladder."
    removes = _linked(after.prose.get("removes", after.prose.get("summary", after.title)))
    return f"[Rung {after.number}, {markdown(after.title)}]({after.stem}.md), removes {removes}"


def compiled(file: File) -> str:
    """The section that depends on the NVRTC at hand, between its markers."""
    body = "\n".join(machine_code.section(file.rungs))
    mark = machine_code.fingerprint(file.rungs)
    return f"<!-- compiled, fingerprint {mark} -->\n{body}\n<!-- compiled, end -->"


def split(text: str) -> tuple[str, str, str]:
    """(compiled section with its markers, its fingerprint, its body) of a page.

    Raises:
        ValueError: the page has none.
    """
    found = _COMPILED.search(text)
    if found is None:
        raise ValueError("the page has no compiled section between its two markers; write it again: make pages")
    return found[0], found[1], found[2]


def index(records: Sequence[Record]) -> str:
    """The table of all rungs, and how to read a page."""
    chosen = showcase([rung for file in files() for rung in file.rungs], records)
    rows = []
    for file in files():
        best = fastest(file.rungs, records, *chosen) if chosen else None
        place = best.run.placement if best else None
        rows.append(
            [
                file.number,
                f"[{markdown(file.name)}]({file.stem}.md)",
                _linked(file.prose.get("summary", file.title)),
                number((best.run.flop_per_s or 0) / 1e12) + ("" if best.current else "\\*") if best else "",
                ROOF_NAMES.get(place.bound_by, place.bound_by) if place else "",
            ]
        )
    titles = ["", "rung", "idea", "TFLOP/s", "bound by"]
    return "\n".join([MARKER, "", _HEAD.format(where=_where(chosen)), "", *cells(titles, rows), "", _READING]) + "\n"


def _where(chosen: tuple[str, object] | None) -> str:
    if chosen is None:
        return "No record of a GPU is committed yet."
    card, shape = chosen
    return f"""Rates are measured at {shape} on an {card}, the best of a sweep; the record and its
date are on the page. An asterisk: the file's text has changed since."""


_HEAD = """# The rungs

One page for each file of the ladder, made from its header, its parameters, the committed records and its machine code
by `make pages`.

{where}"""

_READING = """## How to read a page

**Origins.** The words are the file's own. Rates, times and counters come from a results file that is linked, with card,
driver, compiler and date; whether bytes were counted, emulated or modelled stands beside them, and
[the method](../method.md) says what each level means. *As compiled* comes from NVRTC without a GPU, for every recorded
GPU that the rung runs on; the version is named, and may not be the card's. Occupancy follows from registers, shared
memory and threads.

**Tiles.** The figure is drawn from the template parameters, under the field's names: BM x BN is the block's tile of C,
BK the k tile, STAGES the k tiles in shared memory, WM x WN a warp's tile, TM x TN a thread's, MMA_M x MMA_N x MMA_K one
matrix instruction. What has no parameter is not drawn.

**Machine code.** *8 × 128* under shared loads means eight LDS of 128 bits a lane in the kernel's code, wherever they
stand; a loop's are counted once. The hottest loop is the one whose own instructions do the most multiply-adds a turn,
found from the control flow: blocks that the compiler moved out of line belong to it. *Their share* is that of the
instructions that stand there, both ways of a branch among them, and not of the time. A matrix instruction does the work
of many FFMAs, so a small share of those can fill their pipe.

**Register banks.** A register's bank is its parity, and each bank serves one read a cycle. *Register reads an FFMA*
counts the operands that have to come from the banks, 3 at most: an operand marked `.reuse` stays at hand for its place
and bank until the next read of that place and bank. An FFMA that reads three registers of one bank is in conflict.
*Bank cycles an FFMA* is what the banks need: the larger of its reads of even and of odd registers, at least 1. With 64
FP32 lanes an SM (7.x, 8.0) an FFMA has two cycles anyway; with 128 (8.6 and later) it has one, and what exceeds it are
lost issue slots. So two operands are enough to wait for: those that change from one FFMA to the next belong into
different banks. This is an estimate from the text: what stays at hand is lost when another warp issues in between.
It tells layouts apart; of two kernels that differ in it by a few percent, either may be the faster.
Sources: Z. Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", 2018; R. Huerta et al.,
"Dissecting and Modeling the Architecture of Modern GPU Cores", MICRO 2025, section 5.3."""
