"""The rows of a results file, and the file as a value: frozen, and consistent in themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ladder.model import (
    STEADY_CLOCK,
    Activity,
    Check,
    Device,
    Kind,
    Law,
    Level,
    Placement,
    Resources,
    Roofs,
    Shape,
    Timing,
    Traffic,
)

__all__ = ["Beside", "Results", "Run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What a row was timed in turn with, one sample of each after the other: its row's name, and its time then."""

    rung: str
    time: Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One row: one rung at one shape. ``skipped`` says why it did not run, ``error`` why it broke off.

    ``time`` is with the caches as the product before left them, ``time_cold`` with nothing of it in the L2 cache.
    ``params`` are the template arguments of a rung that ran with others than its declared ones. ``sm_clock_hz`` and
    ``power_w`` were read while it ran over and over, ``beside`` is what it was timed in turn with, ``kernel`` the names
    of the kernels that a library chose. ``notes`` are for whoever watches it run, and are not kept in a results file.
    """

    rung: str
    title: str
    kind: Kind
    shape: Shape
    source_sha256: str = ""
    skipped: str | None = None
    error: str | None = None
    check: Check | None = None
    time: Timing | None = None
    time_cold: Timing | None = None
    traffic: Traffic | None = None
    activity: Activity | None = None
    placement: Placement | None = None
    law: Law | None = None
    resources: Resources | None = None
    params: Mapping[str, int] | None = None
    beside: Beside | None = None
    sm_clock_hz: float | None = None
    power_w: float | None = None
    kernel: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def flop_per_s(self) -> float | None:
        """Median rate, None without a time."""
        return self.shape.flop / self.time.median if self.time and self.shape.flop else None

    @property
    def intensity(self) -> dict[Level, float]:
        """FLOP/byte by level; empty without traffic."""
        return self.traffic.intensity(self.shape.flop) if self.traffic else {}

    @property
    def speedup(self) -> float | None:
        """Its rate over that of what it was timed in turn with; None without."""
        return self.beside.time.median / self.time.median if self.time and self.beside else None

    @property
    def cold_over_warm(self) -> float | None:
        """What a product takes with nothing in the L2 cache, over what it takes warm; None unless both are timed.

        None as well where the clock was another or was held down: the ratio would tell of that and not of the cache.
        """
        if self.time is None or self.time_cold is None:
            return None
        warm, cold = self.time.watched, self.time_cold.watched
        if warm is not None and cold is not None:
            one, other = warm.sm_clock_hz, cold.sm_clock_hz
            apart = one is not None and other is not None and abs(one / other - 1) > STEADY_CLOCK
            if warm.limits or cold.limits or apart:
                return None
        return self.time_cold.median / self.time.median

    @property
    def clock_hz(self) -> float | None:
        """The SM clock at which ``time`` was taken, where it was watched; else that of its load."""
        watched = self.time.watched if self.time else None
        return (watched.sm_clock_hz if watched else None) or self.sm_clock_hz

    @property
    def remark(self) -> str | None:
        """What makes the time hard to compare, of the card and of the host; None when there is nothing."""
        return None if self.time is None else self.time.remark

    @property
    def failed(self) -> bool:
        """The rung is wrong or broke off; a skipped one has not failed."""
        return self.error is not None or (self.check is not None and not self.check.passed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """One session of runs on one device against one set of roofs."""

    created: str
    command: str
    device: Device
    roofs: Roofs
    runs: tuple[Run, ...] = field(default=())

    def with_run(self, run: Run) -> Results:
        """A copy with ``run`` added; it replaces an earlier row of the same rung and shape."""
        kept = tuple(r for r in self.runs if (r.rung, r.shape) != (run.rung, run.shape))
        return replace(self, runs=(*kept, run))
