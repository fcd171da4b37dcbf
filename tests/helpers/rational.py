"""Correct rounding of exact rationals to IEEE binary32 and binary64, slowly."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

__all__ = ["NAN32", "NAN64", "f32", "f64", "finite", "nan32", "narrow", "round_to", "widen"]

NAN32 = 0x7FFFFFFF
"""The GPU's canonical NaN."""

NAN64 = 0x7FF8 << 48
"""A NaN of binary64, whose payload is the machine's choice."""

_FORMATS = {32: (24, -149, 128, "<f", "<I"), 64: (53, -1074, 1024, "<d", "<Q")}


def f32(bits: int) -> float:
    """The float32 of 32 bits."""
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def f64(bits: int) -> float:
    """The float64 of 64 bits."""
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])


def finite(bits: int, width: int = 32) -> bool:
    """Neither infinite nor NaN."""
    shift, mask = (23, 0xFF) if width == 32 else (52, 0x7FF)
    return bits >> shift & mask != mask


def nan32(bits: int) -> bool:
    """A NaN of binary32."""
    return not finite(bits) and bits & 0x7FFFFF != 0


def round_to(value: Fraction, width: int = 32, *, negative_zero: bool = False) -> int:
    """The bits of ``value`` rounded to nearest, ties to even; ``negative_zero`` is the sign of an exact zero."""
    precision, lowest, top, floating, integer = _FORMATS[width]
    if value == 0:
        return negative_zero << (width - 1)
    sign = value < 0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    step = Fraction(2) ** max(exponent - precision + 1, lowest)
    # Python rounds a Fraction half to even.
    rounded = round(size / step) * step
    if rounded >= Fraction(2) ** top:
        bits = int(struct.unpack(integer, struct.pack(floating, float("inf")))[0])
    else:
        bits = int(struct.unpack(integer, struct.pack(floating, float(rounded)))[0])
    return bits | sign << (width - 1)


def widen(a: int) -> int:
    """binary32 -> binary64."""
    if not finite(a):
        return NAN64 if nan32(a) else a >> 31 << 63 | 0x7FF << 52
    return round_to(Fraction(f32(a)), 64, negative_zero=a >> 31 == 1)


def narrow(a: int) -> int:
    """binary64 -> binary32."""
    if not finite(a, 64):
        return NAN32 if math.isnan(f64(a)) else a >> 63 << 31 | 0xFF << 23
    return round_to(Fraction(f64(a)), negative_zero=a >> 63 == 1)
