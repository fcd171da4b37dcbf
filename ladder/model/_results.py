"""What came of running a rung: resources, traffic, proof, time and place; and the roofs above them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, get_args

from ladder.model._basics import LEVELS, ORIGINS, Level, Origin

__all__ = [
    "STEADY_CLOCK",
    "Check",
    "Law",
    "Method",
    "Placement",
    "Quantity",
    "Resources",
    "Roofs",
    "Timing",
    "Traffic",
    "Watched",
    "added",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What ptxas gave one kernel. ``occupancy`` is resident warps over the SM's maximum, 0..1."""

    registers: int
    smem_bytes: int
    spill_bytes: int
    stack_bytes: int = 0
    occupancy: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A number of bytes and where it came from."""

    bytes: int
    origin: Origin

    def __post_init__(self) -> None:
        if self.bytes < 0:
            raise ValueError(f"bytes {self.bytes} < 0")
        if self.origin not in ORIGINS:
            raise ValueError(f"origin {self.origin!r} is none of {', '.join(ORIGINS)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Bytes that each level moved for one launch (design: asked, L1 sectors, L2, DRAM, shared and SM wavefronts).

    ``wavefronts_*`` count 128-byte passes through the SM's data pipe; ``requests_*`` warp instructions. The emulator
    tells apart what global requests take for their banks, what they take more for lines that L1 has to fetch
    (``fetch_wavefronts``), and what is no memory access (``other_wavefronts``); a GPU's counters have all three as
    ``global_wavefronts``. Levels that nobody counted are absent from ``levels``.
    """

    levels: Mapping[Level, Quantity]
    wavefronts_ld: int = 0
    wavefronts_st: int = 0
    requests_ld: int = 0
    requests_st: int = 0
    global_wavefronts: int = 0
    global_requests: int = 0
    fetch_wavefronts: int = 0
    other_wavefronts: int = 0

    def __post_init__(self) -> None:
        unknown = set(self.levels) - set(LEVELS)
        if unknown:
            raise ValueError(f"unknown levels {sorted(unknown)}; known: {', '.join(LEVELS)}")
        object.__setattr__(self, "levels", MappingProxyType(dict(self.levels)))

    def intensity(self, flop: int) -> dict[Level, float]:
        """FLOP per byte at each counted level that moved anything."""
        return {level: flop / q.bytes for level, q in self.levels.items() if q.bytes}

    @property
    def wavefronts_per_request(self) -> float | None:
        """Shared-memory wavefronts per warp instruction, loads and stores; None without shared accesses."""
        requests = self.requests_ld + self.requests_st
        return (self.wavefronts_ld + self.wavefronts_st) / requests if requests else None


def added(parts: Sequence[Traffic]) -> Traffic:
    """The traffic of several launches together; a level has the origin that it has in the first of them.

    Raises:
        ValueError: there is no launch, or one counted levels that another did not.
    """
    first = parts[0] if parts else None
    if first is None or any(part.levels.keys() != first.levels.keys() for part in parts):
        raise ValueError(f"no sum of {len(parts)} launches that counted {[sorted(part.levels) for part in parts]}")
    return Traffic(
        levels={
            level: Quantity(bytes=sum(part.levels[level].bytes for part in parts), origin=quantity.origin)
            for level, quantity in first.levels.items()
        },
        wavefronts_ld=sum(part.wavefronts_ld for part in parts),
        wavefronts_st=sum(part.wavefronts_st for part in parts),
        requests_ld=sum(part.requests_ld for part in parts),
        requests_st=sum(part.requests_st for part in parts),
        global_wavefronts=sum(part.global_wavefronts for part in parts),
        global_requests=sum(part.global_requests for part in parts),
        fetch_wavefronts=sum(part.fetch_wavefronts for part in parts),
        other_wavefronts=sum(part.other_wavefronts for part in parts),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Outcome of proving one rung. ``failure`` is the first thing that went wrong, None when it passed."""

    passed: bool
    exact_integers: bool
    worst_error_over_bound: float | None
    failure: str | None = None
    crc32: int | None = None


STEADY_CLOCK = 0.02
"""How far the SM clock may move while something is timed, as a fraction, before it is worth a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The card while something ran: medians and extremes of ``samples`` looks; None for what it did not tell.

    ``limits`` are what held the clock down at one time or another, in words such as ``"power cap"``.
    """

    samples: int = 0
    sm_clock_hz: float | None = None
    sm_clock_low_hz: float | None = None
    sm_clock_high_hz: float | None = None
    power_w: float | None = None
    power_high_w: float | None = None
    limits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "limits", tuple(self.limits))
        clocks = (self.sm_clock_low_hz, self.sm_clock_hz, self.sm_clock_high_hz)
        known = [clock for clock in clocks if clock is not None]
        if len(known) not in (0, 3) or known != sorted(known) or any(not clock > 0 for clock in known):
            raise ValueError(f"SM clocks out of order: low, median, high are {clocks} Hz")

    @property
    def clock_spread(self) -> float | None:
        """How far the SM clock moved, as a fraction of its median; None where the card does not tell it."""
        low, middle, high = self.sm_clock_low_hz, self.sm_clock_hz, self.sm_clock_high_hz
        return None if low is None or middle is None or high is None else (high - low) / middle

    @property
    def remark(self) -> str | None:
        """What to know before the time of that moment is compared with another; None when there is nothing."""
        spread, low, high = self.clock_spread, self.sm_clock_low_hz, self.sm_clock_high_hz
        parts = [f"held down by: {', '.join(self.limits)}"] if self.limits else []
        if spread is not None and low is not None and high is not None and spread > STEADY_CLOCK:
            parts.insert(0, f"moved by {100 * spread:.1f} %, {low / 1e9:.3f} to {high / 1e9:.3f} GHz")
        return f"SM clock {'; '.join(parts)}" if parts else None


Method = Literal["graph", "launches"]
"""How a product was timed: its launches in a CUDA graph, or each as the host enqueues it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds per product, from device events.

    Attributes:
        median, p20, p80: of the samples.
        samples: how many were taken.
        method: None where a record does not tell.
        kept: some of the samples, in the order in which they were taken.
        watched: the card meanwhile; of things timed in turn, while all of them ran.
        late: samples whose launches the host had not queued when they began: its gaps may be in their time.
    """

    median: float
    p20: float
    p80: float
    samples: int
    method: Method | None = None
    kept: tuple[float, ...] = ()
    watched: Watched | None = None
    late: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "kept", tuple(self.kept))
        if not 0 < self.p20 <= self.median <= self.p80:
            raise ValueError(f"timing out of order: p20 {self.p20}, median {self.median}, p80 {self.p80}")
        if len(self.kept) > self.samples or not all(each > 0 for each in self.kept):
            raise ValueError(f"{len(self.kept)} samples kept of {self.samples}; each has to be positive seconds")
        if self.method not in (None, *get_args(Method)):
            raise ValueError(f"timing method {self.method!r} is none of {', '.join(get_args(Method))}")
        if not 0 <= self.late <= self.samples:
            raise ValueError(f"{self.late} of {self.samples} samples were late")

    @property
    def remark(self) -> str | None:
        """What to know before this time is compared with another; None when there is nothing."""
        parts = [self.watched.remark] if self.watched is not None else []
        if self.late:
            parts.append(f"the host queued {self.late} of {self.samples} samples too late")
        return "; ".join(part for part in parts if part is not None) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofs:
    """A device's ceilings: bytes/s by level and FLOP/s by pipe, each with its origin and a note on the source.

    ``shared`` and ``sm`` intensities are both drawn against the ``sm`` roof: one data pipe serves both.
    """

    bytes_per_s: Mapping[str, float]
    flop_per_s: Mapping[str, float]
    origin: Mapping[str, Origin] = field(default_factory=dict)
    note: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("bytes_per_s", "flop_per_s", "origin", "note"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        bad = {k: v for m in (self.bytes_per_s, self.flop_per_s) for k, v in m.items() if not v > 0}
        if bad:
            raise ValueError(f"roofs must be positive: {bad}")
        if "fp32" not in self.flop_per_s:
            raise ValueError("roofs need fp32 in flop_per_s")

    def bandwidth(self, level: Level) -> float | None:
        """Bytes/s of the roof that bounds ``level``; None when the device has no such roof recorded."""
        return self.bytes_per_s.get("sm" if level == "shared" else level)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a rung sits on the nested roofline.

    ``bound_by`` is the level (or pipe) with the lowest ceiling, ``bounds_flop_per_s`` every level's ceiling, and
    ``fraction`` the measured rate over the roof, None without a time.
    """

    bound_by: str
    roof_flop_per_s: float
    bounds_flop_per_s: Mapping[str, float]
    fraction: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds_flop_per_s", MappingProxyType(dict(self.bounds_flop_per_s)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """A law's name and the intensity (FLOP/byte) it predicts at each level it speaks of."""

    name: str
    predicted: Mapping[str, float]

    def __post_init__(self) -> None:
        object.__setattr__(self, "predicted", MappingProxyType(dict(self.predicted)))
