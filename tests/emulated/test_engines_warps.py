"""Lanes that work together, on the C engine against the numpy engine: bits, counts, footprints, and the same faults."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.engines import ORDERS, Launch, Pointer, assert_rung_is_same, assert_same
from helpers.fast_ptx import kernel as lanes_kernel
from helpers.kernels import fast
from helpers.ptx import program_of
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ladder.model import Shape
from ladder.ptx import Order, Program
from ladder.ptx.c import find_compiler
from ladder.ptx.mma import SHAPES

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="the C engine needs a C compiler, and there is none")

ROOT = Path(__file__).parents[2]
Array = NDArray[Any]

KERNELS: dict[str, tuple[str, dict[str, int], tuple[str, ...]]] = {
    "bf16": ("half_tile", {"F16": 0}, ("64x64x32", "128x64x96")),
    "f16": ("half_tile", {"F16": 1}, ("64x128x64",)),
    "tf32": ("tf32_tile", {}, ("16x8x8", "48x24x72")),
    "shuffles": ("warp_dot", {}, ("1x1x1", "3x19x77", "4x9x0")),
    "ballots": ("ballot_rows", {}, ("35x79x19", "1x1x1", "5x7x0")),
    "local": ("local_arrays", {}, ("35x79x19",)),
}

each_order = pytest.mark.parametrize("order", ORDERS)


@pytest.mark.parametrize(("name", "params", "shape"), [(n, p, s) for n, p, shapes in KERNELS.values() for s in shapes])
@each_order
def test_fast_kernels_give_the_same_bits_and_counts(
    name: str, params: dict[str, int], shape: str, order: Order
) -> None:
    assert_rung_is_same(fast(name, **params), Shape.parse(shape), specials=True, order=order)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("arch", ["sm_89", "sm_90"])
def test_fast_kernels_give_the_same_on_every_architecture(name: str, arch: str) -> None:
    kernel, params, shapes = KERNELS[name]
    assert_rung_is_same(fast(kernel, arch=arch, **params), Shape.parse(shapes[-1]))


@pytest.mark.parametrize("table", ["warp", "mma", "async", "local", "barriers"])
def test_tables_of_opcodes_hold_on_both_engines(table: str) -> None:
    """The unit tests of what lanes do together, run once more with C beside numpy; C knows all of it."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "helpers.both_engines", "-p", "no:cacheprovider"]
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    run = subprocess.run(
        [*command, f"tests/unit/test_ptx_{table}.py"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "CI": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-4000:]
    assert "both engines: {'same'" in run.stdout
    assert "unknown" not in run.stdout


# Matrix products of any bits ------------------------------------------------------------------------------------------

HALVED = [("f16", "f16", k) for kind, k in sorted(SHAPES) if kind == "f16"]
PRODUCTS = [("f32", kind, k) for kind, k in sorted(SHAPES)] + HALVED
WARPS = 64
EDGES = {
    "tf32": [0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F801000, 1 << 13, 0x007FE000, 0x7F7FFFFF, 0x3F800000],
    "f16": [0, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0x7C01, 1, 0x03FF, 0x0400, 0x7BFF, 0xFBFF, 0x3C00],
    "bf16": [0, 0x8000, 0x7F80, 0xFF80, 0x7FC0, 0x7F81, 1, 0x007F, 0x0080, 0x7F7F, 0xFF7F, 0x3F80],
}
FLOAT_EDGES = [0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC12345, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF]


@cache
def product_program(sums: str, kind: str, k: int) -> tuple[Program, int, int]:
    """One product a warp, its operands from memory; how many registers those of A and B take, and C and D."""
    factors, results = 6 if (kind, k) in {("tf32", 8), ("f16", 16), ("bf16", 16)} else 3, 4 if sums == "f32" else 2
    a = factors * 2 // 3
    names = [f"%i{i}" for i in range(factors + results)]
    groups = [names[:a], names[a:factors], names[factors:]]
    targets = [f"%o{i}" for i in range(results)]
    moves = []
    if sums == "f32":
        # Sums are .f32 registers.
        groups[2], targets = [f"%f{i}" for i in range(4)], [f"%f{4 + i}" for i in range(4)]
        moves = [f"mov.b32 %f{i}, {names[factors + i]};" for i in range(4)]
    operands = ", ".join("{" + ", ".join(group) + "}" for group in ([*targets], *groups))
    body = [*moves, f"mma.sync.aligned.m16n8k{k}.row.col.{sums}.{kind}.{kind}.{sums} {operands};"]
    if sums == "f32":
        body += [f"mov.b32 %o{i}, %f{4 + i};" for i in range(4)]
    text = lanes_kernel("\n".join(body), inputs=factors + results, outputs=results)
    return program_of(text), factors, results


def bits_of(random: np.random.Generator, kind: str, shape: tuple[int, ...], spread: float) -> Array:
    """Registers with elements of all sizes, some of them special."""
    values = random.standard_normal((*shape, 2)) * np.exp2(random.uniform(-spread, spread, (*shape, 2)))
    special = random.random((*shape, 2)) < 0.02
    if kind == "f16":
        halves = values.astype(np.float16).view(np.uint16)
    elif kind == "bf16":
        halves = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    else:
        words = values.astype(np.float32).view(np.uint32)
        edges = random.choice(np.array(EDGES["tf32"] if kind == "tf32" else FLOAT_EDGES, np.uint32), words.shape)
        return np.where(special, edges, words)[..., 0]
    edges = random.choice(np.array(EDGES[kind], np.uint16), halves.shape)
    return np.where(special, edges, halves).copy().view(np.uint32)[..., 0]


@pytest.mark.parametrize(("sums", "kind", "k"), PRODUCTS)
@pytest.mark.parametrize("spread", [0, 4, 60])
def test_products_of_any_operands_have_the_same_bits(sums: str, kind: str, k: int, spread: float) -> None:
    program, factors, results = product_program(sums, kind, k)
    random = np.random.default_rng(k)
    with np.errstate(over="ignore", under="ignore"):
        given_bits = np.concatenate(
            [
                bits_of(random, kind, (32 * WARPS, factors), spread),
                bits_of(random, sums, (32 * WARPS, results), spread),
            ],
            axis=1,
        )
    buffers = (given_bits.view(np.float32), np.zeros((32 * WARPS, results), np.float32))
    params = program.function.params
    arguments = {p.offset: Pointer(n) if n < 2 else 0 for n, p in enumerate(params)}
    assert assert_same(program, buffers, [Launch((WARPS // 4, 1, 1), (128, 1, 1), arguments)]) is None


# Lanes that part and meet ---------------------------------------------------------------------------------------------

MEETING = """
    setp.lt.u32 %q1, %lane, %i0; and.b32 %r1, %lane, %i1; setp.eq.u32 %q2, %r1, 0;
    @%q1 bra LOW;
    mov.u32 %r2, 7; @%q2 bra JOIN; vote.sync.ballot.b32 %o0, %q2, %i2; bra JOIN;
LOW: mov.u32 %r2, 9; shfl.sync.bfly.b32 %o1|%q3, %lane, 1, 31, %i3; @%q2 bra JOIN; add.u32 %r2, %r2, 1;
JOIN: activemask.b32 %o2; redux.sync.add.u32 %o3, %r2, %i4; @!%q1 bra DONE; match.any.sync.b32 %o4, %r2, %i3;
"""


@given(
    edge=st.integers(0, 32),
    stride=st.sampled_from([0, 1, 2, 8]),
    masks=st.tuples(*[st.sampled_from(["all", "low", "high", "wrong"])] * 3),
    order=st.sampled_from(ORDERS),
    threads=st.sampled_from([32, 64, 80]),
)
def test_lanes_that_part_and_meet_do_so_alike(
    edge: int, stride: int, masks: tuple[str, ...], order: Order, threads: int
) -> None:
    """Whoever finds that a named lane is missing, both do; and activemask tells of the same schedule."""
    low = (1 << edge) - 1
    named = {"all": 2**32 - 1, "low": low, "high": low ^ (2**32 - 1), "wrong": 0x0F0F0F0F}
    program = program_of(lanes_kernel(MEETING, inputs=5, outputs=5))
    words = np.tile(np.array([edge, stride, *(named[m] for m in masks)], np.uint32), (threads, 1))
    buffers = (words.view(np.float32), np.zeros((threads, 5), np.float32))
    arguments = {p.offset: Pointer(n) if n < 2 else 0 for n, p in enumerate(program.function.params)}
    assert_same(program, buffers, [Launch((1, 1, 1), (threads, 1, 1), arguments)], order=order)


# Races with matrix loads ----------------------------------------------------------------------------------------------


@cache
def racing_program(count: int, trans: str, kind: str) -> Program:
    """All write shared memory; after a barrier some write once more, and all load matrices at once."""
    size = int(kind[1:]) // 8
    register = "%r2" if size == 4 else "%h1"
    body = f"""
        mad.lo.u32 %r0, %tid, 16, %smem; st.shared.v4.u32 [%r0], {{%tid, %tid, %tid, %tid}}; bar.sync 0;
        mad.lo.u32 %r1, %i0, 16, %smem; setp.lt.u32 %q1, %i1, 1024; mov.u32 %r2, 3; cvt.u16.u32 %h1, %r2;
        add.u32 %r3, %smem, %i1; @%q1 st.shared.{kind} [%r3], {register};
        ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{", ".join(f"%o{i}" for i in range(count))}}}, [%r1];"""
    return program_of(lanes_kernel(body, inputs=2, outputs=count, shared_bytes=1024))


def byte_read(rows: Array, matrix: int, lane: int, half: int, *, transposed: bool) -> int:
    """Where one of the halves lies that a lane reads."""
    outer, inner = lane // 4, 2 * (lane % 4) + half
    row, column = (inner, outer) if transposed else (outer, inner)
    return int(rows[8 * matrix + row]) * 16 + 2 * column


@given(
    count=st.sampled_from([1, 2, 4]),
    trans=st.sampled_from(["", ".trans"]),
    kind=st.sampled_from(["b16", "b32"]),
    order=st.sampled_from(ORDERS),
    seed=st.integers(0, 2**32 - 1),
    hits=st.booleans(),
)
def test_races_with_matrix_loads_are_judged_alike(
    count: int, trans: str, kind: str, order: Order, seed: int, hits: bool
) -> None:
    """A lane may write what it alone will read, or what nobody reads."""
    random = np.random.default_rng(seed)
    warp, lane, matrix, half = (int(random.integers(n)) for n in (2, 32, count, 2))
    rows = random.permutation(64)
    words = np.empty((64, 2), np.uint32)
    words[:, 0], words[:, 1] = rows, 2**32 - 1
    mine = rows[32 * warp : 32 * warp + 32]
    read = byte_read(mine, matrix, lane, half, transposed=bool(trans))
    place, size = read if hits else int(random.integers(512)) * 2, int(kind[1:]) // 8
    words[32 * warp + lane, 1] = place // size * size
    program = racing_program(count, trans, kind)
    buffers = (words.view(np.float32), np.zeros((64, count), np.float32))
    arguments = {p.offset: Pointer(n) if n < 2 else 0 for n, p in enumerate(program.function.params)}
    fault = assert_same(program, buffers, [Launch((1, 1, 1), (64, 1, 1), arguments)], order=order)
    assert fault is None or fault.kind == "race"
    if hits and kind == "b16":
        assert fault is None
