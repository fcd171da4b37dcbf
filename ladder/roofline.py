"""The nested roofline: one bound per level of the memory, the lowest of them binds. Pure arithmetic.

The roofline of Williams, Waterman and Patterson (CACM 52(4), 2009) bounds a kernel's rate by min(P, I * B), with I the
FLOP per byte that one memory moved. Nested, as in Yang, Kurth and Williams (CCPE 32(20), 2020), each level has its own
I and its own B, and the bound is the lowest of all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from ladder.model import Level, Placement, Precision, Roofs

__all__ = [
    "IMPOSSIBLE",
    "MOSTLY_SHARED",
    "PRODUCTS",
    "ROOFED_LEVELS",
    "above",
    "pipe_level",
    "pipe_of",
    "place",
    "ridge",
]

ROOFED_LEVELS: tuple[Level, ...] = ("dram", "l2", "sm", "shared")
"""Levels that have a roof, outermost first. ``asked`` and ``l1`` are intensities without a bandwidth of their own: the
bytes that lanes ask for and the sectors they touch pass through the SM's data pipe, whose unit is the wavefront."""

MOSTLY_SHARED = 0.5
"""Share of the data pipe's wavefronts from which the pipe's roof is called ``shared`` rather than ``sm``."""


IMPOSSIBLE = 1.02
"""Fraction of a bound above which the ceiling or the bytes must be wrong, not the kernel fast."""

PRODUCTS: dict[Precision, int] = {"fp32": 1, "tf32": 1, "fp32_split": 3}
"""Products of the pipe that one product of the kernel takes. From operands split in two, float32's accuracy takes three
of TF32: high with high, high with low, low with high (Ootomo and Yokota, IJHPCA 36, 2022). Six of BF16, which tensor
cores multiply twice as fast, take as long, and nine longer. Three of FP16 would take half of that, over a part of
float32's range; no rung here does so."""


def place(
    intensity: Mapping[Level, float],
    roofs: Roofs,
    *,
    flop_per_s: float | None = None,
    pipe: str | None = "fp32",
    products: int = 1,
) -> Placement:
    """Bound a kernel at every level and name the one that binds.

    Each level of :data:`ROOFED_LEVELS` with both an intensity and a recorded roof gives the bound I * B; ``pipe`` gives
    its peak. The lowest is ``roof_flop_per_s``, and ``bound_by`` names it; of equal bounds the outermost is named.

    ``sm`` counts every wavefront of the SM's data pipe and ``shared`` those of shared memory alone, both against one
    roof, so ``sm`` always binds first; :func:`pipe_level` says by which name. The bound is the pipe's in both cases, so
    ``bounds_flop_per_s["shared"]`` may lie a little above ``roof_flop_per_s``.

    Args:
        intensity: FLOP/byte by level. Levels without a roof are ignored; 0 (no work) is a bound of 0.
        roofs: the device's ceilings.
        flop_per_s: the measured rate, if there is one.
        pipe: which of ``roofs.flop_per_s`` the arithmetic runs on (:func:`pipe_of`); None where its peak is not known,
            so that the levels alone bound the kernel.
        products: how many products of that pipe each of the kernel's takes (:data:`PRODUCTS`): its peak is that part.

    Raises:
        ValueError: an intensity or rate is negative or not finite, ``roofs`` has no such pipe, or nothing is bound.
    """
    for name, value in (*intensity.items(), ("rate", 0.0 if flop_per_s is None else flop_per_s)):
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} is {value}; an intensity or rate is finite and 0 or more")
    if pipe is not None and pipe not in roofs.flop_per_s:
        raise ValueError(f"no roof for pipe {pipe!r}; this device has {', '.join(sorted(roofs.flop_per_s))}")

    bounds: dict[str, float] = {}
    for level in ROOFED_LEVELS:
        bandwidth = roofs.bandwidth(level)
        if level in intensity and bandwidth is not None:
            bounds[level] = intensity[level] * bandwidth
    if pipe is not None:
        bounds[pipe] = roofs.flop_per_s[pipe] / products
    if not bounds:
        raise ValueError(f"no roof above {', '.join(intensity) or 'nothing'}: give a pipe, or a level that has one")

    bound_by = min(bounds, key=bounds.__getitem__)
    roof = bounds[bound_by]
    if bound_by == "sm":
        bound_by = pipe_level(intensity)
    fraction = flop_per_s / roof if flop_per_s is not None and roof > 0 else None
    return Placement(
        bound_by=bound_by, roof_flop_per_s=roof, bounds_flop_per_s=MappingProxyType(bounds), fraction=fraction
    )


def above(placement: Placement, flop_per_s: float | None) -> dict[str, float]:
    """Rate over bound, by level and pipe, where a measured rate is above it by more than measuring errs.

    No kernel can be: that roof is too low, or the level's bytes are too many.
    """
    if flop_per_s is None:
        return {}
    shares = {name: flop_per_s / bound for name, bound in placement.bounds_flop_per_s.items() if bound > 0}
    return {name: share for name, share in shares.items() if share > IMPOSSIBLE}


def pipe_of(precision: Precision, roofs: Roofs) -> str | None:
    """The pipe whose peak, over :data:`PRODUCTS`, bounds a kernel of ``precision``; None if ``roofs`` lack it."""
    pipes: dict[Precision, str] = {"fp32": "fp32", "tf32": "tf32", "fp32_split": "tf32"}
    pipe = pipes[precision]
    return pipe if pipe in roofs.flop_per_s else None


def ridge(roofs: Roofs, level: Level, *, pipe: str = "fp32") -> float | None:
    """FLOP/byte where ``level``'s slope meets ``pipe``'s ceiling; None when that level has no roof."""
    bandwidth = roofs.bandwidth(level)
    return None if bandwidth is None else roofs.flop_per_s[pipe] / bandwidth


def pipe_level(intensity: Mapping[Level, float]) -> Level:
    """What fills the SM's data pipe: ``"shared"`` when shared memory has half of its wavefronts or more, else ``"sm"``.

    At equal work the share of the bytes is the inverse ratio of the intensities.
    """
    shared = intensity.get("shared", 0.0)
    return "shared" if shared > 0 and intensity.get("sm", shared) / shared >= MOSTLY_SHARED else "sm"
