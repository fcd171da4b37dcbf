"""The report's part on the experiments: one study each, with its figure, its finding and its numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ladder.experiments import Experiments
from ladder.report.draw import Drawing
from ladder.report.experiments import asked, law, transition
from ladder.report.experiments.chart import Chart
from ladder.report.experiments.paper import drawn
from ladder.report.table import Table

__all__ = ["Study", "Told", "told"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """One figure with its tables: (heading, table)."""

    chart: Chart
    drawing: Drawing
    stem: str
    tables: tuple[tuple[str, Table], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One file of experiments; ``facts`` say where and when."""

    anchor: str
    title: str
    facts: tuple[tuple[str, str], ...]
    studies: tuple[Study, ...]


def told(found: Experiments, anchor: str) -> Told:
    """Draw what was found; an experiment that was not made has no study."""
    device = found.device
    where = "emulated on the CPU" if device.backend == "emulated" else "run on the GPU"
    return Told(
        anchor=anchor,
        title=f"Experiments: {device.name}, {where}",
        facts=(("made", found.created), ("command", found.command)),
        studies=tuple(_studies(found, anchor)),
    )


def _studies(found: Experiments, anchor: str) -> Iterator[Study]:
    charts = (
        (law.chart(found.edges), lambda: (("Counts against the law", law.table(found.edges)),
                                          ("Fitted slopes", law.fit_table(found.edges)))),
        (transition.edges_chart(found.edges, found.roofs),
         lambda: (("What each level allows", transition.bound_table(found.edges)),)),
        (transition.padding_chart(found.padding), lambda: (("Paddings", transition.padding_table(found.padding)),)),
        (asked.chart(found.asked, found.roofs),
         lambda: (("Asked and moved bytes", asked.table(found.asked, found.roofs)),)),
    )  # fmt: skip
    for chart, tables in charts:
        if chart is not None:
            yield Study(chart=chart, drawing=drawn(chart), stem=f"{anchor}-{chart.kind}", tables=tables())
