"""What a run's counters tell beside its place on the roofline: conflicts, scattered lanes, missing roofs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ladder.model import Roofs
from ladder.report.text import ROOF_NAMES, number
from ladder.roofline import ROOFED_LEVELS
from ladder.store import Run

__all__ = [
    "CONFLICTING",
    "WIDEST_WAVEFRONTS",
    "conflict_degree",
    "peakless",
    "roofs_in_use",
    "scatter",
    "scattered",
    "unroofed",
]

SCATTERED = 2.0
"""Bytes in touched sectors over bytes asked for from which a warp's lanes count as scattered. Contiguous 4-byte
accesses give at most 1.25, when a row begins inside a sector and a fifth one is touched."""

CONFLICTING = 1.25
"""Wavefront bytes over lane bytes from which shared accesses count as conflicting; the stores that the law leaves out
add a few percent."""

WIDEST_WAVEFRONTS = 4.0
"""Wavefronts of a conflict-free 16-byte request, the widest there is: more than that is always conflict."""

_WIDEST_REQUEST_BYTES = 1024
"""Sectors that the lanes of a warp can touch at most, each another one, times 32 bytes."""

_SECTORS_A_WAVEFRONT = 4.0
"""Sectors whose bytes one wavefront of contiguous accesses takes."""


def conflict_degree(run: Run) -> float | None:
    """How many times more wavefront bytes shared memory spends than its lanes ask for; None when it cannot be known.

    With a law for the shared level: predicted over measured intensity. Without one, wavefronts per request over the
    widest conflict-free request, and only when that exceeds 1 (a 16-byte access takes 4 wavefronts without conflict).
    """
    if run.traffic is None or run.traffic.wavefronts_per_request is None:
        return None
    measured = run.intensity.get("shared")
    predicted = run.law.predicted.get("shared") if run.law else None
    if measured and predicted:
        return predicted / measured
    excess = run.traffic.wavefronts_per_request / WIDEST_WAVEFRONTS
    return excess if excess > 1 else None


def scatter(run: Run) -> float | None:
    """Bytes in the sectors that warps touch over the bytes that their lanes ask for; None when not counted."""
    asked, l1 = run.intensity.get("asked"), run.intensity.get("l1")
    return asked / l1 if asked and l1 else None


def scattered(run: Run) -> str:
    """How far apart the lanes of a warp reach, as a sentence; empty when they do not, or when nothing tells.

    A GPU does not count what lanes ask for. There its wavefronts and sectors tell: more wavefronts a request than the
    widest contiguous access needs, or many times the sectors that a wavefront can take.
    """
    spread = scatter(run)
    if spread is not None:
        return (
            f"A warp's lanes touch {number(spread)} times the bytes that they ask for." if spread >= SCATTERED else ""
        )
    traffic = run.traffic
    if traffic is None or not traffic.global_requests or not traffic.global_wavefronts or "l1" not in traffic.levels:
        return ""
    activity = run.activity
    if traffic.levels["l1"].bytes > _WIDEST_REQUEST_BYTES * traffic.global_requests or (
        activity is not None and activity.flop is not None and 2 * activity.flop < run.shape.flop
    ):
        # Asynchronous copies and the tensor cores use the pipe without a global request: a ratio would mean nothing.
        return ""
    passes = traffic.global_wavefronts / traffic.global_requests
    if passes > WIDEST_WAVEFRONTS:
        return (
            f"The lanes of a warp are scattered: {number(passes)} wavefronts a global request, and no contiguous one "
            f"needs over {WIDEST_WAVEFRONTS:g}."
        )
    sectors = traffic.levels["l1"].bytes / 32 / traffic.global_wavefronts
    if sectors >= SCATTERED * _SECTORS_A_WAVEFRONT:
        return (
            f"The lanes of a warp are scattered: {number(sectors)} sectors for each wavefront of global accesses, and "
            f"contiguous ones fill it from {_SECTORS_A_WAVEFRONT:g}."
        )
    return ""


def peakless(run: Run, roofs: Roofs) -> bool:
    """It has a place, and runs on a pipe whose peak is not known: the tensor cores, mostly."""
    return run.placement is not None and not roofs.flop_per_s.keys() & run.placement.bounds_flop_per_s.keys()


def roofs_in_use(runs: Iterable[Run], roofs: Roofs) -> Roofs:
    """What is drawn of ``roofs``: every memory, and of the pipes FP32's and those that a run was placed under."""
    used = {"fp32", *(name for run in runs if run.placement is not None for name in run.placement.bounds_flop_per_s)}
    return replace(roofs, flop_per_s={pipe: peak for pipe, peak in roofs.flop_per_s.items() if pipe in used})


def unroofed(run: Run, roofs: Roofs) -> list[str]:
    """Levels with traffic but no recorded roof: their bounds are unknown."""
    names = [ROOF_NAMES[level] for level in ROOFED_LEVELS if level in run.intensity and roofs.bandwidth(level) is None]
    return list(dict.fromkeys(names))
