"""The project's nouns, as frozen dataclasses that refuse wrong values. No I/O, no CUDA.

Lengths are elements, ``*_bytes`` bytes, ``*_s`` seconds, ``*_flop`` work and ``*_flop_per_s`` rate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from ladder.errors import ShapeError

__all__ = [
    "FP32_UNIT_ROUNDOFF",
    "LEVELS",
    "Check",
    "Device",
    "Kind",
    "Law",
    "Level",
    "Origin",
    "Placement",
    "Quantity",
    "Resources",
    "Roofs",
    "Rung",
    "Shape",
    "Timing",
    "Traffic",
]

Kind = Literal["rung", "law", "peer"]
Origin = Literal["measured", "counted", "emulated", "modelled", "recorded"]
Level = Literal["dram", "l2", "l1", "shared", "sm", "asked"]

LEVELS: tuple[Level, ...] = ("asked", "l1", "l2", "dram", "shared", "sm")
ORIGINS: tuple[Origin, ...] = ("measured", "counted", "emulated", "modelled", "recorded")

FP32_UNIT_ROUNDOFF = 2.0**-24
"""u of IEEE binary32, round to nearest."""

_SHAPE = re.compile(r"(-?\d+)[xX×](-?\d+)[xX×](-?\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """C (m, n) = A (m, k) @ B (k, n).

    Raises:
        ShapeError: a size is negative or not an integer.
    """

    m: int
    n: int
    k: int

    def __post_init__(self) -> None:
        for name in ("m", "n", "k"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise ShapeError(f"shape {self}: {name.upper()} is {value!r}; give an integer")
            if value < 0:
                raise ShapeError(f"shape {self}: {name.upper()} is {value}; sizes are 0 or more")

    @classmethod
    def parse(cls, text: str) -> Shape:
        """``"1000x512x77"`` -> Shape(m=1000, n=512, k=77).

        Raises:
            ShapeError: the text is not MxNxK.
        """
        match = _SHAPE.fullmatch(text.strip())
        if match is None:
            raise ShapeError(f"shape {text!r} is not MxNxK; write for example 1000x512x77")
        m, n, k = (int(group) for group in match.groups())
        return cls(m=m, n=n, k=k)

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def flop(self) -> int:
        """Work of the product: one multiply and one add per element of the M x N x K cube."""
        return 2 * self.m * self.n * self.k


def _frozen(values: Mapping[str, int]) -> Mapping[str, int]:
    return MappingProxyType(dict(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One kernel of the catalogue with its launch geometry, as declared in its ``.cu`` file.

    Attributes:
        name: file name without number and ending, plus ``_VALUE`` of a swept parameter.
        number: the file's leading number, which orders the ladder (laws and user files: 0 when absent).
        kernel: the ``__global__`` function's name; ``name_expression`` adds its template arguments.
        params: template arguments in template order.
        tile: (BM, BN), the C tile of one threadblock; sets grid y and x.
        block: threads (x, y, z).
        grid_z_tile: BK when the grid's z walks K (``grid_z = "K/BK"``), else None.
        smem_bytes: dynamic shared memory.
        multiple: what M, N and K must be multiples of.
        c_init: what C holds before the launch: ``"poison"`` (NaN, the kernel must write all of C) or ``"zero"``
            (the kernel adds into C).
        ordered: each element of C is one fma chain in k order, so that all such rungs agree bit for bit.
        law: the law its intensity obeys, if it declares one.
        unit_roundoff: u of the arithmetic that the error bound uses.
        source: the file's whole text; ``path`` where it came from.
    """

    name: str
    number: int
    kind: Kind
    title: str
    kernel: str
    params: Mapping[str, int]
    tile: tuple[int, int]
    block: tuple[int, int, int]
    path: Path
    source: str
    prose: str = ""
    grid_z_tile: int | None = None
    smem_bytes: int = 0
    multiple: tuple[int, int, int] = (1, 1, 1)
    min_cc: int = 75
    c_init: Literal["poison", "zero"] = "poison"
    ordered: bool = True
    law: Literal["tile_product", "c_stationary"] | None = None
    unit_roundoff: float = FP32_UNIT_ROUNDOFF

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", _frozen(self.params))
        if min(self.tile) < 1 or min(self.block) < 1 or min(self.multiple) < 1:
            raise ValueError(
                f"rung {self.name}: tile {self.tile}, block {self.block}, multiple {self.multiple}: all >= 1"
            )
        if self.threads > 1024:
            raise ValueError(f"rung {self.name}: {self.threads} threads a block; the limit is 1024")

    @property
    def threads(self) -> int:
        """Threads a block."""
        x, y, z = self.block
        return x * y * z

    @property
    def name_expression(self) -> str:
        """What NVRTC instantiates: ``register_tile<128, 128, 8>``, or the bare name without a template."""
        if not self.params:
            return self.kernel
        return f"{self.kernel}<{', '.join(str(v) for v in self.params.values())}>"

    def supports(self, shape: Shape) -> str | None:
        """Why ``shape`` cannot run, with the fix; None when it can."""
        for axis, value, step in zip("MNK", (shape.m, shape.n, shape.k), self.multiple, strict=True):
            if value % step:
                padded = -(-value // step) * step
                return (
                    f"rung {self.name} needs {axis} % {step} == 0; got {axis}={value} (shape {shape}). "
                    f"Pad {axis} to {padded} or use a rung without that limit."
                )
        return None


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

    ``wavefronts_*`` count 128-byte passes through the SM's data pipe; ``requests_*`` warp instructions. Levels that
    nobody counted are absent from ``levels``.
    """

    levels: Mapping[Level, Quantity]
    wavefronts_ld: int = 0
    wavefronts_st: int = 0
    requests_ld: int = 0
    requests_st: int = 0
    global_wavefronts: int = 0
    global_requests: int = 0

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Outcome of proving one rung. ``failure`` is the first thing that went wrong, None when it passed."""

    passed: bool
    exact_integers: bool
    worst_error_over_bound: float | None
    failure: str | None = None
    crc32: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds per launch, from device events."""

    median: float
    p20: float
    p80: float
    samples: int

    def __post_init__(self) -> None:
        if not 0 < self.p20 <= self.median <= self.p80:
            raise ValueError(f"timing out of order: p20 {self.p20}, median {self.median}, p80 {self.p80}")


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
class Device:
    """The machine that a result speaks of; ``backend`` says whether it ran there or was emulated for it."""

    backend: Literal["cuda", "emulated"]
    name: str
    compute_capability: tuple[int, int]
    sm_count: int
    l2_bytes: int
    smem_per_sm_bytes: int = 0
    l1_bytes: int = 0
    registers_per_sm: int = 65536
    max_threads_per_sm: int = 2048
    max_blocks_per_sm: int = 32
    driver: str | None = None
    nvrtc: str | None = None
    sm_clock_hz: float | None = None
    power_w: float | None = None

    @property
    def fma_per_clock(self) -> int:
        """FP32 fused multiply-adds an SM starts each clock: 64 on 7.5 and 8.0, 128 on 8.6 and later.

        Source: CUDA C++ Programming Guide, throughput of native arithmetic instructions.
        """
        return 64 if self.compute_capability in {(7, 5), (8, 0)} else 128

    @property
    def arch(self) -> str:
        """``"sm_90"`` for compute capability 9.0."""
        major, minor = self.compute_capability
        return f"sm_{major}{minor}"


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
