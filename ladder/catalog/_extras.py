"""What a kernel may need beside A, B and C: one architecture, aligned pointers, tensor maps, a packed operand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from ladder.catalog import _keys
from ladder.catalog._declaration import Declaration
from ladder.model import Matrix, Pack, TensorTile

__all__ = ["ALIGNMENTS", "align_bytes", "architecture", "least_cc", "pack", "tensor_tiles", "tune"]

ALIGNMENTS = (4, 8, 16, 32, 64, 128, 256)
"""256 bytes is what an allocation is aligned to at least (CUDA C++ Programming Guide, "Device Memory Accesses")."""

LOWEST_CC = 75
TMA_CC = 90
TMA_BYTES = 16
MAX_BOX = 256
"""Limits of cuTensorMapEncodeTiled (CUDA Driver API, Tensor Map Object Management): alignment and strides are multiples
of 16 bytes, and a box has at most 256 elements along each axis."""

_ARCH = re.compile(r"sm_(\d{2,3})a?")
_MATRICES: tuple[Matrix, ...] = ("A", "B", "C")
_OPERANDS: tuple[Literal["A", "B"], ...] = ("A", "B")
_SWIZZLES: tuple[Literal[0, 32, 64, 128], ...] = (0, 32, 64, 128)
_TMA = 'tma = [{ of = "A", box = ["BM", "BK"], swizzle = 128 }]'
OVERLAP_CC = 90
"""Compute capability, times ten, from which a kernel may start before the one before it ends (griddepcontrol)."""
ROOM_STEP = 16
"""Bytes: what keeps 16-byte accesses behind the packed operand aligned."""
_ROOM = '"4096 + 8 * BM * BN * BLOCKS"'
_PACK = 'pack = { kernel = "pack_b", of = "B", tile = ["BK", "BN"], planes = 2, block = 256 }'


def architecture(declaration: Declaration) -> str | None:
    """The only architecture that the kernel is compiled for; None for any.

    Raises:
        CatalogError: the key is no real architecture.
    """
    if "arch" not in declaration.values:
        return None
    value = declaration.values["arch"]
    if not isinstance(value, str) or not _ARCH.fullmatch(value):
        declaration.refuse("arch", f"{value!r} is no architecture", 'write for example arch = "sm_90a"')
    return value


def least_cc(declaration: Declaration) -> int:
    """``min_cc``; where it is absent that of ``arch``, else 75.

    Raises:
        CatalogError: not a compute capability, or another than that of ``arch``.
    """
    arch = architecture(declaration)
    only = None if arch is None else int(arch.removeprefix("sm_").rstrip("a"))
    found = _keys.integer(declaration, "min_cc", default=only or LOWEST_CC, low=50, high=999)
    if only is not None and found != only:
        declaration.refuse("min_cc", f"{found} contradicts arch = {arch!r}", "remove one of the two")
    return found


def align_bytes(declaration: Declaration) -> int:
    """What the addresses of A, B and C are multiples of.

    Raises:
        CatalogError: none of the powers of two that an allocation can promise.
    """
    value = declaration.values.get("align_bytes", ALIGNMENTS[0])
    if not isinstance(value, int) or value not in ALIGNMENTS:
        declaration.refuse(
            "align_bytes", f"{value!r} is no alignment", f"write one of {', '.join(map(str, ALIGNMENTS))}"
        )
    return int(value)


def tensor_tiles(declaration: Declaration, params: Mapping[str, int]) -> tuple[TensorTile, ...]:
    """The tensor maps that the kernel takes; none when the key is absent.

    Raises:
        CatalogError: an entry that the TMA unit cannot serve, or a declaration that does not promise what it needs.
    """
    if "tma" not in declaration.values:
        return ()
    value = declaration.values["tma"]
    if not isinstance(value, list) or not value:
        declaration.refuse("tma", f"{value!r} is not a list of tables", f"write for example {_TMA}")
    tiles = tuple(_tensor_tile(declaration, entry, params) for entry in value)
    if least_cc(declaration) < TMA_CC:
        declaration.refuse("tma", "no device before compute capability 9.0 has it", "add min_cc = 90")
    if align_bytes(declaration) < TMA_BYTES:
        declaration.refuse("tma", "it copies from addresses that are multiples of 16", "add align_bytes = 16")
    steps = _keys.integer_table(declaration, "multiple", example="{ N = 4, K = 4 }")
    for tile in tiles:
        axis = "K" if tile.of == "A" else "N"
        if steps.get(axis, 1) % 4:
            declaration.refuse(
                "tma", f"rows of {tile.of} are 4 * {axis} bytes, which must be a multiple of 16",
                f"add multiple = {{ {axis} = 4 }}",
            )  # fmt: skip
    return tiles


def _tensor_tile(declaration: Declaration, entry: object, params: Mapping[str, int]) -> TensorTile:
    table = _keys.entries(declaration, "tma", entry, required=("of", "box"), optional=("swizzle",), example=_TMA)
    of = next((matrix for matrix in _MATRICES if matrix == table["of"]), None)
    if of is None:
        declaration.refuse("tma.of", f"{table['of']!r} is no matrix", 'write "A", "B" or "C"')
    swizzle = next((span for span in _SWIZZLES if span == table.get("swizzle", 0)), None)
    if swizzle is None:
        declaration.refuse("tma.swizzle", f"{table['swizzle']!r} is no swizzle", "write 0, 32, 64 or 128 (bytes)")
    box = _pair(declaration, "tma.box", table["box"], params, high=MAX_BOX)
    row = 4 * box[1]
    if row % TMA_BYTES:
        declaration.refuse("tma.box", f"a row of {box[1]} floats is {row} bytes", "make it a multiple of 16 bytes")
    if swizzle and row > swizzle:
        declaration.refuse(
            "tma.box", f"a row of {box[1]} floats is {row} bytes, past a swizzle of {swizzle}",
            f"use a box of at most {swizzle // 4} columns, and several copies",
        )  # fmt: skip
    return TensorTile(of=of, box=box, swizzle=swizzle)


def pack(declaration: Declaration, params: Mapping[str, int]) -> Pack | None:
    """The kernel that packs an operand; None when the key is absent. That it is in the file is checked elsewhere.

    Raises:
        CatalogError: a missing, unknown or mistyped entry.
    """
    if "pack" not in declaration.values:
        return None
    table = _keys.entries(
        declaration, "pack", declaration.values["pack"],
        required=("kernel", "of", "tile"), optional=("planes", "block", "overlap", "room_bytes"), example=_PACK,
    )  # fmt: skip
    if not isinstance(table["kernel"], str) or not table["kernel"].strip():
        declaration.refuse("pack.kernel", f"{table['kernel']!r} is not text", f"write for example {_PACK}")
    of = next((operand for operand in _OPERANDS if operand == table["of"]), None)
    if of is None:
        declaration.refuse("pack.of", f"{table['of']!r} is no operand", 'write "A" or "B"')
    overlap = table.get("overlap", False)
    if not isinstance(overlap, bool):
        declaration.refuse("pack.overlap", f"{overlap!r} is neither true nor false", "write true, or leave it out")
    if overlap and least_cc(declaration) < OVERLAP_CC:
        declaration.refuse(
            "pack.overlap", "kernels overlap from compute capability 9.0 on", "add min_cc = 90, or leave it out"
        )
    return Pack(
        kernel=table["kernel"],
        of=of,
        tile=_pair(declaration, "pack.tile", table["tile"], params, high=2**20),
        planes=_size(declaration, "pack.planes", table.get("planes", 1), params, high=16),
        block=_size(declaration, "pack.block", table.get("block", 256), params, high=1024),
        overlap=overlap,
        room=_room(declaration, table.get("room_bytes", 0), params),
    )


def _room(declaration: Declaration, value: object, params: Mapping[str, int]) -> tuple[int, int]:
    """(bytes, bytes for each threadblock) of ``value``: an integer, or arithmetic on parameters and BLOCKS."""
    key = "pack.room_bytes"

    def at(blocks: int) -> int:
        with_blocks = {**params, "BLOCKS": blocks}
        return _keys.computed(declaration, key, value, with_blocks, low=0, high=2**31 - 1, example=_ROOM)

    fixed, each = at(0), at(1) - at(0)
    if at(2) != fixed + 2 * each or fixed % ROOM_STEP or each % ROOM_STEP:
        declaration.refuse(
            key, f"{value!r} is not a + b * BLOCKS with multiples of {ROOM_STEP}", f"write for example {_ROOM}"
        )
    return fixed, each


def tune(declaration: Declaration, order: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """The values that a tuner may try, by template parameter.

    Raises:
        CatalogError: no such parameter, or a list that is not of distinct positive integers.
    """
    found = _keys.lists_table(declaration, "tune", example="{ BK = [8, 16], STAGES = [3, 4] }")
    for name, values in found.items():
        if name not in order:
            signature = f"template <{', '.join(order)}>" if order else "no template"
            declaration.refuse(
                f"tune.{name}", f"the kernel has no such template parameter ({signature})", f"remove {name}"
            )
        if min(values) < 1 or len(set(values)) < len(values):
            declaration.refuse(f"tune.{name}", f"{list(values)} is no choice", "give distinct positive integers")
    return found


def _pair(
    declaration: Declaration, key: str, value: object, params: Mapping[str, int], *, high: int
) -> tuple[int, int]:
    """(rows, columns), each an integer or arithmetic on parameters."""
    if not isinstance(value, list) or len(value) != 2:
        declaration.refuse(key, f"{value!r} is not [rows, columns]", 'write for example ["BK", "BN"]')
    rows, columns = (_size(declaration, key, side, params, high=high) for side in value)
    return rows, columns


def _size(declaration: Declaration, key: str, value: object, params: Mapping[str, int], *, high: int) -> int:
    return _keys.computed(declaration, key, value, params, low=1, high=high, example='"BN"')
