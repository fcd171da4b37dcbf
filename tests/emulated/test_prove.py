"""Every rung of the catalogue is right on the emulator, at every architecture, and ordered ones agree bit for bit."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from helpers.kernels import RUNGS, compiled, emulator

from ladder.check import inputs, prove, search
from ladder.check._prove import crc32_of
from ladder.model import Rung, Shape
from ladder.ptx import Order

SHAPES = [
    Shape.parse(text)
    for text in ("35x79x19", "3x3x431", "129x70x33", "64x64x64", "1x1x1", "1x300x2", "5x7x0", "0x7x5", "5x0x7", "0x0x0")
]
ORDERED = [rung for rung in RUNGS if rung.ordered]

each_rung = pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)


def supported(rung: Rung, shape: Shape) -> Shape:
    """``shape`` padded to what the rung needs."""
    m, n, k = (-(-side // step) * step for side, step in zip((shape.m, shape.n, shape.k), rung.multiple, strict=True))
    return Shape(m=m, n=n, k=k)


def fma(a: float, b: float, c: float) -> float:
    """a * b + c rounded once to float32: to odd in float64, which keeps the second rounding honest."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    near = float(exact)
    if Fraction(near) != exact and not np.float64(near).view(np.uint64) & 1:
        near = float(np.nextafter(near, np.inf if exact > Fraction(near) else -np.inf))
    return float(np.float32(near))


def exact_chain(shape: Shape) -> np.ndarray:
    """C as one chain of fused multiply-adds in k order, in exact arithmetic."""
    a, b = inputs(shape)
    c = np.zeros((shape.m, shape.n), np.float32)
    for row in range(shape.m):
        for col in range(shape.n):
            acc = 0.0
            for k in range(shape.k):
                acc = fma(float(a[row, k]), float(b[k, col]), acc)
            c[row, col] = acc
    return c


@each_rung
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_rung_is_proved(rung: Rung, shape: Shape) -> None:
    check = prove(emulator(), compiled(rung), supported(rung, shape))
    assert check.passed, check.failure
    assert check.exact_integers
    assert (check.crc32 is not None) == rung.ordered


@pytest.mark.parametrize(("profile", "arch"), [("t4", "sm_75"), ("a100", "sm_80"), ("h200", "sm_90")])
@each_rung
def test_every_rung_is_proved_at_every_architecture(rung: Rung, profile: str, arch: str) -> None:
    if rung.min_cc > int(arch.removeprefix("sm_")):
        assert rung.min_cc > 75
        return
    check = prove(emulator(profile), compiled(rung, arch), supported(rung, Shape(m=33, n=50, k=21)))
    assert check.passed, check.failure


@pytest.mark.parametrize(
    ("shape", "orders"),
    [(Shape(m=35, n=79, k=19), ("lockstep", "warp_serial")), (Shape(m=130, n=67, k=40), ("lockstep",))],
    ids=str,
)
def test_ordered_rungs_agree_bit_for_bit_in_any_schedule(shape: Shape, orders: tuple[Order, ...]) -> None:
    rungs = [rung for rung in ORDERED if rung.supports(shape) is None]
    crcs = {
        (rung.name, order): prove(emulator(order=order), compiled(rung), shape, repeat=False).crc32
        for rung in rungs
        for order in orders
    }
    assert len(rungs) >= 9
    assert len(set(crcs.values())) == 1, crcs
    assert None not in crcs.values()


@pytest.mark.parametrize("rung", ORDERED, ids=lambda rung: rung.name)
def test_ordered_rungs_round_once_a_step(rung: Rung) -> None:
    shape = supported(rung, Shape(m=5, n=4, k=67))
    assert prove(emulator(), compiled(rung), shape, repeat=False).crc32 == crc32_of(exact_chain(shape))


@each_rung
def test_no_shape_is_found_that_breaks_a_rung(rung: Rung) -> None:
    found = search(emulator(), compiled(rung), max_examples=20)
    assert found is None, found
