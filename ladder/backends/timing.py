"""When to stop warming up and when to stop sampling. Knows seconds, not CUDA: a sample is a function that gives one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from ladder.model import Timing
from ladder.stats import StopRule, summarize

__all__ = ["DEFAULT_RULE", "MIN_SAMPLE_S", "launches_per_sample", "measure", "measure_interleaved", "warm_up"]

Sampler = Callable[[], float]
Clock = Callable[[], float]

DEFAULT_RULE = StopRule(min_samples=7, min_time_s=0.3, max_time_s=3.0, max_noise=0.005)
"""0.5 % noise as nvbench asks; a slow kernel, a third of a second at 4096^3, still ends within a few seconds."""

MIN_SAMPLE_S = 5e-4
"""A sample lasts at least this long: events resolve 0.5 us (CUDA driver API, cuEventElapsedTime)."""

MAX_LAUNCHES = 200
WARM_S = 0.25
MAX_WARM_S = 1.5
SETTLED = 0.01


def launches_per_sample(seconds: float) -> int:
    """How many back-to-back launches of ``seconds`` each make a sample long enough to time."""
    return max(1, min(MAX_LAUNCHES, math.ceil(MIN_SAMPLE_S / seconds)))


def warm_up(sample: Sampler, *, clock: Clock = time.perf_counter) -> float:
    """Sample until the clocks have settled: 0.25 s at least, then until two samples in a row agree within 1 %.

    Gives up after 1.5 s: a kernel whose time never settles is timed as it is, and its spread tells.

    Returns:
        The last sample, in seconds.
    """
    begun = clock()
    previous = math.inf
    while True:
        current = sample()
        elapsed = clock() - begun
        if elapsed >= MAX_WARM_S or (elapsed >= WARM_S and abs(current - previous) <= SETTLED * current):
            return current
        previous = current


def measure(sample: Sampler, *, rule: StopRule = DEFAULT_RULE, clock: Clock = time.perf_counter) -> Timing:
    """Warm up, then sample until ``rule`` is content; see :func:`measure_interleaved`."""
    return measure_interleaved([sample], rule=rule, clock=clock)[0]


def measure_interleaved(
    samples: Sequence[Sampler],
    *,
    rule: StopRule = DEFAULT_RULE,
    clock: Clock = time.perf_counter,
    together: bool = False,
) -> tuple[Timing, ...]:
    """Time several things side by side: one sample of each in turn, so that a drift of the clocks meets all alike.

    Each is warmed up by itself first, or all ``together``, in turn as they are timed: the clocks are then those of the
    mix, and it takes as long as for one. Ends when ``rule`` is content with each, or when twice its ``max_time_s`` a
    thing has passed on the wall.

    Raises:
        ValueError: a sample is not a positive number of seconds.
    """
    for sample in [lambda: math.fsum(each() for each in samples)] if together else samples:
        warm_up(sample, clock=clock)
    taken: list[list[float]] = [[] for _ in samples]
    deadline = clock() + 2 * rule.max_time_s * len(samples)
    while True:
        for sample, kept in zip(samples, taken, strict=True):
            kept.append(sample())
        late = clock() >= deadline and len(taken[0]) >= rule.min_samples
        if late or all(rule.done(kept) for kept in taken):
            return tuple(summarize(kept) for kept in taken)
