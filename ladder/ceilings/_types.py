"""What is tried, what it reached, and what speaks for it: plain data, from the first trial to the roof."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from ladder.model import Device, Origin, Roofs, Watched

__all__ = ["MEMORIES", "ROOFS", "By", "Ceiling", "Ceilings", "Config", "Finding", "Sustained", "Trial"]

MEMORIES = ("dram", "l2", "sm")
ROOFS = (*MEMORIES, "fp32", "tf32", "bf16")
"""What is measured, as :class:`ladder.model.Roofs` names it: three bandwidths, then pipes."""

By = Literal["machine code", "counters", "clock"]

ABOVE = 1.01
"""A rate this far above the hardware's limit is wrong, or the clock beside it: neither is known to 1 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One way to run one probe.

    Attributes:
        roof: one of :data:`ROOFS`.
        probe: the file in ``cuda_src/probes``; empty for a copy by the driver.
        kernel: its ``__global__`` function.
        block: threads of a block.
        params: template arguments in template order.
        numbers: what the launch is given: passes, steps, bytes.
        data: what the operands hold, where it matters.
        arch: what it is compiled for, when it is not the device's own name.
        smem_bytes: dynamic shared memory.
        footprint_bytes: what is read over and over, for L2.
    """

    roof: str
    probe: str = ""
    kernel: str = ""
    block: int = 1
    params: Mapping[str, int] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    data: Literal["", "random", "constant"] = ""
    arch: str | None = None
    smem_bytes: int = 0
    footprint_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.roof not in ROOFS:
            raise ValueError(f"roof {self.roof!r} is none of {', '.join(ROOFS)}")
        for name in ("params", "numbers"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What one configuration reached in short launches: the median, in bytes/s or FLOP/s.

    Attributes:
        config: what ran.
        words: the same, for a person.
        rate: bytes/s or FLOP/s.
        counts: whether it may become the roof; others are taken to see an effect.
    """

    config: Config
    words: str
    rate: float
    counts: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.rate < math.inf:
            raise ValueError(f"{self.words}: a rate of {self.rate!r}; it is positive")

    @property
    def roof(self) -> str:
        """Of its configuration."""
        return self.config.roof


@dataclass(frozen=True, slots=True, kw_only=True)
class Sustained:
    """What a configuration keeps up, launch after launch, once clock and power have settled.

    Attributes:
        config: what ran.
        words: the same, for a person.
        rate: bytes/s or FLOP/s, the median over ``samples``.
        samples: how many were timed.
        timer_clock_hz: the SM clock by the GPU's own timers during these launches; None where a launch is too short for
            them.
        watched: clock, power and limits as NVML saw them.
    """

    config: Config
    words: str
    rate: float
    samples: int
    timer_clock_hz: float | None = None
    watched: Watched = field(default_factory=Watched)

    @property
    def clock_hz(self) -> float | None:
        """The SM clock: by the GPU's timers, which average over the very launch, else as NVML saw it."""
        return self.timer_clock_hz or self.watched.sm_clock_hz


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check of a roof: what was meant and what was found.

    ``ok`` is None where it could not be looked at, and ``why`` then says why.
    """

    roof: str
    by: By
    what: str
    meant: float | None = None
    found: float | None = None
    ok: bool | None = None
    why: str = ""

    def __post_init__(self) -> None:
        if self.ok is None and not self.why:
            raise ValueError(f"{self.roof}, {self.what}: say why it was not looked at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """One roof, and what stands behind it.

    Attributes:
        roof: one of :data:`ROOFS`.
        rate: bytes/s or FLOP/s.
        best: the launches that it was taken from; of L2's plateau, those of the middle footprint.
        others: what else was kept up: neighbouring footprints, or other operands.
        per_clock: ``rate`` in bytes or FLOP per clock per SM; None without a clock.
        limit: the most per clock per SM that the hardware can do, where that is known.
        what: the configuration in words, with the plateau's footprints or what other data gave.
        findings: the checks.
    """

    roof: str
    rate: float
    best: Sustained
    others: tuple[Sustained, ...] = ()
    per_clock: float | None = None
    limit: float | None = None
    what: str = ""
    findings: tuple[Finding, ...] = ()

    @property
    def unit(self) -> str:
        """What it counts: ``"B"`` or ``"FLOP"``."""
        return "B" if self.roof in MEMORIES else "FLOP"

    @property
    def share(self) -> float | None:
        """Of the hardware's limit."""
        return self.per_clock / self.limit if self.per_clock is not None and self.limit is not None else None

    @property
    def failed(self) -> tuple[Finding, ...]:
        """Checks that it did not pass."""
        return tuple(finding for finding in self.findings if finding.ok is False)

    @property
    def verified_by(self) -> tuple[By, ...]:
        """Ways in which it was looked at and found as meant: all findings of that way are right."""
        ways: tuple[By, ...] = ("machine code", "counters")
        return tuple(by for by in ways if (found := [f.ok for f in self.findings if f.by == by]) and all(found))

    @property
    def note(self) -> str:
        """How it was got, in a line, with what speaks against it."""
        clock, power = self.best.clock_hz, self.best.watched.power_w
        at = f" at {clock / 1e9:.3f} GHz" if clock is not None else ""
        each = (
            "SM clock unknown" if self.per_clock is None else f"{self.per_clock:.4g} {self.unit} per clock per SM{at}"
        )
        drawn = "" if power is None else f", {power:.0f} W"
        held = f" ({', '.join(self.best.watched.limits)})" if self.best.watched.limits else ""
        doubts = "".join(f"; NOT AS MEANT, {finding_text(finding)}" for finding in self.failed)
        return f"{self.what}; {each}{drawn}{held}{doubts}"


def finding_text(finding: Finding) -> str:
    """A check in words: ``"FFMA a pass in the loop: 576 found, 144 meant"``."""
    if finding.ok is None:
        return f"{finding.what}: not looked at, {finding.why}"
    found, meant = (f"{value:.6g}" if value is not None else "?" for value in (finding.found, finding.meant))
    return f"{finding.what}: {found} found, {meant} meant{f' ({finding.why})' if finding.why else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """A GPU's measured roofs with every trial behind them.

    Attributes:
        device: as the driver describes it.
        created: when, in UTC, as ``2026-01-31T12:00:00Z``.
        ceilings: in the order of :data:`ROOFS`; a pipe that the GPU has not got, or for which there is no probe, is
            left out.
        trials: everything that was tried.
        seconds: how long it took.
    """

    device: Device
    created: str
    ceilings: tuple[Ceiling, ...]
    trials: tuple[Trial, ...] = ()
    seconds: float = 0.0

    def __post_init__(self) -> None:
        missing = {*MEMORIES, "fp32"} - {each.roof for each in self.ceilings}
        if missing:
            raise ValueError(f"no ceiling of {', '.join(sorted(missing))}")

    def __getitem__(self, roof: str) -> Ceiling:
        """The ceiling of one roof; KeyError if it was not measured."""
        found = next((each for each in self.ceilings if each.roof == roof), None)
        if found is None:
            raise KeyError(roof)
        return found

    @property
    def roofs(self) -> Roofs:
        """As kernels are placed under them."""
        measured: Origin = "measured"
        return Roofs(
            bytes_per_s={each.roof: each.rate for each in self.ceilings if each.roof in MEMORIES},
            flop_per_s={each.roof: each.rate for each in self.ceilings if each.roof not in MEMORIES},
            origin={each.roof: measured for each in self.ceilings},
            note={each.roof: each.note for each in self.ceilings},
        )

    @property
    def failed(self) -> tuple[Finding, ...]:
        """Checks that were not passed, of all roofs."""
        return tuple(finding for each in self.ceilings for finding in each.failed)
