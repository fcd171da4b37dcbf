"""Arithmetic that numpy lacks or does differently from a GPU. Arrays in, arrays out; shapes broadcast.

Integers live as unsigned arrays and wrap. Floats follow IEEE 754 round to nearest even; a NaN result is the GPU's
canonical quiet NaN, 0x7fffffff (PTX ISA, section 8.4, "Floating Point Instructions").
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "add32",
    "bfe",
    "bfi",
    "canonical",
    "div_signed",
    "float_to_int",
    "fma32",
    "mul32",
    "prmt",
    "rem_signed",
    "shf",
    "shl",
    "shr",
    "sub32",
]

Array = NDArray[Any]

_NAN32 = np.uint32(0x7FFFFFFF).view(np.float32)
_TINY32 = 2.0**-126
_LOW_HALF = np.uint64(0x1FFFFFFF)
_MIDPOINT = np.uint64(0x10000000)
_ONE = np.uint64(1)


def fma32(a: Array, b: Array, c: Array) -> Array:
    """A * b + c in float32 with a single rounding.

    The product of two float32 is exact in float64. The float64 sum rounds once, the cast a second time: the two
    roundings differ from one only when the float64 sum sits on a midpoint between two float32 (its low 29 bits are
    1 followed by zeros) or is subnormal in float32, where midpoints lie elsewhere. Those lanes are redone exactly.
    """
    total = np.multiply(a, b, dtype=np.float64)
    total = np.add(total, c, out=total if np.broadcast_shapes(total.shape, c.shape) == total.shape else None)
    out: Array = total.astype(np.float32)
    smallest = np.abs(total).min(initial=np.inf)
    if smallest >= _TINY32:
        low = np.bitwise_and(total.view(np.uint64), _LOW_HALF)
        if not (low == _MIDPOINT).any():
            return out if np.isfinite(out.max(initial=0.0)) else canonical(out)
    return _repair(a, b, c, total, out)


def _repair(a: Array, b: Array, c: Array, total: Array, out: Array) -> Array:
    magnitude = np.abs(total)
    doubtful = (np.bitwise_and(total.view(np.uint64), _LOW_HALF) == _MIDPOINT) | (
        (magnitude < _TINY32) & (magnitude > 0)
    )
    doubtful &= np.isfinite(total)
    if doubtful.any():
        a, b, c = (np.broadcast_to(x, total.shape)[doubtful].astype(np.float64) for x in (a, b, c))
        out[doubtful] = _fma_to_odd(a, b, c)
    return canonical(out)


def _fma_to_odd(a: Array, b: Array, c: Array) -> Array:
    """Round a * b + c to odd in float64, then to float32: 53 >= 2 * 24 + 2 bits, so only the second rounding counts.

    Source: Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to
    odd", IEEE Trans. Computers 57(4), 2008.
    """
    product = a * b
    total = product + c
    # TwoSum (Knuth): total + error is the exact sum. Neither term can overflow or lose bits in float64.
    virtual = total - product
    error = (product - (total - virtual)) + (c - virtual)
    bits = total.view(np.uint64).copy()
    inexact_even = (error != 0) & ((bits & _ONE) == 0)
    # An even result moves one step towards the true sum, which makes its last bit odd.
    away = (error > 0) == (total > 0)
    bits[inexact_even & away] += _ONE
    bits[inexact_even & ~away] -= _ONE
    return bits.view(np.float64).astype(np.float32)


def fma32_exact(a: float, b: float, c: float) -> Fraction:
    """The exact a * b + c of three finite floats, for tests."""
    return Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))


def canonical(x: Array) -> Array:
    """``x`` with every NaN replaced by 0x7fffffff; float64 keeps its NaN payloads, as on the GPU."""
    if x.dtype == np.float32:
        nan = np.isnan(x)
        if nan.any():
            return np.where(nan, _NAN32, x)
    return x


def lesser(a: Array, b: Array) -> Array:
    """The smaller float, -0 below +0; a number wins over a NaN (PTX ISA, ``min``)."""
    # Equal numbers have equal bits, but for the signs of zeros.
    return _number_of(a, b, np.where(a == b, _bitwise(np.bitwise_or, a, b), np.minimum(a, b)))


def greater(a: Array, b: Array) -> Array:
    """The larger float, +0 above -0; a number wins over a NaN (PTX ISA, ``max``)."""
    return _number_of(a, b, np.where(a == b, _bitwise(np.bitwise_and, a, b), np.maximum(a, b)))


def _bitwise(function: np.ufunc, a: Array, b: Array) -> Array:
    bits = np.dtype(f"u{a.dtype.itemsize}")
    combined: Array = function(a.view(bits), b.view(bits)).view(a.dtype)
    return combined


def _number_of(a: Array, b: Array, otherwise: Array) -> Array:
    # numpy's fmin and fmax would let a signalling NaN win.
    return canonical(np.where(np.isnan(a), b, np.where(np.isnan(b), a, otherwise)))


def add32(a: Array, b: Array) -> Array:
    """A + b in float32."""
    return canonical(a + b)


def sub32(a: Array, b: Array) -> Array:
    """A - b in float32."""
    return canonical(a - b)


def mul32(a: Array, b: Array) -> Array:
    """A * b in float32."""
    return canonical(a * b)


def unordered(a: Array, b: Array) -> Array:
    """Where either side is NaN."""
    either: Array = np.isnan(a) | np.isnan(b)
    return either


def extend(a: Array, dtype: Any) -> Array:
    """Widen or narrow an integer array: zeros for unsigned sources, the sign for signed ones."""
    wanted = np.dtype(dtype)
    signed = np.dtype(f"{a.dtype.kind}{wanted.itemsize}")
    widened: Array = a.astype(signed).view(wanted)
    return widened


def pack(items: list[Array], dtype: Any) -> Array:
    """Concatenate equal parts into one word, the first one lowest (``mov.b64 d, {a, b}``)."""
    bits = items[0].dtype.itemsize * 8
    out = np.zeros((), dtype)
    for position, item in enumerate(items):
        out = out | (item.astype(dtype) << np.array(bits * position, dtype))
    return out


def unpack(a: Array, position: int, dtype: Any) -> Array:
    """Part ``position`` of a word (``mov.b64 {a, b}, d``)."""
    bits = np.dtype(dtype).itemsize * 8
    part: Array = (a >> np.array(bits * position, a.dtype)).astype(dtype)
    return part


def mul_high(a: Array, b: Array) -> Array:
    """The upper half of the full product."""
    if a.dtype.itemsize < 8:
        wide = np.dtype(f"{a.dtype.kind}{2 * a.dtype.itemsize}")
        upper: Array = ((a.astype(wide) * b.astype(wide)) >> np.array(8 * a.dtype.itemsize, wide)).astype(a.dtype)
        return upper
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x, y = a.view(np.uint64), b.view(np.uint64)
    low = (x & mask) * (y & mask)
    cross = (x >> half) * (y & mask) + (low >> half)
    other = (x & mask) * (y >> half) + (cross & mask)
    high = (x >> half) * (y >> half) + (cross >> half) + (other >> half)
    if a.dtype.kind == "i":
        # Two's complement: a negative factor stands for itself + 2^64.
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    product: Array = high.view(a.dtype)
    return product


def popc(a: Array) -> Array:
    """Number of ones."""
    return np.bitwise_count(a).astype(np.uint32)


def clz(a: Array) -> Array:
    """Leading zeros; the full width for 0."""
    width = a.dtype.itemsize * 8
    for shift in (1, 2, 4, 8, 16, 32):
        if shift < width:
            a = a | (a >> np.array(shift, a.dtype))
    return (width - np.bitwise_count(a)).astype(np.uint32)


def bfind(a: Array, *, shift: bool) -> Array:
    """Position of the leading one, of the leading bit unlike the sign for signed arrays; all ones if there is none.

    ``shift`` asks for the left shift that would bring it to the top instead (PTX ISA, ``bfind``).
    """
    unsigned = a.view(np.dtype(f"u{a.dtype.itemsize}"))
    zeros = clz(np.where(a < 0, ~unsigned, unsigned) if a.dtype.kind == "i" else unsigned)
    width = np.uint32(a.dtype.itemsize * 8)
    return np.where(zeros == width, np.uint32(0xFFFFFFFF), zeros if shift else width - np.uint32(1) - zeros)


def brev(a: Array) -> Array:
    """Bits in reverse order."""
    width = a.dtype.itemsize * 8
    out = np.zeros_like(a)
    one = np.array(1, a.dtype)
    for bit in range(width):
        out = out | (((a >> np.array(bit, a.dtype)) & one) << np.array(width - 1 - bit, a.dtype))
    return out


def divide(a: Array, b: Array) -> Array:
    """Integer quotient as C's, x / 0 all ones."""
    return div_signed(a, b) if a.dtype.kind == "i" else div_unsigned(a, b)


def remainder(a: Array, b: Array) -> Array:
    """Integer remainder as C's, x % 0 is x."""
    return rem_signed(a, b) if a.dtype.kind == "i" else rem_unsigned(a, b)


def div_signed(a: Array, b: Array) -> Array:
    """Quotient truncated towards zero, as C's; x / 0 is all ones, as on the GPU."""
    zero = b == 0
    safe = np.where(zero, 1, b).astype(b.dtype)
    quotient = np.floor_divide(a, safe)
    # numpy floors; one more when the signs differ and something is left.
    inexact = (quotient * safe != a) & ((a < 0) != (safe < 0))
    return np.where(zero, np.array(-1).astype(a.dtype), quotient + inexact.astype(a.dtype))


def rem_signed(a: Array, b: Array) -> Array:
    """Remainder with the dividend's sign, as C's."""
    zero = b == 0
    safe = np.where(zero, 1, b).astype(b.dtype)
    return np.where(zero, a, np.fmod(a, safe))


def div_unsigned(a: Array, b: Array) -> Array:
    """Unsigned quotient; x / 0 is all ones."""
    zero = b == 0
    return np.where(zero, np.array(-1).astype(a.dtype), np.floor_divide(a, np.where(zero, 1, b).astype(b.dtype)))


def rem_unsigned(a: Array, b: Array) -> Array:
    """Unsigned remainder; x % 0 is x."""
    zero = b == 0
    return np.where(zero, a, np.remainder(a, np.where(zero, 1, b).astype(b.dtype)))


def shl(a: Array, amount: Array) -> Array:
    """Left shift; amounts past the width give 0 (PTX clamps)."""
    width = a.dtype.itemsize * 8
    shifted = np.left_shift(a, np.minimum(amount, width - 1).astype(a.dtype))
    return np.where(amount >= width, np.zeros((), a.dtype), shifted)


def shr(a: Array, amount: Array) -> Array:
    """Right shift, arithmetic for signed arrays; amounts past the width shift everything out (PTX clamps)."""
    width = a.dtype.itemsize * 8
    clamped = np.minimum(amount, width - 1).astype(a.dtype)
    shifted: Array = np.right_shift(a, clamped)
    if a.dtype.kind == "i":
        return shifted
    return np.where(amount >= width, np.zeros((), a.dtype), shifted)


def shf(low: Array, high: Array, amount: Array, *, left: bool, wrap: bool) -> Array:
    """Funnel shift of the 64-bit ``high:low``; the upper word for left shifts, the lower one for right shifts."""
    n = (amount & np.uint32(31)) if wrap else np.minimum(amount, np.uint32(32))
    both = (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
    if left:
        return ((both << n.astype(np.uint64)) >> np.uint64(32)).astype(np.uint32)
    return (both >> n.astype(np.uint64)).astype(np.uint32)


def bfe(a: Array, position: Array, length: Array) -> Array:
    """Extract a bit field; sign-extended for signed arrays (PTX ISA, ``bfe``)."""
    width = a.dtype.itemsize * 8
    pos = (position & np.uint32(255)).astype(np.int64)
    size = (length & np.uint32(255)).astype(np.int64)
    unsigned = a.view(np.dtype(f"u{a.dtype.itemsize}")).astype(np.uint64)
    # A signed field that runs past the top repeats the top bit.
    last = np.clip(pos + size - 1, 0, width - 1)
    negative = ((unsigned >> last.astype(np.uint64)) & _ONE) == 1 if a.dtype.kind == "i" else np.False_
    below_top = np.minimum(size, width - np.minimum(pos, width))
    keep = np.where(below_top >= 64, np.uint64(2**64 - 1), (_ONE << np.minimum(below_top, 63).astype(np.uint64)) - _ONE)
    field = (unsigned >> np.minimum(pos, width - 1).astype(np.uint64)) & keep
    field = np.where(negative & (size > 0), field | ~keep, field)
    extracted: Array = field.astype(np.dtype(f"u{a.dtype.itemsize}")).view(a.dtype)
    return extracted


def bfi(a: Array, b: Array, position: Array, length: Array) -> Array:
    """Insert the low ``length`` bits of ``a`` into ``b`` at ``position`` (PTX ISA, ``bfi``)."""
    width = b.dtype.itemsize * 8
    pos = np.minimum(position & np.uint32(255), width).astype(np.uint64)
    size = np.minimum(length & np.uint32(255), width).astype(np.uint64)
    keep = np.where(size >= width, np.uint64(2**width - 1), (_ONE << np.minimum(size, np.uint64(63))) - _ONE)
    mask = np.where(pos >= width, np.uint64(0), (keep << np.minimum(pos, np.uint64(63))) & np.uint64(2**width - 1))
    value = np.where(pos >= width, np.uint64(0), a.astype(np.uint64) << np.minimum(pos, np.uint64(63)))
    return ((b.astype(np.uint64) & ~mask) | (value & mask)).astype(b.dtype)


def prmt(a: Array, b: Array, selector: Array) -> Array:
    """Pick four bytes of ``b:a``; bit 3 of a selector nibble replicates the byte's sign (PTX ISA, ``prmt``)."""
    both = (b.astype(np.uint64) << np.uint64(32)) | a.astype(np.uint64)
    out = np.zeros(np.broadcast_shapes(a.shape, b.shape, selector.shape), np.uint32)
    for i in range(4):
        nibble = (selector >> np.uint32(4 * i)) & np.uint32(15)
        byte = (both >> ((nibble & np.uint32(7)).astype(np.uint64) * np.uint64(8))).astype(np.uint32) & np.uint32(0xFF)
        sign = np.where(byte & np.uint32(0x80), np.uint32(0xFF), np.uint32(0))
        out = out | (np.where(nibble & np.uint32(8), sign, byte) << np.uint32(8 * i))
    return out


def lop3(a: Array, b: Array, c: Array, table: int) -> Array:
    """Any bitwise function of three words, given by its truth table."""
    out = np.zeros((), a.dtype)
    for bit in range(8):
        if table >> bit & 1:
            out = out | ((a if bit & 4 else ~a) & (b if bit & 2 else ~b) & (c if bit & 1 else ~c))
    return np.broadcast_to(out, np.broadcast_shapes(a.shape, b.shape, c.shape))


def float_to_int(x: Array, dtype: str, *, rounding: str) -> Array:
    """Convert with saturation; NaN gives 0 (PTX ISA, ``cvt``)."""
    rounded = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[rounding](x.astype(np.float64))
    info = np.iinfo(dtype)
    inside = np.clip(np.nan_to_num(rounded, nan=0.0), float(info.min), float(info.max))
    out = np.where(inside >= float(info.max), info.max, np.where(inside <= float(info.min), info.min, 0)).astype(dtype)
    ordinary = (inside < float(info.max)) & (inside > float(info.min))
    return np.where(ordinary, np.where(ordinary, inside, 0).astype(dtype), out)
