"""What a warp waits for, in plain words, and what shortens the wait.

Reasons by the names of Nsight Compute's counters; what they mean is from its Kernel Profiling Guide (Metrics Reference,
Warp Stall Reasons), the levers are those that a matrix product has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ladder.model import Activity
from ladder.report.text import percent

__all__ = ["NOTABLE", "STALLS", "Stall", "leading", "told"]

NOTABLE = 0.1
"""Share of the warps' time from which a reason deserves a word."""


@dataclass(frozen=True, slots=True)
class Stall:
    """``waits_for`` completes "warps wait for ..."; ``lever`` is a sentence."""

    waits_for: str
    lever: str


STALLS: dict[str, Stall] = {
    "long_scoreboard": Stall(
        "a value on its way from global memory",
        "Load the next tile before this one is used (into registers, by cp.async or by TMA), or keep more warps "
        "resident.",
    ),
    "short_scoreboard": Stall(
        "a value on its way from shared memory",
        "Load the fragments of the next k while this one is multiplied, and free shared memory of conflicts.",
    ),
    "mio_throttle": Stall(
        "room in the queue to shared memory",
        "Fewer and wider shared accesses: 16 bytes a lane, and a larger register tile.",
    ),
    "lg_throttle": Stall(
        "room in the queue of global accesses",
        "Fewer and wider global accesses: 16 bytes a lane, and operands that are used again from shared memory or "
        "registers.",
    ),
    "math_pipe_throttle": Stall(
        "an arithmetic pipe that is busy",
        "That is as it should be: fewer arithmetic instructions, or a faster pipe, are left.",
    ),
    "wait": Stall(
        "the fixed time that their last instruction takes",
        "More independent FMAs in each warp, by a larger register tile, or more warps to take turns.",
    ),
    "barrier": Stall(
        "the other warps of their threadblock at a barrier",
        "Fewer barriers for the same work, by a longer k-tile or more stages, or smaller threadblocks and more of them "
        "on each SM.",
    ),
    "dispatch_stall": Stall(
        "the dispatcher, which conflicts in the register file hold up",
        "Arrange the fragments so that the three operands of an FMA lie in different register banks.",
    ),
    "gmma": Stall(
        "the tensor cores to take their registers",
        "Keep one wgmma group more in flight before waiting for the oldest.",
    ),
    "no_instruction": Stall(
        "instructions to be fetched",
        "A shorter unrolled loop, which fits the instruction cache.",
    ),
    "not_selected": Stall(
        "their turn, since another warp issues",
        "There are warps enough: only fewer instructions help.",
    ),
    "other": Stall(
        "something that is not told apart here",
        "A profiler's source view names it.",
    ),
}


def leading(activity: Activity) -> tuple[tuple[str, float], ...]:
    """The reasons worth a word, the largest share first, at most three.

    A warp that waits for its turn waits for nothing that a change of the kernel would speed up, so it comes last.
    """
    notable = [each for each in activity.leading_stalls if each[1] >= NOTABLE]
    idle = [each for each in notable if each[0] not in {"not_selected", "other"}]
    return (*idle, *(each for each in notable if each not in idle))[:3]


def told(reasons: Sequence[tuple[str, float]]) -> str:
    """The reasons as the end of a sentence: "an arithmetic pipe that is busy (math_pipe_throttle, 41 % of ...)"."""
    parts = []
    for position, (reason, share) in enumerate(reasons):
        words = STALLS[reason].waits_for if reason in STALLS else reason.replace("_", " ")
        parts.append(f"{words} ({reason}, {percent(share)}{' of their time' if position == 0 else ''})")
    return ", then for ".join(parts)
