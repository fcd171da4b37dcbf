"""Results as flat rows: what a table, a spreadsheet or ``pandas.DataFrame`` takes as it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from ladder.model import LEVELS, Device
from ladder.store import Results, Run

__all__ = ["COLUMNS", "Cell", "rows"]

Cell: TypeAlias = str | int | float | bool | None

_BOUNDED = ("dram", "l2", "sm", "shared", "fp32", "tf32")

COLUMNS: tuple[str, ...] = (
    *("device", "backend", "rung", "title", "kind", "m", "n", "k", "flop"),
    *("passed", "failure", "error", "skipped", "error_over_bound", "crc32"),
    *("time_s", "time_p20_s", "time_p80_s", "time_samples", "time_method", "flop_per_s"),
    *("time_cold_s", "cold_over_warm", "sm_clock_hz", "sm_clock_low_hz", "sm_clock_high_hz", "clock_limits", "power_w"),
    *("bound_by", "bound_flop_per_s", "share_of_bound", *(f"{level}_bound_flop_per_s" for level in _BOUNDED)),
    *(f"{level}_{what}" for level in LEVELS for what in ("bytes", "flop_per_byte", "origin")),
    *("shared_requests", "shared_wavefronts", "wavefronts_per_request"),
    *("law", *(f"law_{level}_flop_per_byte" for level in LEVELS)),
    *("registers", "smem_bytes", "spill_bytes", "occupancy"),
    *("fp32_flop", "tensor_instructions", "occupancy_achieved", "sm_busy", "issue_active", "leading_stall"),
    *("beside", "beside_time_s", "speedup", "kernel"),
)
"""The keys of every row, in order; units are at their end. ``bytes`` have an ``origin``: one of
:data:`ladder.model.ORIGINS`."""


def rows(results: Results | Run | Iterable[Run]) -> list[dict[str, Cell]]:
    """One flat dictionary for each run, all with the same keys (:data:`COLUMNS`), None where nothing is known.

    ``pandas.DataFrame(ladder.rows(results))`` is a table of them; nothing here needs pandas.

    Args:
        results: what :func:`ladder.load` gives, one run, or several. Runs alone do not know their device.

    Returns:
        In the order of the runs. ``passed`` is None for a rung that did not run, ``time_s`` the median.
    """
    if isinstance(results, Run):
        results = (results,)
    device = results.device if isinstance(results, Results) else None
    runs = results.runs if isinstance(results, Results) else results
    return [_row(run, device) for run in runs]


def _row(run: Run, device: Device | None) -> dict[str, Cell]:
    row: dict[str, Cell] = dict.fromkeys(COLUMNS)
    shape = run.shape
    row |= {"rung": run.rung, "title": run.title, "kind": run.kind, "error": run.error, "skipped": run.skipped}
    row |= {"m": shape.m, "n": shape.n, "k": shape.k, "flop": shape.flop, "flop_per_s": run.flop_per_s}
    row |= {"sm_clock_hz": run.sm_clock_hz, "power_w": run.power_w, "speedup": run.speedup}
    row["kernel"] = run.kernel
    if device is not None:
        row |= {"device": device.name, "backend": device.backend}
    if (check := run.check) is not None:
        row |= {"passed": check.passed, "failure": check.failure, "crc32": check.crc32}
        row["error_over_bound"] = check.worst_error_over_bound
    if (time := run.time) is not None:
        row |= {"time_s": time.median, "time_p20_s": time.p20, "time_p80_s": time.p80, "time_samples": time.samples}
        row["time_method"] = time.method
        if (seen := time.watched) is not None:
            row |= {"sm_clock_low_hz": seen.sm_clock_low_hz, "sm_clock_high_hz": seen.sm_clock_high_hz}
            row["clock_limits"] = ", ".join(seen.limits)
    if run.time_cold is not None:
        row |= {"time_cold_s": run.time_cold.median, "cold_over_warm": run.cold_over_warm}
    if (placement := run.placement) is not None:
        row |= {"bound_by": placement.bound_by, "bound_flop_per_s": placement.roof_flop_per_s}
        row["share_of_bound"] = placement.fraction
        bounds = placement.bounds_flop_per_s
        row |= {f"{level}_bound_flop_per_s": bounds[level] for level in _BOUNDED if level in bounds}
    if (traffic := run.traffic) is not None:
        for level, quantity in traffic.levels.items():
            row |= {f"{level}_bytes": quantity.bytes, f"{level}_origin": quantity.origin}
        row |= {f"{level}_flop_per_byte": value for level, value in run.intensity.items()}
        row["shared_requests"] = traffic.requests_ld + traffic.requests_st
        row["shared_wavefronts"] = traffic.wavefronts_ld + traffic.wavefronts_st
        row["wavefronts_per_request"] = traffic.wavefronts_per_request
    if (law := run.law) is not None:
        row["law"] = law.name
        row |= {f"law_{level}_flop_per_byte": value for level, value in law.predicted.items()}
    if (used := run.resources) is not None:
        row |= {"registers": used.registers, "smem_bytes": used.smem_bytes, "spill_bytes": used.spill_bytes}
        row["occupancy"] = used.occupancy
    if (done := run.activity) is not None:
        row |= {"fp32_flop": done.flop, "tensor_instructions": done.tensor_instructions, "sm_busy": done.busy}
        row |= {"occupancy_achieved": done.occupancy, "issue_active": done.issue_active}
        row["leading_stall"] = done.leading_stalls[0][0] if done.stalls else None
    if run.beside is not None:
        row |= {"beside": run.beside.rung, "beside_time_s": run.beside.time.median}
    return row
