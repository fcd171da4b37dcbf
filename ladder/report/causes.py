"""What keeps a run below its lowest roof: clocks, too little concurrency, or what its warps wait for.

A roof says what a kernel with these bytes could reach; counters say what it does meanwhile. They are looked at last,
after the place and the distance from the roof, and in this order: a clock that was held down lowers everything alike; a
GPU with idle SMs or few warps cannot hide any wait; only then does it matter what the warps wait for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ladder.model import Activity
from ladder.report.stalls import STALLS, leading, told
from ladder.report.text import number, percent, plural, seconds, si
from ladder.store import Run

__all__ = ["Cause", "Launch", "causes", "counted"]

FEW_WARPS = 0.5
"""Occupancy below which there may be too few warps to hide a wait."""

IDLE_SMS = 0.85
"""Part of the SMs' cycles with a warp below which idle SMs are a cause of their own."""

SLOW_CLOCK = 0.97
"""Clock over that of the roofs from which the clock is a cause."""

SHORT_S = 20e-6
"""Below this a launch and its tail, several microseconds, are a visible part of the time."""

ISSUE_BOUND = 0.8
"""Part of the cycles with an instruction issued from which nothing is left to hide."""

FULL_WAVES = 0.8
"""Part of the places that its waves of threadblocks fill below which the last one is too empty."""

Kind = Literal["clocks", "concurrency", "launch", "spills", "issue", "stalls"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What is known of a launch beside its row.

    Attributes:
        sm_count: SMs of the device.
        blocks: threadblocks.
        blocks_per_sm: how many an SM holds at once.
        roof_clock_hz: the SM clock at which the roofs were taken.
    """

    sm_count: int | None = None
    blocks: int | None = None
    blocks_per_sm: int | None = None
    roof_clock_hz: float | None = None

    @property
    def waves(self) -> float | None:
        """Threadblocks over the places for them; None when one is not known."""
        if not self.sm_count or self.blocks is None or not self.blocks_per_sm:
            return None
        return self.blocks / (self.sm_count * self.blocks_per_sm)


@dataclass(frozen=True, slots=True)
class Cause:
    """``found`` begins in lower case and has no full stop; ``lever`` likewise, to be read after a colon."""

    kind: Kind
    found: str
    lever: str

    @property
    def text(self) -> str:
        """Both."""
        return f"{self.found}: {self.lever}"


def causes(run: Run, launch: Launch) -> tuple[Cause, ...]:
    """All that the results show, the first to suspect first; empty when they show nothing."""
    found = [_clock(run, launch), _concurrency(run, launch), _short(run), _spills(run)]
    activity = run.activity
    if activity is not None:
        found.append(_waits(activity))
    return tuple(cause for cause in found if cause is not None)


def _clock(run: Run, launch: Launch) -> Cause | None:
    clock, roofs = run.clock_hz, launch.roof_clock_hz
    if clock is None or not roofs or clock >= SLOW_CLOCK * roofs:
        return None
    power = f" at {number(run.power_w)} W" if run.power_w else ""
    return Cause(
        "clocks",
        f"the SM clock was {si(clock, 'Hz')}{power}, {percent(clock / roofs)} of that at which the roofs were taken",
        "compare at one clock, or save power by moving fewer bits",
    )


def _concurrency(run: Run, launch: Launch) -> Cause | None:
    """Too few threadblocks, a last wave with few of them, or too few warps on an SM."""
    activity, sms, blocks, waves = run.activity, launch.sm_count, launch.blocks, launch.waves
    busy = activity.busy if activity is not None else None
    # Counters outdo arithmetic here: blocks that stay and take one tile after another may be as few as the SMs.
    if busy is None or busy < IDLE_SMS:
        idle = "" if busy is None else f", and SMs that have a warp in {percent(busy)} of their cycles"
        smaller = "use smaller tiles or split K"
        if sms and blocks is not None and blocks < 2 * sms:
            return Cause("concurrency", f"{plural(blocks, 'threadblock')} for {sms} SMs{idle}", smaller)
        filled = 1.0 if waves is None else waves / max(1, math.ceil(waves))
        if waves is not None and filled < FULL_WAVES:
            found = f"{number(waves)} waves of threadblocks, which fill {percent(filled)} of their places{idle}"
            return Cause("concurrency", found, smaller)
        if busy is not None:
            return Cause("concurrency", f"SMs that have a warp in {percent(busy)} of their cycles", smaller)
    share = activity.occupancy if activity is not None and activity.occupancy is not None else _occupancy(run)
    if share is not None and share < FEW_WARPS and not _issues(activity):
        more = "more warps, or more independent loads in flight in each"
        return Cause("concurrency", f"an occupancy of {percent(share)}", more)
    return None


def _occupancy(run: Run) -> float | None:
    return run.resources.occupancy if run.resources is not None else None


def _issues(activity: Activity | None) -> bool:
    """The schedulers issue in most cycles: whatever the number of warps, it is enough."""
    return activity is not None and activity.issue_active is not None and activity.issue_active >= ISSUE_BOUND


def _short(run: Run) -> Cause | None:
    if run.time is None or run.time.median >= SHORT_S:
        return None
    return Cause("launch", f"{seconds(run.time.median)} is short beside a launch", "use a larger product")


def _spills(run: Run) -> Cause | None:
    spilled = run.resources.spill_bytes if run.resources is not None else 0
    return Cause("spills", f"{spilled} bytes of spilled registers", "use a smaller register tile") if spilled else None


def _waits(activity: Activity) -> Cause | None:
    if _issues(activity):
        found = f"an instruction is issued in {percent(activity.issue_active)} of the cycles, so nothing waits for long"
        return Cause("issue", found, "only fewer instructions beside the FMAs help")
    reasons = leading(activity)
    if not reasons:
        return None
    known = STALLS.get(reasons[0][0])
    lever = known.lever if known is not None else "A profiler's source view shows where."
    return Cause("stalls", f"warps wait for {told(reasons)}", f"{lever[0].lower()}{lever[1:].rstrip('.')}")


def counted(activity: Activity | None, flop: int) -> str:
    """What the counters of warps say, in a sentence or two; empty without any."""
    if activity is None:
        return ""
    parts = []
    done = activity.flop
    # Of a kernel without tensor cores the tensor pipe sees constants that ptxas loads with HFMA2.MMA.
    on_tensor_cores = bool(activity.tensor_instructions) and (done is None or 2 * done < flop)
    if done is not None and flop and not on_tensor_cores:
        ratio = "exactly 2MNK" if done == flop else f"{number(done / flop)} times 2MNK"
        parts.append(f"{si(done, 'FLOP')} in FP32 instructions ({ratio})" if done else "no FP32 instruction")
    if on_tensor_cores:
        parts.append(f"{activity.tensor_instructions:,} tensor instructions")
    if activity.occupancy is not None:
        parts.append(f"{percent(activity.occupancy)} of an SM's warps resident")
    if activity.issue_active is not None:
        parts.append(f"an instruction issued in {percent(activity.issue_active)} of the cycles")
    sentence = f"Counters: {', '.join(parts)}." if parts else ""
    reasons = leading(activity)
    return f"{sentence} Warps wait for {told(reasons)}.".strip() if reasons else sentence
