"""What everything else speaks of: shapes and devices, levels of the memory, and where numbers come from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from ladder.errors import ShapeError

__all__ = ["FP32_UNIT_ROUNDOFF", "LEVELS", "ORIGINS", "Device", "Kind", "Level", "Origin", "Shape"]

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
