"""The records of a card that pages quote."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ladder.model import Shape
from ladder.store import Results, Run, load
from ladder.tuned import Tuned, load_tuned

__all__ = ["CORE", "core", "run_of", "tuned"]

RECORDS = Path(__file__).resolve().parents[1] / "results" / "nvidia-h200"
CORE = RECORDS / "2026-11-30-ladder.json"


@cache
def core() -> Results:
    """Every rung and law kernel on an H200 at four sizes."""
    return load(CORE)


@cache
def _others() -> tuple[Results, ...]:
    """The newest records of a ragged shape, and of the fast rungs beside cuBLAS."""
    return tuple(load(sorted(RECORDS.glob(f"*-{name}.json"))[-1]) for name in ("ragged", "fast-small", "fast-large"))


def run_of(rung: str, shape: str) -> Run:
    """The row of ``rung`` at ``MxNxK``, or ``N`` for a cube.

    Raises:
        ValueError: no record has it.
    """
    wanted = Shape.parse(shape if "x" in shape else f"{shape}x{shape}x{shape}")
    for results in (core(), *_others()):
        for run in results.runs:
            if (run.rung, run.shape) == (rung, wanted):
                return run
    raise ValueError(f"no record has {rung} at {wanted}")


@cache
def tuned() -> tuple[Tuned, ...]:
    """What the tuner found on the same card, by rung and then by M, N and K."""
    return tuple(sorted(load_tuned(RECORDS / "tuned.json"), key=lambda each: (each.rung, each.shape.m, each.shape.k)))
