"""What ``run``, ``count``, ``check`` and ``doctor`` do, once their options are sound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from ladder import catalog, doctor, store
from ladder.cli.console import complain, say, show
from ladder.cli.counting import counted
from ladder.cli.progress import Display
from ladder.cli.session import Session, now
from ladder.cli.tables import Columns, outcome
from ladder.climb import Climber, Searched, Searcher, blank, implausible
from ladder.errors import StoreError
from ladder.experiments import load as load_experiments
from ladder.model import Rung
from ladder.steadiness import remarks
from ladder.store import Results, Run

__all__ = ["FAILED", "INTERRUPTED", "USAGE", "check_rungs", "climb_rungs", "examine", "write_report"]

FAILED, USAGE, INTERRUPTED = 1, 2, 130


def climb_rungs(
    session: Session,
    *,
    time: bool,
    command: str,
    output: Path | None,
    table: Callable[[Sequence[Run]], Columns],
    more: Callable[[Sequence[Run]], Columns | None] = lambda _: None,
) -> int:
    """Climb every rung at every shape, keep the rows in ``output`` as they come, print the tables; the exit code."""
    jobs = session.jobs
    on_gpu = session.backend == "cuda"
    # A GPU's counters are read in a profiled run of their own, which is never timed.
    start = Climber(session.backend, session.profile, session.roofs, count=not on_gpu, time=time, engine=session.engine)
    results = Results(created=now(), command=command, device=session.device, roofs=session.roofs)
    rows: dict[int, Run] = {}
    say(session.about)
    try:
        with Display(len(jobs), said=session.about) as display:

            def on_start(index: int, job: tuple[Rung, object]) -> None:
                display.started(index, f"{job[0].name} {job[1]}")

            with closing(session.run(jobs, start, on_start, lambda run: run.failed)) as ends:
                for end in ends:
                    run = end.result or replace(blank(*end.job), error=end.failure)
                    rows[end.index] = run
                    results = replace(results, runs=tuple(rows[index] for index in sorted(rows)))
                    if output is not None:
                        store.save(results, output)
                    display.finished(end.index, f"{run.rung} {run.shape}: {_in_a_line(run)}")
                    for note in run.notes:
                        display.note(note)
        if on_gpu:
            results = replace(results, runs=counted(session, results.runs))
            if output is not None:
                store.save(results, output)
    except KeyboardInterrupt:
        kept = f"; their rows are in {output}" if output and rows else ""
        complain(f"interrupted: {len(rows)} of {len(jobs)} rungs had finished{kept}")
        return INTERRUPTED
    for columns in (table(results.runs), more(results.runs)):
        if columns is not None:
            show(columns)
    for line in remarks(results.runs):
        say(line)
    for line in implausible(results.runs):
        complain(line)
    return _verdict(results.runs, output)


def check_rungs(session: Session, start: Searcher) -> int:
    """Search every rung for a product that it gets wrong; the exit code."""
    done: dict[int, Searched] = {}
    say(session.about)
    try:
        with Display(len(session.rungs), said=session.about) as display:

            def on_start(index: int, rung: Rung) -> None:
                display.started(index, rung.name)

            with closing(session.run(session.rungs, start, on_start, lambda found: found.failed)) as ends:
                for end in ends:
                    found = end.result or Searched(error=end.failure)
                    done[end.index] = found
                    display.finished(end.index, f"{end.job.name}: {_finding(found)}")
                    for note in found.notes:
                        display.note(note)
    except KeyboardInterrupt:
        complain(f"interrupted: {len(done)} of {len(session.rungs)} rungs had been searched")
        return INTERRUPTED
    failed = [session.rungs[index].name for index in sorted(done) if done[index].failed]
    if failed:
        complain(f"wrong or failed: {', '.join(failed)}")
        return FAILED
    if all(found.skipped is not None for found in done.values()):
        complain("nothing was checked: every rung was skipped")
        return USAGE
    return 0


def examine() -> int:
    """Print what the doctor finds; the exit code."""
    findings = doctor.examine()
    for finding in findings:
        say(f"{finding.status:<8}{finding.name}: {finding.found}")
        if finding.fix:
            say(f"{'':<8}fix: {finding.fix}")
    if doctor.works(findings):
        say("Rungs can be compiled, and emulated but for those that need sm_90's own instructions.")
        return 0
    complain("rungs cannot be run; see what is missing above")
    return FAILED


def write_report(paths: Sequence[Path], out: Path, *, experiments: Sequence[Path] = ()) -> int:
    """Write the report of results and ``experiments`` into ``out``, and print the page to open; the exit code."""
    from ladder import report  # noqa: PLC0415 -- matplotlib takes a second to load

    missing = next((path for path in paths if not path.exists()), None)
    if missing is not None:
        raise StoreError(f"no results at {missing}; make them: ladder run --json {missing}")
    results = [store.load(path) for path in paths]
    catalogue = {rung.name: rung for rung in catalog.load_catalog()}
    found = [load_experiments(path) for path in experiments]
    page = report.write_report(results, out, catalog=catalogue, experiments=found)
    say(f"Report: {page.with_name('index.html')}")
    return 0


def _verdict(runs: Sequence[Run], output: Path | None) -> int:
    failed = [run for run in runs if run.failed]
    for run in failed:
        problem = run.error or (run.check.failure if run.check else None)
        complain(f"{run.rung} at {run.shape} is {outcome(run)}: {problem}")
    if output is not None:
        say(f"Results: {output}")
    if failed:
        return FAILED
    if all(run.skipped is not None for run in runs):
        complain("nothing ran: every rung was skipped; the lines above say why")
        return USAGE
    return 0


def _in_a_line(run: Run) -> str:
    word = outcome(run)
    if run.skipped is not None:
        bound = run.placement and f"; by its counts on the card bound by {run.placement.bound_by}"
        return f"skipped: {run.skipped}{bound or ''}"
    if run.failed:
        problem = run.error or (run.check.failure if run.check else None) or ""
        return f"{word}: {problem.partition(chr(10))[0]}"
    rate = f"{run.flop_per_s / 1e12:.4g} TFLOP/s" if run.flop_per_s else ""
    if run.placement is None:
        return ", ".join(filter(None, (word, rate)))
    place = run.placement
    share = f", {rate} reached ({place.fraction:.0%})" if place.fraction is not None else ""
    return f"{word}, bound by {place.bound_by} at {place.roof_flop_per_s / 1e12:.4g} TFLOP/s{share}"


def _finding(found: Searched) -> str:
    if found.skipped is not None:
        return f"skipped: {found.skipped}"
    if found.error is not None:
        return f"FAILED: {found.error}"
    if found.counterexample is not None:
        return f"WRONG, {found.counterexample}"
    return f"right: {found.tried} products tried, none wrong"
