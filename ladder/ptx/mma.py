"""Tensor-core products: ``mma.sync`` on fragments that the 32 lanes of a warp hold together.

Where each element of A (16, k), B (k, 8), C and D (16, 8) lives is that of the PTX ISA, "Matrix Fragments for
mma.m16n8k4 / k8 / k16": group = lane // 4, member = lane % 4.

Numerics. Products are exact, as on hardware. How hardware adds them is not documented: it aligns them to the largest
exponent, cuts what falls below a few extra bits, and rounds a float32 result toward zero and a .f16 one to nearest
(Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ CS 7:e330, 2021; Khattak and
Mikaitis, "Accurate models of NVIDIA tensor cores", arXiv:2512.07004). Modelled here: the products summed in float64 in
order of k, then C, then one such rounding. So bits may differ from a GPU's, and results compare by tolerance only.
Hardware aligns the product of a subnormal operand as if that were normal, at the cost of bits that are kept here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladder.ptx import halves
from ladder.ptx.warp import WARP, Warps

__all__ = ["SHAPES", "Fragments", "fragments", "multiply", "product", "toward_zero"]

Array = NDArray[Any]
F64 = NDArray[np.float64]
Places = tuple[NDArray[np.intp], NDArray[np.intp]]

SHAPES = frozenset([("tf32", 4), ("tf32", 8), ("f16", 8), ("f16", 16), ("bf16", 8), ("bf16", 16)])
"""(operand type, k) of the ``m16n8`` products that are emulated."""

_TF32_KEPT = np.uint32(0xFFFFE000)


@dataclass(frozen=True, slots=True)
class Fragments:
    """(row, column) of each element that a lane holds, in register order, as arrays (32, elements)."""

    a: Places
    b: Places
    c: Places


@cache
def fragments(kind: str, k: int) -> Fragments:
    """The layout of ``mma.m16n8k{k}`` with operands of type ``kind``."""
    group, member = (np.arange(WARP) // 4)[:, None], (np.arange(WARP) % 4)[:, None]
    c = np.arange(4)[None, :]
    accumulators = group + 8 * (c // 2), member * 2 + c % 2
    if kind == "tf32":
        a, b = np.arange(k // 2)[None, :], np.arange(k // 4)[None, :]
        return Fragments(
            a=(group + 8 * (a % 2), member + 4 * (a // 2)),
            b=(member + 4 * b, group + 0 * b),
            c=accumulators,
        )
    a, b = np.arange(k // 2)[None, :], np.arange(k // 4)[None, :]
    return Fragments(
        a=(group + 8 * (a // 2 % 2), member * 2 + a % 2 + 8 * (a // 4)),
        b=(member * 2 + b % 2 + 8 * (b // 2), group + 0 * b),
        c=accumulators,
    )


def multiply(
    warps: Warps,
    where: str,
    op: str,
    shape: tuple[str, int],
    operands: tuple[tuple[Array, ...], tuple[Array, ...], tuple[Array, ...]],
    mask: NDArray[np.bool_] | None,
) -> tuple[Array, ...]:
    """``mma.sync`` in every warp that executes it.

    Args:
        warps: the lanes of the batch.
        where: the source line, for messages.
        op: the instruction, for messages.
        shape: operand type and k, one of :data:`SHAPES`.
        operands: the registers of A and B (uint32) and of C (four float32, or two uint32 that hold .f16 pairs).
        mask: lanes that execute it; None for all.

    Returns:
        The registers of D, like those of C, (T, B) each.

    Raises:
        KernelFaultError: ``divergent warp collective``: a warp is there in part.
    """
    kind, k = shape
    there = warps.whole(where, op, mask)
    layout = fragments(kind, k)
    a, b, c = ([_lanes(warps, register, there) for register in registers] for registers in operands)
    sums: list[Array] = c
    halved = len(c) == 2
    if halved:
        sums = _elements(c, "f16")
    out = product(
        _matrix(_elements(a, kind), layout.a, (16, k)),
        _matrix(_elements(b, kind), layout.b, (k, 8)),
        _matrix(sums, layout.c, (16, 8)),
    )
    values = out[:, layout.c[0], layout.c[1]]
    results: list[Array]
    if halved:
        bits = halves.encode(values, "f16")
        results = [halves.pack2(bits[..., i], bits[..., i + 1]) for i in (0, 2)]
    else:
        rounded = toward_zero(values)
        results = [rounded[..., i] for i in range(4)]
    return tuple(_registers(warps, result, there) for result in results)


def product(a: F64, b: F64, c: F64) -> F64:
    """A @ B + C for stacks of matrices (n, 16, k), (n, k, 8), (n, 16, 8): the same bits wherever it runs."""
    total = np.zeros(c.shape)
    for k in range(a.shape[2]):
        total += a[:, :, k, None] * b[:, k, None, :]
    return total + c


def toward_zero(x: F64) -> NDArray[np.float32]:
    """Float64 -> float32 rounded toward zero; a NaN is 0x7fffffff."""
    with np.errstate(over="ignore", invalid="ignore"):
        near = x.astype(np.float32)
        past = (np.abs(near.astype(np.float64)) > np.abs(x)) & (np.abs(x) < 2.0**128)
    out = np.where(past, np.nextafter(near, np.float32(0)), near)
    return np.where(np.isnan(x), np.uint32(0x7FFFFFFF).view(np.float32), out)


def _elements(registers: list[Array], kind: str) -> list[Array]:
    """The values that the registers of an operand hold, in order."""
    if kind == "tf32":
        return [(register & _TF32_KEPT).view(np.float32) for register in registers]
    return [
        halves.decode(bits, kind) for register in registers for bits in (halves.low(register), halves.high(register))
    ]


def _matrix(elements: list[Array], places: Places, size: tuple[int, int]) -> F64:
    """Elements (n, 32) each, at their places in n matrices."""
    out = np.empty((len(elements[0]), *size))
    with np.errstate(invalid="ignore"):
        out[:, places[0], places[1]] = np.stack(elements, axis=-1)
    return out


def _lanes(warps: Warps, value: Array, there: NDArray[np.bool_] | None) -> Array:
    """A register (T, B) as (n, 32): a row for each warp that takes part."""
    whole = np.broadcast_to(value, (warps.threads, warps.blocks))
    if there is None:
        return np.ascontiguousarray(np.moveaxis(whole.reshape(-1, WARP, warps.blocks), 1, 2)).reshape(-1, WARP)
    warp, block = np.nonzero(there)
    # The lanes of a partial last warp do not exist, and such a warp takes no part.
    taken: Array = whole[warp[:, None] * WARP + np.arange(WARP), block[:, None]]
    return taken


def _registers(warps: Warps, values: Array, there: NDArray[np.bool_] | None) -> Array:
    """The inverse of :func:`_lanes`; zeros where no warp takes part."""
    if there is None:
        return np.moveaxis(values.reshape(-1, warps.blocks, WARP), 2, 1).reshape(warps.threads, warps.blocks)
    out = np.zeros((warps.threads, warps.blocks), values.dtype)
    warp, block = np.nonzero(there)
    out[warp[:, None] * WARP + np.arange(WARP), block[:, None]] = values
    return out
