"""``ladder explain``: a rung's card in the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from ladder.catalog import prose_fields
from ladder.cli.console import say, show, stdout
from ladder.cli.options import complete_rung
from ladder.cli.session import Session
from ladder.cli.study import SHAPE, ProfileOption, ShapeOption, examine
from ladder.cli.tables import Column, Columns, number, outcome
from ladder.model import Quantity, Rung
from ladder.rates import Rate

if TYPE_CHECKING:
    from ladder.report.study import Study

__all__ = ["explain", "say_card"]

WIDEST = 100
_LABEL = 10
_SAME = 0.02
"""How near two times count as one."""
_LABELS = ("removes", "how", "leaves", "source")


def explain(
    rung: Annotated[
        str,
        typer.Argument(
            metavar="RUNG|FILE.cu", help="A rung's name, or the path of a .cu file.", autocompletion=complete_rung
        ),
    ],
    *,
    shape: ShapeOption = SHAPE,
    profile: ProfileOption = None,
) -> None:
    """Explain a rung: its idea, its counts, what binds it.

    Its header, tiles, launch, registers and occupancy, its bytes by level against the law, the lever that helps, and
    the next rung. It is compiled for a recorded GPU and emulated, so no GPU is needed and there is no time; rates are
    those of that GPU's packaged record. Exit code: 0, 1 if the rung is wrong or failed, 2 usage.
    """
    session, studies = examine([rung], shape, profile)
    for index, study in enumerate(studies):
        if index:
            say()
        say_card(study, session)
    raise typer.Exit(int(any(study.row.run.failed for study in studies)))


def say_card(study: Study, session: Session) -> None:
    """All that is known of one rung, in 100 columns at most."""
    rung, run = study.rung, study.row.run
    place = f"rung {rung.number:02d}" if rung.number else rung.kind
    say(f"{rung.name}: {rung.title} ({place}, {rung.path.name})")
    summary = study.prose.get("summary")
    if summary:
        _paragraph("", summary[:1].upper() + summary[1:])
    say()
    for label in _LABELS:
        if label in study.prose:
            _paragraph(label.capitalize(), study.prose[label])
    say()
    for label, text in _facts(study, session):
        _paragraph(label, text)
    if run.traffic is not None:
        show(_levels(study))
    say()
    for label, text in _lessons(study, session):
        _paragraph(label, text)


def _facts(study: Study, session: Session) -> Iterator[tuple[str, str]]:
    from ladder.report import tiles  # noqa: PLC0415 -- as in the study of it

    rung, run = study.rung, study.row.run
    yield "Tiles", tiles.alt(rung)
    yield "Launch", _launch(study)
    yield "Compiled", _compiled(study, session)
    word = outcome(run)
    if word == "recorded":
        yield "Counted", f"at {run.shape} by {session.device.name}, in its record; placed under its recorded roofs."
        return
    proof = {"right": "right", "unchecked": "not executed, counted from some threadblocks"}.get(word, word)
    yield "Emulated", f"at {run.shape} for {session.device.name}, under its recorded roofs: {proof}."


def _launch(study: Study) -> str:
    rung, run = study.rung, study.row.run
    limits = [f"{axis} % {step} == 0" for axis, step in zip("MNK", rung.multiple, strict=True) if step > 1]
    needs = f"It needs {rung.needs}{'' if rung.arch else ' or later'} and {', '.join(limits) or 'any M, N, K'}."
    if not study.launches:
        return f"{rung.name_expression}. {needs}"
    grids = [" x ".join(map(str, launch.grid)) for launch in study.launches]
    dynamic = f", {rung.smem_bytes / 1024:.4g} KiB of dynamic shared memory" if rung.smem_bytes else ""
    packing = f"{rung.pack_expression} packs {rung.pack.of}, then " if rung.pack else ""
    return (
        f"{packing}{rung.name_expression}, a grid of {', '.join(grids)} blocks (x, y, z) of {rung.threads} threads at "
        f"{run.shape}{dynamic}. {needs}"
    )


def _compiled(study: Study, session: Session) -> str:
    if study.build is None:
        return f"not for {session.device.name}: {study.unbuilt}"
    made, got = study.build, study.build.resources
    spilled = f"{got.spill_bytes} bytes spilled" if got.spill_bytes else "no spills"
    blocks = f"{made.blocks_per_sm} block{'' if made.blocks_per_sm == 1 else 's'} an SM"
    return (
        f"for {made.arch} by NVRTC {made.nvrtc}: {got.registers} registers a thread, {got.smem_bytes / 1024:.4g} KiB "
        f"of shared memory, {spilled}; {blocks} of {session.device.name}, an occupancy of {got.occupancy or 0:.0%}."
    )


def _levels(study: Study) -> Columns:
    run = study.row.run
    counted: dict[str, Quantity] = dict(run.traffic.levels.items()) if run.traffic is not None else {}
    bounds = run.placement.bounds_flop_per_s if run.placement is not None else {}
    bound_by = run.placement.bound_by if run.placement is not None else ""
    # What shared memory moves is a part of what the SM's data pipe does: they bind together.
    binding = {bound_by, "sm"} if bound_by == "shared" else {bound_by}
    names = [*counted, *(name for name in bounds if name not in counted)]
    intensity: dict[str, float] = dict(run.intensity.items())
    law = run.law.predicted if run.law is not None else {}
    of_law = [intensity[name] / law[name] if name in law and name in intensity else None for name in names]
    return Columns(
        columns=(
            Column(head="level", cells=tuple(names), number=False),
            Column(head="bytes", cells=tuple(str(counted[n].bytes) if n in counted else "" for n in names)),
            Column(head="FLOP/byte", cells=tuple(number(intensity.get(n)) for n in names)),
            Column(head="law", cells=tuple(number(law.get(n)) for n in names), spare=2),
            Column(head="of law", cells=tuple("" if x is None else f"{x:.3f}" for x in of_law), spare=2),
            Column(head="bound", cells=tuple(number(bounds[n] / 1e12) if n in bounds else "" for n in names)),
            Column(head="", cells=tuple("binds" if n in binding else "" for n in names), number=False),
            Column(
                head="origin",
                cells=tuple(counted[n].origin if n in counted else "" for n in names),
                number=False,
                spare=1,
            ),
        ),
        caption=f"Bound: TFLOP/s that the level's roof allows. {_pipe(study)}".strip(),
    )


def _pipe(study: Study) -> str:
    traffic = study.row.run.traffic
    if traffic is None or traffic.wavefronts_per_request is None:
        return ""
    return f"Shared memory: {number(traffic.wavefronts_per_request)} wavefronts a request."


def _lessons(study: Study, session: Session) -> Iterator[tuple[str, str]]:
    reading = study.row.reading
    if study.row.status == "recorded":
        yield "Not run", reading.binds.removeprefix("Not run here: ")
    elif study.row.status == "skipped":
        yield "Skipped", reading.binds.removeprefix("Skipped: ")
    else:
        yield "Binds", reading.binds
    if reading.lever:
        yield "Lever", reading.lever
    if reading.counted:
        yield "Does", reading.counted.removeprefix("Counters: ")
    if study.rates:
        rates = ", ".join(f"{number(rate.flop_per_s / 1e12)} at {rate.shape}{_cold(rate)}" for rate in study.rates)
        yield "Recorded", f"TFLOP/s on {session.device.name}, measured: {rates}."
    if study.after is not None:
        yield "Next", f"{study.after.name} (rung {study.after.number:02d}), which removes {_removes(study.after)}"
    elif study.rung.number and study.rung.kind == "rung":
        yield "Next", "nothing yet: this is the top of the ladder, or a rung of your own."


def _cold(rate: Rate) -> str:
    cold = rate.cold_over_warm
    return "" if cold is None or abs(cold - 1) < _SAME else f" ({number(cold)} times that time from a cold L2)"


def _removes(rung: Rung) -> str:
    found = prose_fields(rung)
    return found.get("removes") or found.get("summary") or rung.title


def _paragraph(label: str, text: str) -> None:
    """``text`` after ``label``, wrapped to the terminal, and to 100 columns at most."""
    indent = " " * _LABEL if label else ""
    say(
        textwrap.fill(
            " ".join(text.split()),
            width=min(WIDEST, stdout().width),
            initial_indent=f"{label:<{_LABEL}}" if label else "",
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    )
