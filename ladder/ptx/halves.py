"""Half-precision formats: .f16 and .bf16 as 16-bit patterns, .tf32 as a float32 with 10 bits of fraction.

Everything is exact up to the one rounding that the instruction names. A NaN result is the format's canonical quiet NaN
(PTX ISA, ``cvt`` and the half-precision floating point instructions). A packed ``.f16x2`` holds its first element in
the low half.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["add", "decode", "encode", "fma", "high", "low", "mul", "pack2", "sub", "to_tf32"]

Array = NDArray[Any]
Bits = NDArray[np.uint16]

_NAN16 = np.uint16(0x7FFF)
_NAN32 = np.uint32(0x7FFFFFFF)
_TF32_DROPPED = np.uint32(0x1FFF)


@dataclass(frozen=True, slots=True)
class _Format:
    """``precision`` significand bits, the hidden one included; ``least`` is the exponent of the smallest normal."""

    precision: int
    least: int
    largest: float


_FORMATS = {
    "f16": _Format(precision=11, least=-14, largest=65504.0),
    "bf16": _Format(precision=8, least=-126, largest=float.fromhex("0x1.fep127")),
}


def decode(bits: Bits, kind: str) -> NDArray[np.float32]:
    """The float32 that equals each half; exact."""
    if kind == "f16":
        return bits.view(np.float16).astype(np.float32)
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def widen(bits: Bits, kind: str) -> NDArray[np.float32]:
    """``cvt.f32.f16`` and ``cvt.f32.bf16``: :func:`decode` with a canonical NaN."""
    value = decode(bits, kind)
    return np.where(np.isnan(value), _NAN32.view(np.float32), value)


def encode(x: Array, kind: str, rounding: str = "rn") -> Bits:
    """Round floats to 16-bit patterns.

    Args:
        x: float32 or float64; a float64 must be exact or rounded to odd.
        kind: ``"f16"`` or ``"bf16"``.
        rounding: ``"rn"``, to nearest even, or ``"rz"``, toward zero.
    """
    form = _FORMATS[kind]
    wide = x.astype(np.float64)
    nan = np.isnan(wide)
    _, exponent = np.frexp(np.where(np.isfinite(wide), wide, 0.0))
    # frexp's mantissa lies in [0.5, 1): the leading bit has weight exponent - 1.
    step = np.maximum(exponent - 1, form.least) - (form.precision - 1)
    steps = np.ldexp(wide, -step)
    rounded = np.ldexp(np.rint(steps) if rounding == "rn" else np.trunc(steps), step)
    if rounding == "rz":
        rounded = np.where(np.isinf(wide), wide, np.clip(rounded, -form.largest, form.largest))
    with np.errstate(over="ignore", invalid="ignore"):
        if kind == "f16":
            bits = rounded.astype(np.float16).view(np.uint16)
        else:
            bits = (rounded.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return np.where(nan, _NAN16, bits)


def to_tf32(x: NDArray[np.float32], rounding: str) -> NDArray[np.uint32]:
    """``cvt.*.tf32.f32``: the bits of a float32 whose 13 low bits are zero; ``rna`` breaks ties away from zero."""
    bits = x.view(np.uint32)
    if rounding == "rna":
        bits = bits + np.uint32(0x1000)
    elif rounding == "rn":
        bits = bits + np.uint32(0x0FFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    return np.where(np.isnan(x), _NAN32, bits & ~_TF32_DROPPED)


def low(pair: NDArray[np.uint32]) -> Bits:
    """The first element of a packed pair."""
    return pair.astype(np.uint16)


def high(pair: NDArray[np.uint32]) -> Bits:
    """The second element of a packed pair."""
    return (pair >> np.uint32(16)).astype(np.uint16)


def pack2(first: Bits, second: Bits) -> NDArray[np.uint32]:
    """A packed pair, ``first`` in the low half."""
    return first.astype(np.uint32) | (second.astype(np.uint32) << np.uint32(16))


def add(a: Bits, b: Bits, kind: str) -> Bits:
    """A + b. Float64 has more than 2 p + 2 bits of either format, so rounding twice is rounding once."""
    return encode(_f64(a, kind) + _f64(b, kind), kind)


def sub(a: Bits, b: Bits, kind: str) -> Bits:
    """A - b."""
    return encode(_f64(a, kind) - _f64(b, kind), kind)


def mul(a: Bits, b: Bits, kind: str) -> Bits:
    """A * b; the product is exact in float64."""
    return encode(_f64(a, kind) * _f64(b, kind), kind)


def fma(a: Bits, b: Bits, c: Bits, kind: str) -> Bits:
    """A * b + c with one rounding: the exact sum is rounded to odd in float64 first (Boldo and Melquiond, 2008)."""
    product, addend = _f64(a, kind) * _f64(b, kind), _f64(c, kind)
    total = product + addend
    virtual = total - product
    error = (product - (total - virtual)) + (addend - virtual)
    bits = total.view(np.int64)
    inexact_even = np.isfinite(total) & (error != 0) & ((bits & 1) == 0)
    # An even result moves one step towards the true sum, which makes its last bit odd.
    step = np.where((error > 0) == (total > 0), 1, -1)
    return encode(np.where(inexact_even, bits + step, bits).view(np.float64), kind)


def _f64(bits: Bits, kind: str) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        return decode(bits, kind).astype(np.float64)
