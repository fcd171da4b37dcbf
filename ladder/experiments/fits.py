"""The law of the tile edge, fitted: how intensity grows with T at each level, with a confidence interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ladder.experiments.intervals import Interval, exponent, proportion
from ladder.laws import c_stationary, sector_share, tile_product
from ladder.model import Level, Shape
from ladder.store import Run

__all__ = ["LEVELS", "Fit", "deviation", "edge_of", "family_of", "fits", "law_at_l1", "ragged"]

LEVELS: tuple[Level, ...] = ("l1", "l2", "dram")
"""Where the intensity is read: what warps touch, what leaves L1, what leaves L2."""

_SECTOR_FLOATS = 8
_GROWS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One kernel's intensity at one level against T.

    Attributes:
        kernel: the file's kernel: ``"tiled"`` or ``"tile_product"``.
        level: of the memory.
        n: the largest edge of the products.
        slope: of I = slope T, a line through the origin, since the law has no constant; FLOP/byte per element of T.
        exponent: of log I over log T: 1 where I grows with T, 0 where it does not depend on it.
        law: the slope that the law of this kernel gives at L1: 1/6 or 1/4.
        points: how many edges it is fitted to.
    """

    kernel: str
    level: Level
    n: int
    slope: Interval
    exponent: Interval
    law: float
    points: int

    @property
    def grows(self) -> bool:
        """Whether the intensity grows with T, so that a slope means something."""
        return self.exponent.value > _GROWS


def fits(runs: Sequence[Run]) -> tuple[Fit, ...]:
    """A fit for each kernel, size and level that has three edges or more.

    Only edges whose rows are whole 32-byte sectors take part (T a multiple of 8): below, memory moves whole sectors for
    parts of them, which is another law's doing. For a C that stays in registers its one store is divided out first, as
    the law has it: I (1 + T / 2K) at L1 and L2.
    """
    return tuple(_fits(runs))


def edge_of(run: Run) -> int:
    """T of a run of this experiment."""
    return (run.params or {})["T"]


def family_of(run: Run) -> str:
    """The kernel's name without its edge."""
    return run.rung.removesuffix(f"_{edge_of(run)}")


def law_at_l1(run: Run) -> float | None:
    """FLOP/byte that the law gives at L1, in whole sectors; None without a law."""
    predicted = run.law.predicted.get("l1") if run.law else None
    return None if predicted is None else predicted * sector_share(edge_of(run))


def deviation(run: Run) -> float | None:
    """Counted over predicted intensity at L1, less 1."""
    predicted, found = law_at_l1(run), run.intensity.get("l1")
    return found / predicted - 1 if predicted and found else None


def ragged(runs: Sequence[Run]) -> str:
    """Why sectors outnumber the law's elements at some shape; empty where rows begin on sector boundaries.

    A row of A is K floats long and one of B and C is N; eight of them are a sector.
    """
    sizes = {(axis, size) for run in runs for axis, size in (("N", run.shape.n), ("K", run.shape.k))}
    uneven = [f"{axis} = {size}" for axis, size in sorted(sizes) if size % _SECTOR_FLOATS]
    if not uneven:
        return ""
    return f"With {', '.join(uneven)} rows do not begin on 32-byte sectors, so L1 moves more than the law's elements."


def _fits(runs: Sequence[Run]) -> Iterator[Fit]:
    groups: dict[tuple[str, int], list[Run]] = {}
    for run in runs:
        if run.intensity and run.law is not None:
            groups.setdefault((family_of(run), _n(run.shape)), []).append(run)
    for (kernel, n), group in groups.items():
        for level in LEVELS:
            points = [
                (edge_of(run), found * _store(run, level))
                for run in group
                if (found := run.intensity.get(level)) and edge_of(run) % _SECTOR_FLOATS == 0
            ]
            if len(points) < 3:
                continue
            t, intensity = zip(*sorted(points), strict=True)
            stationary = group[0].law is not None and group[0].law.name == "c_stationary"
            yield Fit(
                kernel=kernel, level=level, n=n, slope=proportion(t, intensity), exponent=exponent(t, intensity),
                law=c_stationary(1) if stationary else tile_product(1), points=len(points),
            )  # fmt: skip


def _store(run: Run, level: Level) -> float:
    """What dividing out C's store multiplies the intensity with."""
    stationary = run.law is not None and run.law.name == "c_stationary"
    return 1 + edge_of(run) / (2 * run.shape.k) if stationary and level != "dram" else 1.0


def _n(shape: Shape) -> int:
    return max(shape.m, shape.n, shape.k)
