"""The findings of a section, each a sentence made from its numbers."""

from __future__ import annotations

from collections import Counter

from ladder.climb import implausible
from ladder.report.banks_figure import family
from ladder.report.law_figure import FORMULA, fits, ragged
from ladder.report.signals import unroofed
from ladder.report.text import listing, number, percent, plural, tflops, the
from ladder.report.view import STATUS_WORDS, Section
from ladder.steadiness import remarks

__all__ = ["brief", "summary"]


def brief(section: Section) -> str:
    """One line for a closed section: how its kernels ended, and the fastest."""
    return " ".join([_outcomes(section), *(_fastest(section, peers=False) if section.timed else ())])


def summary(section: Section) -> list[str]:
    """The findings, the outcomes first."""
    rows = section.rows
    lines = [_outcomes(section)]
    binding: dict[str, list[str]] = {}
    for row in section.placed:
        if row.run.kind == "rung" and row.run.placement is not None:
            binding.setdefault(row.run.placement.bound_by, []).append(row.name)
    if binding:
        text = "; ".join(f"{the(name)} binds {listing(names, 9)}" for name, names in binding.items())
        lines.append(f"{text[0].upper()}{text[1:]}.")
    for fit in fits(section):
        who = f"{plural(len(fit.rows), 'kernel')}; {fit.words[0]}"
        lines.append(f"L1 intensity follows {FORMULA[fit.law]} {fit.within} ({who}).")
    if ragged(section) and fits(section):
        lines.append(ragged(section))
    pair = family([row for row in rows if row.run.intensity.get("shared")])
    if pair is not None:
        worst, clean = pair
        moved = clean.run.intensity["shared"] / worst.run.intensity["shared"]
        lines.append(
            f"Bank conflicts put {worst.name} {number(moved)} times to the left of {clean.name} at shared memory: one "
            "tile, two layouts."
        )
    lines.extend(_fastest(section))
    lines.extend(remarks(row.run for row in rows))
    lines.extend(implausible(row.run for row in rows))
    missing = dict.fromkeys(name for row in rows for name in unroofed(row.run, section.results.roofs))
    if missing:
        lines.append(f"No roof is known here for {listing(list(missing))}, so true bounds may be lower.")
    return lines


def _outcomes(section: Section) -> str:
    status = Counter(row.status for row in section.rows if row.run.kind != "peer")
    if not status:
        return "Only library products here."
    counts = [f"{count} {STATUS_WORDS.get(name, name).replace(':', ',')}" for name, count in status.items()]
    return f"{plural(sum(status.values()), 'kernel')}: {listing(counts)}."


def _fastest(section: Section, *, peers: bool = True) -> list[str]:
    timed = [row for row in section.rows if row.run.flop_per_s]
    rungs = [row for row in timed if row.run.kind == "rung"]
    if not rungs:
        return [] if timed or not section.placed else ["No clock ran: rates here are bounds, not measurements."]
    best = max(rungs, key=lambda row: row.run.flop_per_s or 0)
    text = f"Fastest: {best.name} at {tflops(best.run.flop_per_s or 0)}"
    for row in timed if peers else ():
        if row.run.kind == "peer":
            text += f", {percent((best.run.flop_per_s or 0) / (row.run.flop_per_s or 1))} of {row.name}"
    return [f"{text}."]
