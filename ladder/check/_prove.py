"""Run a rung on known data and judge what it gave."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ladder.backends.base import Backend, Outcome
from ladder.check._inputs import EXACT_KINDS, SEED, DataKind, inputs
from ladder.errors import BackendError, KernelFaultError
from ladder.model import FP32_UNIT_ROUNDOFF, Check, Shape
from ladder.nvrtc import Compiled
from ladder.oracle import Known, compare, known

__all__ = ["Attempt", "attempt", "crc32_of", "prove"]

F32 = NDArray[np.float32]

_MOST_KEPT = 2**27


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One product and its judgement.

    Attributes:
        failure: what went wrong, in one line; None when C is right and nothing else was touched.
        worst_error_over_bound: see :class:`ladder.oracle.Verdict`; None when there is no C or the data is exact.
        c: what the backend gave, None when the launch failed.
        launch_failed: the backend raised :class:`BackendError`, after which a CUDA context may be of no more use.
    """

    failure: str | None
    worst_error_over_bound: float | None = None
    c: F32 | None = None
    launch_failed: bool = False


def attempt(
    backend: Backend,
    kernel: Compiled,
    shape: Shape,
    *,
    kind: DataKind,
    seed: int = SEED,
    offsets: tuple[int, int, int] = (0, 0, 0),
    seen: Callable[[Outcome], None] | None = None,
) -> Attempt:
    """Run ``kernel`` once on :func:`inputs` of ``kind`` and judge C.

    ``integers`` and ``identity`` data have to match exactly (``identity`` only if the rung's arithmetic is float32's),
    ``normal`` data has to satisfy both bounds, all other kinds the componentwise one. ``seen`` gets what the backend
    gave, with its traffic.

    Raises:
        ShapeError: the rung does not support the shape.
    """
    a, b, product = _data(shape, seed, kind)
    ran = _run(backend, kernel, a, b, offsets=offsets, seen=seen)
    if ran.c is None:
        return ran
    unit_roundoff = kernel.rung.unit_roundoff
    exact = kind == "integers" or (kind in EXACT_KINDS and unit_roundoff <= FP32_UNIT_ROUNDOFF)
    verdict = compare(ran.c, a, b, unit_roundoff=unit_roundoff, exact=exact, normal=kind == "normal", against=product)
    wrong = (ran.failure, None if verdict.passed else str(verdict))
    return replace(
        ran,
        failure="; ".join(text for text in wrong if text is not None) or None,
        worst_error_over_bound=verdict.worst_error_over_bound,
    )


@lru_cache(maxsize=2)
def _data(shape: Shape, seed: int, kind: DataKind) -> tuple[F32, F32, Known | None]:
    """A, B and what their product is held against, kept for the next rung: a proof needs two kinds of data.

    Without them most of a proof at 4096^3 is random numbers and products in float64. Of a C past 2^27 elements no
    product is kept.
    """
    a, b = inputs(shape, seed, kind)
    large = shape.m * shape.n > _MOST_KEPT
    return a, b, None if large else known(a, b, exact=kind == "integers")


def _run(
    backend: Backend,
    kernel: Compiled,
    a: F32,
    b: F32,
    *,
    offsets: tuple[int, int, int] = (0, 0, 0),
    seen: Callable[[Outcome], None] | None = None,
) -> Attempt:
    """C, not yet judged, and what was overwritten beside it."""
    try:
        outcome = backend.run(kernel, a, b, count=seen is not None, offsets=offsets)
    except KernelFaultError as error:
        return Attempt(failure=_one_line(error))
    except BackendError as error:
        return Attempt(failure=_one_line(error), launch_failed=True)
    if seen is not None:
        seen(outcome)
    return Attempt(failure=outcome.damage, c=outcome.c)


def prove(
    backend: Backend,
    kernel: Compiled,
    shape: Shape,
    *,
    seed: int = SEED,
    repeat: bool = True,
    seen: Callable[[Outcome], None] | None = None,
) -> Check:
    """Prove one rung at one shape.

    Integer data has to match exactly, then normal data within both bounds; nothing outside C may be written. A rung
    that does not add into C has to give the same bits again (``repeat``), unless it declares that it may not. Of an
    ordered one, C of the normal data gets a CRC32 that every other ordered rung, on any backend, has to share. The
    first thing that goes wrong ends the proof. ``seen`` gets the outcome on normal data, with its traffic where the
    backend counts, so that nobody need run again.

    Raises:
        ShapeError: the rung does not support the shape.
        InputError: K >= 2^24, where float32 has no exact sums of integers.
    """
    integers = attempt(backend, kernel, shape, kind="integers", seed=seed)
    if integers.failure is not None:
        return _failed(f"{shape} (integers): {integers.failure}", exact_integers=False)
    normal = attempt(backend, kernel, shape, kind="normal", seed=seed, seen=seen)
    worst = normal.worst_error_over_bound
    if normal.failure is not None or normal.c is None:
        return _failed(f"{shape} (normal): {normal.failure}", exact_integers=True, worst=worst)
    if repeat and kernel.rung.repeats:
        a, b, _ = _data(shape, seed, "normal")
        again = _run(backend, kernel, a, b)
        if again.failure is not None or again.c is None:
            return _failed(f"{shape} (normal, second run): {again.failure}", exact_integers=True, worst=worst)
        difference = _first_difference(normal.c, again.c)
        if difference is not None:
            return _failed(f"{shape} (normal): {difference}", exact_integers=True, worst=worst)
    crc32 = crc32_of(normal.c) if kernel.rung.ordered else None
    return Check(passed=True, exact_integers=True, worst_error_over_bound=worst, crc32=crc32)


def crc32_of(c: F32) -> int:
    """CRC32 of C's bits: float32, little-endian, row-major."""
    return zlib.crc32(np.ascontiguousarray(c, dtype="<f4").tobytes())


def _first_difference(one: F32, two: F32) -> str | None:
    """Where two runs differ in bits, in one line."""
    differs = np.ascontiguousarray(one).view(np.uint32) != np.ascontiguousarray(two).view(np.uint32)
    if not differs.any():
        return None
    row, col = (int(i) for i in np.argwhere(differs)[0])
    return (
        f"C[row {row}, column {col}]: got {one[row, col]:.9g}, then {two[row, col]:.9g} on the same data "
        f"({int(differs.sum())} of {one.size} elements differ): the sum has no fixed order, or threads race"
    )


def _failed(failure: str, *, exact_integers: bool, worst: float | None = None) -> Check:
    # Results are JSON, which has no infinity.
    finite = worst if worst is not None and math.isfinite(worst) else None
    return Check(passed=False, exact_integers=exact_integers, worst_error_over_bound=finite, failure=failure)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
