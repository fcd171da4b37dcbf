"""When to stop warming up and when to stop sampling. Knows seconds, not CUDA: a sample is a function that gives one."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from ladder.backends.nvml import Watch
from ladder.model import Method, Timing
from ladder.stats import StopRule, summarize

__all__ = [
    "COLD_RULE",
    "DEFAULT_RULE",
    "MIN_SAMPLE_S",
    "SHORT_S",
    "Sampling",
    "launches_per_sample",
    "measure",
    "measure_interleaved",
    "warm_up",
]

Sampler = Callable[[], float]
Clock = Callable[[], float]
Watcher = Callable[[], AbstractContextManager[Watch]]

DEFAULT_RULE = StopRule(min_samples=5, min_time_s=0.2, max_time_s=2.0, max_noise=0.005)
"""0.5 % noise as nvbench asks; a slow kernel, a third of a second at 4096^3, still ends within a few seconds."""

COLD_RULE = StopRule(min_samples=3, min_time_s=0.02, max_time_s=0.1, max_noise=0.01)
"""A cold sample takes longer to prepare than to take; twice ``max_time_s`` on the wall is the end of it."""

MIN_SAMPLE_S = 1e-3
"""A sample lasts at least this long: events resolve 0.5 us (CUDA driver API, cuEventElapsedTime), and what a graph
takes to start is then a fraction of a per cent."""

SHORT_S = 1e-4
"""A product shorter than this is timed in a graph: the gap before a launch is a few per cent of it, or more."""

MAX_LAUNCHES = 200
LOOKS = 50
"""The rule is asked each time that there are a fiftieth more samples: the card rests while it is."""

WARM_S = 0.2
WINDOW_S = 0.1
MAX_WARM_S = 1.5
SETTLED = 0.005


@dataclass(frozen=True, slots=True)
class Sampling:
    """A sampler that knows how it times: the mean of ``products`` products, in seconds.

    ``was_late`` tells whether the host had not queued the last sample's launches in time.
    """

    take: Sampler
    method: Method
    products: int = 1
    was_late: Callable[[], bool] = lambda: False

    def __call__(self) -> float:
        """One sample, in seconds."""
        return self.take()


def launches_per_sample(seconds: float) -> int:
    """How many back-to-back launches of ``seconds`` each make a sample long enough to time."""
    # A millionth less is long enough: the sum of rounded times is no reason for one more.
    return max(1, min(MAX_LAUNCHES, math.ceil(MIN_SAMPLE_S / seconds * (1 - 1e-6))))


def warm_up(sample: Sampler, *, clock: Clock = time.perf_counter) -> float:
    """Sample until the clocks have settled: until two tenths of a second in a row agree.

    A card under its power limit takes some tenths of a second to find the clock that it can hold. The medians of two
    windows of 0.1 s, or of two samples where these are longer, agree when they differ by 0.5 % at most. Gives up after
    1.5 s: a kernel whose time never settles is timed as it is, and its spread tells.

    Returns:
        The median of the last window, in seconds.
    """
    begun = opened = clock()
    previous = math.inf
    window: list[float] = []
    while True:
        window.append(sample())
        now = clock()
        late = now - begun >= MAX_WARM_S
        if not late and now - opened < WINDOW_S:
            continue
        current = statistics.median(window)
        if late or (now - begun >= WARM_S and abs(current - previous) <= SETTLED * current):
            return current
        previous, opened = current, now
        window.clear()


def measure(
    sample: Sampler,
    *,
    rule: StopRule = DEFAULT_RULE,
    clock: Clock = time.perf_counter,
    warm: bool = True,
    watch: Watcher | None = None,
) -> Timing:
    """Warm up, then sample until ``rule`` is content; see :func:`measure_interleaved`."""
    return measure_interleaved([sample], rule=rule, clock=clock, warm=warm, watch=watch)[0]


def measure_interleaved(
    samples: Sequence[Sampler],
    *,
    rule: StopRule = DEFAULT_RULE,
    clock: Clock = time.perf_counter,
    together: bool = False,
    warm: bool = True,
    watch: Watcher | None = None,
) -> tuple[Timing, ...]:
    """Time several things side by side: one sample of each in turn, so that a drift of the clocks meets all alike.

    Each is warmed up by itself first, or all ``together``, in turn as they are timed: the clocks are then those of the
    mix, and it takes as long as for one. Ends when ``rule`` is content with each, or when twice its ``max_time_s`` a
    thing has passed on the wall.

    Args:
        samples: what gives one sample each, in seconds.
        rule: when there are enough.
        clock: of the wall, in seconds.
        together: warm all up in turn.
        warm: warm up at all; without, one sample of each is thrown away.
        watch: has the card watched while samples are taken, the warm-up left out.

    Raises:
        ValueError: a sample is not a positive number of seconds.
    """
    if warm:
        for sample in [lambda: math.fsum(each() for each in samples)] if together else samples:
            warm_up(sample, clock=clock)
    else:
        for sample in samples:
            sample()
    taken: list[list[float]] = [[] for _ in samples]
    late = [0 for _ in samples]
    products = [sample.products if isinstance(sample, Sampling) else 1 for sample in samples]
    looked_at = 0
    deadline = clock() + 2 * rule.max_time_s * len(samples)
    with nullcontext(Watch()) if watch is None else watch() as watched:
        while True:
            for number, sample in enumerate(samples):
                taken[number].append(sample())
                late[number] += isinstance(sample, Sampling) and sample.was_late()
            count = len(taken[0])
            if clock() >= deadline and count >= rule.min_samples:
                break
            if count >= looked_at:
                if all(rule.done([many * one for one in kept]) for many, kept in zip(products, taken, strict=True)):
                    break
                looked_at = count + max(1, count // LOOKS)
    seen: dict[str, Any] = {"watched": watched.result} if watched.result.samples else {}
    return tuple(
        replace(summarize(kept), method=sample.method if isinstance(sample, Sampling) else None, late=times, **seen)
        for sample, kept, times in zip(samples, taken, late, strict=True)
    )
