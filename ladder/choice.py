"""Which rung multiplies: the fastest one of a precision that a recorded card knows near the shape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import get_args

from ladder import catalog
from ladder.climb import why_skipped
from ladder.errors import CatalogError, InputError, ShapeError
from ladder.model import Device, Precision, Rung, Shape
from ladder.rates import Rate, Rates, load_rates, nearest_card
from ladder.shapes import distance, shape_class

__all__ = ["ALIGNED_BYTES", "Choice", "pick"]

ALIGNED_BYTES = 256
"""What allocators of GPU memory align to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The rung that was chosen, with the parameters it will run with, and why, in words."""

    rung: Rung
    reason: str

    def __str__(self) -> str:
        return f"{self.rung.name}: {self.reason}"


def pick(
    shape: Shape,
    precision: Precision,
    device: Device,
    *,
    address_bytes: int = ALIGNED_BYTES,
    rungs: Sequence[Rung] | None = None,
    tables: Sequence[Rates] | None = None,
) -> Choice:
    """The rung of ``precision`` for a product of ``shape`` on ``device``.

    On a GPU: of those that the device, the shape and the addresses allow, the fastest at the nearest recorded shape at
    which any of them is recorded (:func:`ladder.shapes.distance`), with the parameters tuned for the class of
    ``shape`` on this very card if its code is still the one that was tuned. A card without a record goes by the one
    most like it; without any, the last rung of the ladder is taken.

    In the emulator: the last rung that asks for the oldest GPU, one that adds in k order if there is one. It runs
    wherever that precision can, to the same bits.

    Args:
        shape: M, N, K.
        precision: what the product is worth.
        device: where it runs.
        address_bytes: a power of two that the addresses of A, B and C are multiples of.
        rungs: to choose from; by default the catalogue, which is read once a process.
        tables: recorded cards; by default the packaged ones.

    Raises:
        InputError: no such precision.
        ShapeError: no rung of that precision can do it; the message says why each cannot.
    """
    if precision not in get_args(Precision):
        raise InputError(f"no precision is called {precision!r}; there are {', '.join(get_args(Precision))}")
    of_it = [r for r in (_catalogue() if rungs is None else rungs) if r.kind == "rung" and r.precision == precision]
    reasons = {rung.name: _why_not(rung, shape, device, address_bytes) for rung in of_it}
    able = [rung for rung in of_it if reasons[rung.name] is None]
    if not able:
        told = "; ".join(f"{name}: {why}" for name, why in reasons.items()) or "the catalogue has none"
        raise ShapeError(f"no {precision} rung multiplies {shape} on {device.name}: {told}")
    if device.backend == "emulated":
        rung = max(able, key=lambda r: (-r.min_cc, r.ordered, r.number))
        return Choice(rung=rung, reason=f"emulated: the last {precision} rung that asks for the oldest GPU")
    table = nearest_card(load_rates() if tables is None else tables, device)
    found = None if table is None else _fastest(able, shape, device, table)
    if table is None or found is None:
        rung = max(able, key=lambda r: r.number)
        return Choice(rung=rung, reason=f"the last {precision} rung of the ladder, since no record knows one")
    rung, row = found
    reason = f"the fastest {precision} rung recorded on {table.card} at {row.shape}"
    reason += "" if row.shape == shape else ", the nearest recorded shape"
    reason += f" ({row.flop_per_s / 1e12:.3g} TFLOP/s)"
    if table.card != device.name:
        return Choice(rung=rung, reason=f"{reason}; {device.name} has no record of its own")
    return _with_tuned_params(rung, (shape, row.shape), table, reason)


@lru_cache(maxsize=1)
def _catalogue() -> tuple[Rung, ...]:
    return catalog.load_catalog()


def _why_not(rung: Rung, shape: Shape, device: Device, address_bytes: int) -> str | None:
    if address_bytes % rung.align_bytes:
        return f"needs A, B and C at multiples of {rung.align_bytes} bytes, and one is at a multiple of {address_bytes}"
    return why_skipped(rung, shape, device)


def _fastest(able: Sequence[Rung], shape: Shape, device: Device, table: Rates) -> tuple[Rung, Rate] | None:
    """The best of ``able`` at the nearest shape that has a row of any of them, and that row."""
    by_name = {rung.name: rung for rung in able}
    rows = [row for row in table.rows if row.rung in by_name]
    if not rows:
        return None

    def order(row: Rate) -> tuple[tuple[bool, float, float], str, float]:
        return distance(row.shape, table.sm_count, shape, device.sm_count), str(row.shape), -row.flop_per_s

    best = min(rows, key=order)
    return by_name[best.rung], best


def _with_tuned_params(rung: Rung, shapes: Iterable[Shape], table: Rates, reason: str) -> Choice:
    """``rung`` with the parameters tuned for the class of the first of ``shapes`` that has some."""
    for shape in shapes:
        kind = shape_class(shape, table.sm_count)
        entry = table.tuned_for(rung.name, kind)
        if entry is None or entry.code_sha256 != catalog.code_sha256(rung):
            continue
        try:
            tuned = catalog.with_params(rung, entry.params)
        except (CatalogError, InputError):  # the declaration no longer has these parameters
            continue
        values = ", ".join(f"{name}={value}" for name, value in entry.params.items())
        return Choice(rung=tuned, reason=f"{reason}, with {values} as tuned for {kind}")
    return Choice(rung=rung, reason=reason)
