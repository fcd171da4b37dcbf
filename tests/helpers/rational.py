"""Correct rounding of exact rationals to IEEE binary32 and binary64, slowly."""

from __future__ import annotations

import struct
from fractions import Fraction

__all__ = ["NAN32", "f32", "f64", "finite", "nan32", "round_to"]

NAN32 = 0x7FFFFFFF
"""The GPU's canonical NaN."""

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
