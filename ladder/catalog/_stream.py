"""What a stream kernel is: its arrays, sizes and work at any ``n``, and what it computes in float64."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ladder.catalog import _formula
from ladder.catalog._expression import evaluate
from ladder.errors import InputError
from ladder.model import Rung

__all__ = ["Argument", "Stream", "reference", "roundings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of the kernel, as its signature has it."""

    name: str
    kind: Literal["input", "output", "size", "scalar"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One stream kernel at any size ``n``.

    Attributes:
        name: the file's name without its ending.
        params: template arguments in template order.
        block: threads (x, y, z).
        grid: (numerator, denominator) along x, y and z: that many threadblocks, rounded up.
        multiple: what ``n`` must be a multiple of.
        arguments: in the kernel's order.
        elements: float32 elements of each array.
        scalars: values of the float arguments.
        target: the array that the kernel computes, and ``formula`` what of.
        zeroed: the target holds zeros before the launch, and the kernel adds to it.
        flop, asked_bytes, l1_bytes: work, what lanes ask for, and whole sectors of it, as arithmetic.
        source: the file's whole text; ``path`` where it came from.
    """

    name: str
    title: str
    kernel: str
    params: Mapping[str, int]
    block: tuple[int, int, int]
    grid: tuple[tuple[str, str], ...]
    multiple: int
    arguments: tuple[Argument, ...]
    elements: Mapping[str, str]
    scalars: Mapping[str, float]
    target: str
    formula: str
    zeroed: bool
    flop: str
    asked_bytes: str
    l1_bytes: str
    path: Path
    source: str
    prose: str = ""

    def __post_init__(self) -> None:
        for name in ("params", "elements", "scalars"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def grid_at(self, n: int) -> tuple[int, int, int]:
        """Threadblocks along x, y and z.

        Raises:
            InputError: ``n`` is no size for this kernel.
        """
        if n < 1 or n % self.multiple:
            raise InputError(f"{self.name} takes n >= 1 and n % {self.multiple} == 0; got {n}: round it up")
        known = {**self.params, "n": n}
        sides = [-(-evaluate(above, known) // evaluate(below, known)) for above, below in self.grid]
        x, y, z = (*sides, 1, 1)[:3]
        return x, y, z

    def at(self, text: str, n: int) -> int:
        """The value of ``text`` at size ``n``: one of the declared expressions, which may speak of ``blocks`` too.

        Raises:
            InputError: ``n`` is no size for this kernel.
        """
        return evaluate(text, {**self.params, "n": n, "blocks": math.prod(self.grid_at(n))})

    def sizes(self, n: int) -> dict[str, int]:
        """Elements of each array, in the order of the arguments.

        Raises:
            InputError: ``n`` is no size for this kernel.
        """
        return {name: self.at(self.elements[name], n) for name in self.arrays}

    @property
    def arrays(self) -> tuple[str, ...]:
        """Names of the arrays, in the order of the arguments."""
        return tuple(argument.name for argument in self.arguments if argument.kind in ("input", "output"))

    @property
    def reads_target(self) -> bool:
        """Whether what the target held before matters to the result."""
        return self.target in _formula.names(self.formula)

    def largest(self, footprint_bytes: int) -> int:
        """The largest ``n`` so that all arrays fit ``footprint_bytes``: 4, 5, 6 or 7 times a power of two, at most.

        It is ``multiple`` where not even that fits.
        """

        def fits(n: int) -> bool:
            return 4 * sum(self.sizes(n).values()) <= footprint_bytes

        n = self.multiple
        while fits(2 * n):
            n *= 2
        quarter = n // 4
        steps = [n + more * quarter for more in (3, 2, 1)] if quarter % self.multiple == 0 and quarter else []
        return next((each for each in steps if fits(each)), n)

    @property
    def rung(self) -> Rung:
        """The kernel as :func:`ladder.nvrtc.compile_rung` takes it; its tile means nothing."""
        return Rung(
            name=self.name, number=0, kind="law", title=self.title, kernel=self.kernel, params=self.params, tile=(1, 1),
            block=self.block, path=self.path, source=self.source, prose=self.prose,
        )  # fmt: skip


def reference(stream: Stream, arrays: Mapping[str, NDArray[Any]], *, absolute: bool = False) -> NDArray[np.float64]:
    """What the kernel computes of ``arrays``, in float64; with ``absolute`` every difference is a sum.

    Raises:
        ValueError: an array of the formula is missing.
    """
    values: dict[str, _formula.Value] = {name: np.asarray(array, np.float64) for name, array in arrays.items()}
    values |= {name: abs(value) if absolute else value for name, value in stream.scalars.items()}
    formula = stream.formula.replace("-", "+") if absolute else stream.formula
    return np.asarray(_formula.evaluate(formula, values), np.float64)


def roundings(stream: Stream, terms: int) -> int:
    """The most float32 roundings that one element of the target has seen, in a sum of ``terms``."""
    return _formula.roundings(stream.formula, terms)
