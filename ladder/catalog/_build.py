"""From a declaration to rungs: every key checked, the launch geometry derived, the sweep spread out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from ladder.catalog import _extras, _keys
from ladder.catalog._declaration import Declaration
from ladder.catalog._signature import require_packing, template_of_kernel
from ladder.model import FP32_UNIT_ROUNDOFF, Kind, Precision, Rung

__all__ = ["KEYS", "build", "rebuild"]

KEYS = (
    "title",
    "kernel",
    "params",
    "sweep",
    "multiple",
    "min_cc",
    "block",
    "tile",
    "smem_bytes",
    "blocks_per_sm",
    "grid",
    "grid_z",
    "c_init",
    "ordered",
    "repeats",
    "law",
    "unit_roundoff",
    "precision",
    "arch",
    "align_bytes",
    "tma",
    "pack",
    "tune",
)
MAX_SMEM_BYTES = 227 * 1024
"""Dynamic shared memory that a block can have on compute capability 9.0 (CUDA C++ Programming Guide)."""
MAX_BLOCKS_PER_SM = 32
MAX_BLOCK = (1024, 1024, 64)
MAX_THREADS = 1024

_C_INITS: tuple[Literal["poison", "zero"], ...] = ("poison", "zero")
_LAWS: tuple[Literal["tile_product", "c_stationary"], ...] = ("tile_product", "c_stationary")
_PRECISIONS: tuple[Precision, ...] = ("fp32", "fp32_split", "tf32")
_NUMBERED = re.compile(r"(\d+)_(.+)")
_GRIDS: tuple[Literal["persistent"], ...] = ("persistent",)
_SMEM = 'smem_bytes = "4 * STAGES * BK * (BM + BN)"'


def build(declaration: Declaration, kind: Kind) -> tuple[Rung, ...]:
    """The rungs that a declaration stands for: one, or one per value of its sweep.

    Raises:
        CatalogError: an unknown, missing, mistyped or contradictory key, with file, line and key.
    """
    for key in declaration.values:
        if key not in KEYS:
            declaration.refuse(key, "unknown key", f"the keys are {', '.join(KEYS)}")
    order = template_of_kernel(declaration)
    numbered = _NUMBERED.fullmatch(declaration.path.stem)
    number, base = (int(numbered[1]), numbered[2]) if numbered else (0, declaration.path.stem)
    return tuple(
        _rung(declaration, params, name=base + suffix, number=number, kind=kind)
        for suffix, params in _variants(declaration, order)
    )


def rebuild(declaration: Declaration, rung: Rung, params: Mapping[str, int]) -> Rung:
    """``rung``, which ``declaration`` stands for, with all its template arguments given.

    Raises:
        CatalogError: the declaration does not allow them.
    """
    _require_positive(declaration, params)
    return _rung(declaration, params, name=rung.name, number=rung.number, kind=rung.kind)


def _rung(declaration: Declaration, params: Mapping[str, int], *, name: str, number: int, kind: Kind) -> Rung:
    c_init = _keys.choice(declaration, "c_init", _C_INITS) or "poison"
    smem_bytes = declaration.values.get("smem_bytes", 0)
    packing = _extras.pack(declaration, params)
    if packing is not None:
        require_packing(declaration, packing, tuple(params))
    return Rung(
        name=name,
        number=number,
        kind=kind,
        title=_fill(declaration, _keys.text(declaration, "title"), params),
        kernel=_keys.text(declaration, "kernel"),
        params=params,
        tile=_tile(declaration, params),
        block=_block(declaration, params),
        path=declaration.path,
        source=declaration.source,
        prose=declaration.prose,
        grid_z_tile=_grid_z(declaration, params),
        persistent=_persistent(declaration),
        smem_bytes=_keys.computed(
            declaration, "smem_bytes", smem_bytes, params, low=0, high=MAX_SMEM_BYTES, example=_SMEM
        ),
        blocks_per_sm=_keys.integer(declaration, "blocks_per_sm", default=0, low=0, high=MAX_BLOCKS_PER_SM) or None,
        multiple=_multiple(declaration),
        min_cc=_extras.least_cc(declaration),
        c_init=c_init,
        ordered=_keys.boolean(declaration, "ordered", default=c_init == "poison"),
        repeats=_repeats(declaration, c_init),
        law=_keys.choice(declaration, "law", _LAWS),
        unit_roundoff=_keys.fraction(declaration, "unit_roundoff", default=FP32_UNIT_ROUNDOFF),
        precision=_keys.choice(declaration, "precision", _PRECISIONS) or "fp32",
        arch=_extras.architecture(declaration),
        align_bytes=_extras.align_bytes(declaration),
        tma=_extras.tensor_tiles(declaration, params),
        pack=packing,
        tune=_extras.tune(declaration, tuple(params)),
    )


def _variants(declaration: Declaration, order: tuple[str, ...]) -> Iterator[tuple[str, dict[str, int]]]:
    """(name suffix, template arguments in template order) of each rung of the declaration."""
    fixed = _keys.integer_table(declaration, "params", example="{ BM = 128, BN = 128, NUM_THREADS = 256 }")
    swept = _keys.sweep_table(declaration, "sweep")
    signature = f"template <{', '.join(order)}>" if order else "no template"
    for key in (*fixed, *swept):
        table = "params" if key in fixed else "sweep"
        if key not in order:
            declaration.refuse(
                f"{table}.{key}", f"the kernel has no such template parameter ({signature})", f"remove {key}"
            )
        if key in fixed and key in swept:
            declaration.refuse(f"sweep.{key}", "params sets it too", "keep it in one of the two")
    missing = [key for key in order if key not in fixed and key not in swept]
    if missing:
        declaration.refuse(
            "params", f"{', '.join(missing)} not set ({signature})", f"add {missing[0]} to params or to sweep"
        )
    for i in range(len(next(iter(swept.values()), (0,)))):
        given = {**fixed, **{key: values[i] for key, values in swept.items()}}
        suffix = f"_{swept[next(iter(swept))][i]}" if swept else ""
        _require_positive(declaration, given)
        yield suffix, {key: given[key] for key in order}


def _require_positive(declaration: Declaration, params: Mapping[str, int]) -> None:
    """Refuse a tile, a thread count or a step of nothing."""
    for key in ("BM", "BN", "BK", "T", "NUM_THREADS"):
        if params.get(key, 1) < 1:
            table = "sweep" if key in declaration.values.get("sweep", {}) else "params"
            declaration.refuse(f"{table}.{key}", f"{params[key]} sets the launch", "it must be 1 or more")


def _fill(declaration: Declaration, title: str, params: Mapping[str, int]) -> str:
    """``title`` with each ``{PARAM}`` replaced by its value."""
    for name in re.findall(r"\{(.*?)\}", title):
        if name not in params:
            declaration.refuse(
                "title", f"{{{name}}} is no parameter", f"the parameters are {', '.join(params) or 'none'}"
            )
    return re.sub(r"\{(.*?)\}", lambda match: str(params[match[1]]), title)


def _tile(declaration: Declaration, params: Mapping[str, int]) -> tuple[int, int]:
    explicit = _keys.integer_list(declaration, "tile", least=2, most=2, example="[32, 32]")
    bm, bn = (params.get(name, params.get("T")) for name in ("BM", "BN"))
    if explicit is not None:
        if (bm is not None and bm != explicit[0]) or (bn is not None and bn != explicit[1]):
            declaration.refuse(
                "tile", f"{list(explicit)} contradicts the parameters' {bm} x {bn}", "remove one of the two"
            )
        return explicit[0], explicit[1]
    if bm is None or bn is None:
        declaration.refuse(
            "tile",
            "the C tile of a block is not known",
            "add `tile = [BM, BN]`, or parameters BM and BN, or T for a square tile",
        )
    return bm, bn


def _block(declaration: Declaration, params: Mapping[str, int]) -> tuple[int, int, int]:
    explicit = _keys.integer_list(declaration, "block", least=1, most=3, example="[32, 32]")
    named = params.get("NUM_THREADS")
    if explicit is None and named is None:
        declaration.refuse("block", "the block size is not known", "add `block = [32, 32]`, or a parameter NUM_THREADS")
    key = (
        "block"
        if explicit is not None
        else ("params" if "NUM_THREADS" in declaration.values.get("params", {}) else "sweep")
    )
    x, y, z = (*(explicit or (named or 1,)), 1, 1)[:3]
    if explicit is not None and named is not None and named != x * y * z:
        declaration.refuse(
            key, f"{list(explicit)} is {x * y * z} threads but NUM_THREADS is {named}", "make them agree"
        )
    if x * y * z > MAX_THREADS or z > MAX_BLOCK[2]:
        declaration.refuse(key, f"{x * y * z} threads a block", f"a block has at most {MAX_THREADS}, and 64 along z")
    return x, y, z


def _grid_z(declaration: Declaration, params: Mapping[str, int]) -> int | None:
    if "grid_z" not in declaration.values:
        return None
    value = declaration.values["grid_z"]
    match = re.fullmatch(r"\s*K\s*/\s*(\w+)\s*", value) if isinstance(value, str) else None
    if match is None or params.get(match[1], 0) < 1:
        names = " or ".join(f'"K/{name}"' for name in params) or '"K/BK" with a parameter BK'
        declaration.refuse("grid_z", f"{value!r} is not K over a parameter", f"write {names}")
    if declaration.values.get("c_init") != "zero":
        declaration.refuse("grid_z", "blocks along z add to the same elements of C", 'add c_init = "zero"')
    return params[match[1]]


def _repeats(declaration: Declaration, c_init: str) -> bool:
    """What a kernel that adds into C cannot promise, since its blocks come in any order, and an ordered one does."""
    ordered = _keys.boolean(declaration, "ordered", default=c_init == "poison")
    found = _keys.boolean(declaration, "repeats", default=ordered or c_init == "poison")
    if ordered and not found:
        declaration.refuse("repeats", "false contradicts ordered = true", "remove one of the two")
    return found


def _persistent(declaration: Declaration) -> bool:
    found = _keys.choice(declaration, "grid", _GRIDS) is not None
    if found and "grid_z" in declaration.values:
        declaration.refuse("grid", "a persistent grid has no z", "remove one of grid and grid_z")
    return found


def _multiple(declaration: Declaration) -> tuple[int, int, int]:
    example = "{ M = 1, N = 4, K = 8 }"
    table = _keys.integer_table(declaration, "multiple", example=example)
    for axis, value in table.items():
        if axis not in ("M", "N", "K") or value < 1:
            declaration.refuse(
                f"multiple.{axis}", f"{value} for {axis}", f"write positive integers for M, N, K: {example}"
            )
    return table.get("M", 1), table.get("N", 1), table.get("K", 1)
