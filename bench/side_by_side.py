"""Things timed in turn on one GPU: one sample of each after the other, so that all meet the same clocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ladder.backends.cuda import CudaBackend
from ladder.backends.timing import COLD_RULE, Sampling, measure, measure_interleaved
from ladder.errors import ShapeError
from ladder.model import Device, Shape, Timing
from ladder.stats import StopRule

__all__ = ["RULE", "Contestant", "cold", "in_turn", "now", "record_path", "sampler", "shapes_of"]

RESULTS = Path(__file__).resolve().parent / "results"

RULE = StopRule(min_samples=7, min_time_s=0.15, max_time_s=0.3, max_noise=0.005)
"""As for a single rung, with less time: a pair takes about a second, its warm-up included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A product that is ready on the GPU: ``enqueue`` puts its ``launches`` launches on the backend's stream."""

    enqueue: Callable[[], None]
    launches: int = 1


def sampler(backend: CudaBackend, contestant: Contestant) -> Sampling:
    """One warm sample: seconds of a product, after an untimed one that brings its operands back to the L2 cache."""
    sample = backend.sampler(contestant.enqueue, contestant.launches)

    def primed() -> float:
        contestant.enqueue()
        return sample()

    return Sampling(primed, sample.method, sample.products)


def cold(backend: CudaBackend, contestant: Contestant) -> Timing:
    """The time of a product with nothing of it in the L2 cache; take it right after the warm one."""
    sample = backend.sampler(contestant.enqueue, contestant.launches, cold=True)
    return measure(sample, rule=COLD_RULE, warm=False, watch=backend.watching)


def in_turn(backend: CudaBackend, contestants: Sequence[Contestant], *, rule: StopRule = RULE) -> tuple[Timing, ...]:
    """Times of products, warmed up and sampled in turn; see :func:`ladder.backends.timing.measure_interleaved`."""
    samples = [sampler(backend, each) for each in contestants]
    return measure_interleaved(samples, rule=rule, together=True, watch=backend.watching)


def shapes_of(words: Sequence[str] | None, *, default: Sequence[str]) -> tuple[Shape, ...]:
    """The shapes asked for, each once.

    Raises:
        ShapeError: malformed, or empty: such a product takes no time.
    """
    shapes = tuple(dict.fromkeys(Shape.parse(word) for word in words or default))
    for shape in shapes:
        if shape.flop == 0:
            raise ShapeError(f"shape {shape} is empty: there is nothing to time; give sizes of 1 and more")
    return shapes


def record_path(device: Device, name: str) -> Path:
    """``bench/results/nvidia-h200/NAME`` for an NVIDIA H200."""
    return RESULTS / re.sub(r"[^a-z0-9]+", "-", device.name.lower()).strip("-") / name


def now() -> str:
    """The time in UTC as records have it, ``2026-01-31T12:00:00Z``."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
