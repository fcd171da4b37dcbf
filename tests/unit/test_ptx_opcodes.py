"""Every opcode that the emulator knows, against Python integers and exact rationals; what it must refuse."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from helpers.control_cases import CONTROL_CASES
from helpers.float_rows import float_rows
from helpers.memory_cases import MEMORY_CASES
from helpers.opcode_rows import Row, bit_rows, bits_of, comparison_rows, conversion_rows, integer_rows, move_rows
from helpers.ptx import compute, module
from helpers.rational import NAN64, f64
from hypothesis import given, settings
from hypothesis import strategies as st

from ladder.errors import UnsupportedPtxError
from ladder.ptx import build, parse
from ladder.ptx.opcodes import HANDLERS
from ladder.ptx.opcodes_async import ASYNC_HANDLERS
from ladder.ptx.opcodes_mma import MMA_HANDLERS
from ladder.ptx.opcodes_warp import WARP_HANDLERS

ROWS: tuple[Row, ...] = (
    *integer_rows(),
    *bit_rows(),
    *comparison_rows(),
    *move_rows(),
    *conversion_rows(),
    *float_rows(),
)

EDGES32 = (
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x3F800000, 0xBF800000, 0x3F800001,
    0x3F000000, 0x3FC00000, 0xC0200000, 0x40490FDB, 0x4B800001, 0x4EFFFFFF, 0x4F000000, 0xCF000000, 0x5F000000,
    0x5F800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F800001, 0x7FFFFFFF,
)  # fmt: skip
EDGES64 = (
    0, 1 << 63, 1, 0x000FFFFFFFFFFFFF, 0x3FF0000000000000, 0xBFF0000000000001, 0x3FF8000000000000, 0x36A0000000000000,
    0x36A0000000000001, 0x3690000000000000, 0x380FFFFFE0000000, 0x47EFFFFFF0000000, 0x47EFFFFFEFFFFFFF,
    0x3FF0000010000000, 0x3FF0000030000000, 0x41E0000000000000, 0x43E0000000000000, 0xC3E0000000000000,
    0x43F0000000000000, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000,
)  # fmt: skip


def edges(kind: str) -> tuple[int, ...]:
    if kind in {"f32", "f64"}:
        return EDGES32 if kind == "f32" else EDGES64
    width = bits_of(kind)
    top = 1 << (width - 1)
    some = {0, 1, 2, 3, 7, width - 1, width, width + 1, 127, 128, 255, top - 1, top, top + 1, 2 * top - 2, 2 * top - 1}
    return tuple(sorted(some | {0x0123456789ABCDEF & (2 * top - 1), 0xFEDCBA9876543210 & (2 * top - 1)}))


MOST = 700
"""Operand tuples of one row, about."""


def combinations(kinds: Sequence[str]) -> list[tuple[int, ...]]:
    """All edge values together, thinned out where there are too many."""
    every = list(itertools.product(*(edges(kind) for kind in kinds)))
    step = max(1, len(every) // MOST)
    # A stride that shares no factor with their number meets every value of each list.
    return every if step == 1 else every[:: next(s for s in itertools.count(step) if math.gcd(s, len(every)) == 1)]


def same(row: Row, got: int, expected: int) -> bool:
    """Equal bits; NaNs of 64 bits may carry any payload, and NaNs that a move only carries must be equal."""
    if row.result == "f64" and expected == NAN64:
        return math.isnan(f64(got))
    return got == expected


def check(row: Row, operands: list[tuple[int, ...]]) -> None:
    got = compute(row.code, row.kinds, row.result, operands)
    for values, found in zip(operands, got, strict=True):
        expected = row.means(*values) & (2 ** bits_of(row.result) - 1)
        shown = ", ".join(f"{v:#x}" for v in values)
        assert same(row, found, expected), f"{row}: on {shown}: {found:#x}, expected {expected:#x}"


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_edge_values(row: Row) -> None:
    check(row, combinations(row.kinds))


def operand(kind: str) -> st.SearchStrategy[int]:
    width = bits_of(kind)
    anything = st.integers(0, 2**width - 1)
    near = st.sampled_from(edges(kind))
    return anything | near | st.builds(lambda e, d: (e + d) & (2**width - 1), near, st.integers(-2, 2))


@settings(max_examples=400)
@given(data=st.data())
def test_drawn_values(data: st.DataObject) -> None:
    row = data.draw(st.sampled_from([row for row in ROWS if row.kinds]))
    check(row, data.draw(st.lists(st.tuples(*map(operand, row.kinds)), min_size=1, max_size=8)))


REFUSED = [
    tuple(part.strip() for part in f"{line}=>".split("=>")[:2])
    for line in (Path(__file__).parents[1] / "helpers" / "refused_ptx.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


def opcodes_in(body: str) -> set[str]:
    return {i.parts[0] for i in parse(module(body))["f"].instructions}


def test_every_opcode_has_a_test() -> None:
    shells = [row.code.format(a="%w1", b="%w2", c="%w3", d="%w4", e="%w5") for row in ROWS]
    bodies = [case.body for case in (*MEMORY_CASES, *CONTROL_CASES)]
    tested = set.union(*map(opcodes_in, [*shells, *bodies]))
    tested |= {name for name in HANDLERS for code, _ in REFUSED if code.startswith(name)}
    # `barrier_result` is no opcode of PTX: the program builder puts it after a barrier that returns a vote.
    others = {*HANDLERS} - tested - {"barrier_result"}
    # Barriers of part of a block, warp, asynchronous and matrix operations have tables of their own.
    assert others <= {*WARP_HANDLERS, *ASYNC_HANDLERS, *MMA_HANDLERS}, "add a row or a case for the new opcode"
    mine = {"test_ptx_opcodes.py", "test_ptx_memory.py"}
    texts = [p.read_text(encoding="utf-8") for p in Path(__file__).parent.glob("test_ptx_*.py") if p.name not in mine]
    assert not {name for name in others if not any(name.split(".")[0] in text for text in texts)}


@pytest.mark.parametrize(("code", "says"), REFUSED)
def test_what_is_not_known_is_refused_by_name_and_place(code: str, says: str) -> None:
    text = module(f".loc 1 42 7\n{code}", outside='.file 1 "kernel.cu"')
    with pytest.raises(UnsupportedPtxError) as error:
        build(parse(text)["f"])
    opcode = code.split()[1 if code.startswith("@") else 0].rstrip(";")
    assert str(error.value).startswith("kernel.cu:42: ")
    assert f"`{opcode}`" in str(error.value)
    assert says in str(error.value)


def test_an_unknown_opcode_behind_a_guard_is_refused_too() -> None:
    with pytest.raises(UnsupportedPtxError, match=r"`tex\.1d\.v4\.f32\.s32`: unknown opcode"):
        build(parse(module("@%q1 tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [t, {%w1}];"))["f"])
