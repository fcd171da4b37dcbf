"""Products judged in float64 on the GPU itself, through torch: what the CPU would take seconds for at 4096 and beyond.

The rules are those of ``ladder.oracle``: exact integers, then normal data within both bounds, nothing unwritten, no
write beside C or into A and B, and the same bits again where the sum has a fixed order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ladder.check import crc32_of, inputs
from ladder.model import Check, Shape
from ladder.oracle import POISON_BITS, gamma

__all__ = ["GpuOracle", "Multiply"]

Multiply = Callable[[Any, Any, Any], None]
"""``multiply(a, b, out)``: out = a @ b, all of them torch's float32 matrices on the GPU."""

GUARD_WORDS = 1024
CANARY_BITS = 0x7FCA7CA7
SMALLEST_SUBNORMAL = 2.0**-149


@dataclass(frozen=True, slots=True, kw_only=True)
class _Data:
    """A and B on the GPU with their product in float64, and |A||B| where it is needed."""

    kind: str
    a: Any
    b: Any
    expected: Any
    magnitude: Any


class GpuOracle:
    """Judges products of one shape; the references are made once, on the same data as ``ladder.check`` uses.

    Args:
        torch: the module.
        shape: M, N and K, 1 or more each.
        device: torch's name of where the matrices are.
    """

    def __init__(self, torch: Any, shape: Shape, *, device: str = "cuda") -> None:
        self.torch, self.shape, self.device = torch, shape, device
        self._integers = self._data("integers")
        self._normal = self._data("normal")

    def _data(self, kind: Any) -> _Data:
        a, b = (self.torch.from_numpy(array).to(self.device) for array in inputs(self.shape, kind=kind))
        wide_a, wide_b = a.double(), b.double()
        magnitude = wide_a.abs() @ wide_b.abs() if kind == "normal" else None
        return _Data(kind=kind, a=a, b=b, expected=wide_a @ wide_b, magnitude=magnitude)

    def prove(self, multiply: Multiply, *, unit_roundoff: float, ordered: bool) -> Check:
        """Run ``multiply`` on integers and on normal data, and judge; an ``ordered`` one twice.

        Args:
            multiply: what is judged.
            unit_roundoff: u of its arithmetic.
            ordered: the sum has a fixed order, so that C has a checksum.
        """
        _, failure, _ = self._attempt(multiply, self._integers, unit_roundoff)
        if failure is not None:
            return Check(passed=False, exact_integers=False, worst_error_over_bound=None, failure=failure)
        c, failure, worst = self._attempt(multiply, self._normal, unit_roundoff)
        if failure is None and ordered:
            again, failure, _ = self._attempt(multiply, self._normal, unit_roundoff)
            if failure is None and not self.torch.equal(self._bits(c), self._bits(again)):
                failure = (
                    f"{self.shape} (normal): other bits in a second run: the sum has no fixed order, or threads race"
                )
        if failure is not None:
            return Check(passed=False, exact_integers=True, worst_error_over_bound=worst, failure=failure)
        crc32 = crc32_of(c.cpu().numpy()) if ordered else None
        return Check(passed=True, exact_integers=True, worst_error_over_bound=worst, crc32=crc32)

    def _attempt(self, multiply: Multiply, data: _Data, unit_roundoff: float) -> tuple[Any, str | None, float | None]:
        """C, what is wrong with it, and the largest error over the bound."""
        m, n, k = self.shape.m, self.shape.n, self.shape.k
        guarded = self.torch.full((2 * GUARD_WORDS + m * n,), CANARY_BITS, dtype=self.torch.int32, device=self.device)
        inside = guarded[GUARD_WORDS : GUARD_WORDS + m * n]
        inside.fill_(POISON_BITS)
        c = inside.view(self.torch.float32).view(m, n)
        before = [self._bits(operand).clone() for operand in (data.a, data.b)]
        multiply(data.a, data.b, c)
        where = f"{self.shape} ({data.kind})"
        for name, words in (("before", guarded[:GUARD_WORDS]), ("past the end of", guarded[GUARD_WORDS + m * n :])):
            if bool((words != CANARY_BITS).any()):
                return c, f"{where}: wrote {name} C", None
        for name, operand, old in zip("AB", (data.a, data.b), before, strict=True):
            if not self.torch.equal(self._bits(operand), old):
                self._bits(operand).copy_(old)  # the next product is judged on the same data
                return c, f"{where}: changed its input {name}", None
        unwritten = self._bits(c) == POISON_BITS
        if bool(unwritten.any()):
            return c, f"{where}: {self._first(unwritten, c, data)}: the element was never written", None
        error = (c.double() - data.expected).abs()
        if data.magnitude is None:
            wrong = ~(error == 0)
            told = "integers must match exactly"
        else:
            allowed = data.magnitude * _factor(k, unit_roundoff) + k * SMALLEST_SUBNORMAL
            wrong = ~(error <= allowed)  # so that a NaN is wrong
            told = "error over the bound"
        if bool(wrong.any()):
            return c, f"{where}: {self._first(wrong, c, data)}: {told}", None
        worst = None if data.magnitude is None else float((error / allowed).max())
        return c, None, worst

    def _bits(self, array: Any) -> Any:
        return array.view(self.torch.int32)

    def _first(self, wrong: Any, c: Any, data: _Data) -> str:
        row, col = divmod(int(wrong.reshape(-1).to(self.torch.uint8).argmax()), self.shape.n)
        got, expected = float(c[row, col]), float(data.expected[row, col])
        count = int(wrong.sum())
        return f"C[row {row}, column {col}]: got {got:.9g}, expected {expected:.9g} ({count} elements wrong)"


def _factor(k: int, u: float) -> float:
    """The stricter of the bound of any data and that of normal data, over |A||B|; see ``ladder.oracle``."""
    loosest = gamma(k, u) if k * u < 1 else k * u
    return min(loosest, 4 * math.sqrt(k) * u)
