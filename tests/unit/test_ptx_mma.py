"""Tensor-core products, matrix loads and half-precision arithmetic, against integers and exact rationals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from math import isnan

import numpy as np
import pytest
from helpers.fast_ptx import lanes
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ladder.errors import KernelFaultError, UnsupportedPtxError
from ladder.memory import wavefronts
from ladder.ptx import Counters
from ladder.ptx.mma import SHAPES, toward_zero

Matrix = NDArray[np.float64]
LANES = range(32)

# (significand bits, exponent of the smallest normal, of the largest number)
FORMATS = {"f16": (11, -14, 15), "bf16": (8, -126, 127)}


@cache
def value_of(bits: int, kind: str) -> Fraction | float:
    """A half as an exact number; NaN and infinities as floats."""
    precision, least, most = FORMATS[kind]
    sign = -1 if bits >> 15 else 1
    exponent, fraction = bits >> (precision - 1) & (0x7FFF >> (precision - 1)), bits & (2 ** (precision - 1) - 1)
    if exponent == most - least + 2:
        return float("nan") if fraction else sign * float("inf")
    if exponent == 0:
        return sign * Fraction(fraction) * Fraction(2) ** (least - precision + 1)
    return sign * (Fraction(fraction) + 2 ** (precision - 1)) * Fraction(2) ** (exponent - 1 + least - precision + 1)


FINITE = {
    kind: np.array([b for b in range(0x8000) if isinstance(value_of(b, kind), Fraction)], np.uint16) for kind in FORMATS
}


def nearest(x: Fraction, kind: str) -> int:
    """The bits of the nearest half, to even in a tie; x is not zero."""
    magnitudes = FINITE[kind]
    low, high = 0, len(magnitudes) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if value_of(int(magnitudes[middle]), kind) <= abs(x) else (low, middle - 1)
    below = value_of(low, kind)
    assert isinstance(below, Fraction)
    # The step above the largest number would reach the power of two that overflows.
    above = value_of(low + 1, kind) if low + 1 < len(magnitudes) else Fraction(2) ** (FORMATS[kind][2] + 1)
    assert isinstance(above, Fraction)
    up = abs(x) - below > above - abs(x) or (abs(x) - below == above - abs(x) and low % 2 == 1)
    return (low + up) | (0x8000 if x < 0 else 0)


def half(x: float, kind: str) -> int:
    """The bits of a number that is exact in the format."""
    bits = nearest(Fraction(x), kind) if x else 0
    assert value_of(bits, kind) == x
    return bits


# mma -----------------------------------------------------------------------------------------------------------------


def a_place(kind: str, lane: int, i: int) -> tuple[int, int]:
    """PTX ISA, "Matrix Fragments for mma.m16n8k4", "k8" and "k16": row and column of a_i."""
    group, member = lane >> 2, lane % 4
    if kind == "tf32":
        return (group if i in {0, 2} else group + 8), (member if i < 2 else member + 4)
    row = group if 0 <= i < 2 or 4 <= i < 6 else group + 8
    return row, member * 2 + (i & 1) + (0 if i < 4 else 8)


def b_place(kind: str, lane: int, i: int) -> tuple[int, int]:
    group, member = lane >> 2, lane % 4
    if kind == "tf32":
        return (member if i == 0 else member + 4), group
    return member * 2 + (i & 1) + (0 if i < 2 else 8), group


def c_place(lane: int, i: int) -> tuple[int, int]:
    group, member = lane >> 2, lane % 4
    return (group if i < 2 else group + 8), member * 2 + (i & 1)


def bits_of(x: float, kind: str) -> int:
    return int(np.float32(x).view(np.uint32)) if kind in {"tf32", "f32"} else half(x, kind)


def registers(
    matrix: Matrix, kind: str, count: int, place: Callable[[int, int], tuple[int, int]]
) -> Iterator[NDArray[np.uint32]]:
    """The registers that hold a fragment: one a tf32 or f32, one for two halves."""
    words = np.array(
        [[bits_of(float(matrix[place(lane, i)]), kind) for i in range(count)] for lane in LANES], np.uint32
    )
    for i in range(0, count, 1 if kind in {"tf32", "f32"} else 2):
        yield words[:, i] if kind in {"tf32", "f32"} else words[:, i] | words[:, i + 1] << 16


def multiply(kind: str, k: int, a: Matrix, b: Matrix, c: Matrix, *, halved: bool = False) -> Matrix:
    """One ``mma.sync`` on matrices that are exact in their formats."""
    sums = "f16" if halved else "f32"
    inputs = [
        *registers(a, kind, k // 2, lambda lane, i: a_place(kind, lane, i)),
        *registers(b, kind, k // 4, lambda lane, i: b_place(kind, lane, i)),
        *registers(c, sums, 4, c_place),
    ]
    names = iter(f"%i{i}" for i in range(len(inputs)))
    packed = 1 if kind == "tf32" else 2
    count = 2 if halved else 4
    fragment = [
        "{" + ", ".join(next(names) for _ in range(n)) + "}" for n in (k // 2 // packed, k // 4 // packed, count)
    ]
    results = ", ".join(f"%o{i}" for i in range(count))
    body = f"mma.sync.aligned.m16n8k{k}.row.col.{sums}.{kind}.{kind}.{sums} {{{results}}}, {', '.join(fragment)};"
    got = lanes(body, inputs, outputs=count)
    out = np.full((16, 8), np.nan)
    for lane in LANES:
        for i in range(4):
            if halved:
                value = float(value_of(int(got[i // 2, lane]) >> 16 * (i % 2) & 0xFFFF, "f16"))
            else:
                value = float(got[i, lane].view(np.float32))
            out[c_place(lane, i)] = value
    return out


EVERY_SHAPE = sorted(SHAPES)

K4 = (
    "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {{%o0, %o1, %o2, %o3}}, {{{a}, {a}}}, {{{b}}}, "
    "{{{c}, {c}, {c}, {c}}};"
)
"""A product whose registers all hold the same."""


@pytest.mark.parametrize(("kind", "k"), EVERY_SHAPE)
def test_products_of_small_integers_are_exact(kind: str, k: int) -> None:
    rng = np.random.default_rng(k)
    a, b = rng.integers(-128, 129, (16, k)), rng.integers(-128, 129, (k, 8))
    c = rng.integers(-(2**20), 2**20, (16, 8))
    assert (multiply(kind, k, a * 1.0, b * 1.0, c * 1.0) == a @ b + c).all()


@pytest.mark.parametrize(("kind", "k"), EVERY_SHAPE)
def test_each_element_finds_its_place(kind: str, k: int) -> None:
    a, b = np.zeros((16, k)), np.zeros((k, 8))
    rows, columns = np.arange(16) % k, np.arange(8)
    a[np.arange(16), rows] = 1 + np.arange(16)
    b[:, columns] = 1 + np.arange(8) + 10 * np.arange(k)[:, None]
    assert (multiply(kind, k, a, b, np.zeros((16, 8))) == a @ b).all()


@pytest.mark.parametrize("k", [8, 16])
def test_half_sums(k: int) -> None:
    rng = np.random.default_rng(k)
    a, b, c = rng.integers(-5, 6, (16, k)), rng.integers(-5, 6, (k, 8)), rng.integers(-50, 50, (16, 8))
    assert (multiply("f16", k, a * 1.0, b * 1.0, c * 1.0, halved=True) == a @ b + c).all()
    a = np.zeros((16, k))
    a[:, 0] = 2048
    b, c = np.full((k, 8), 1.0), np.full((16, 8), 3.0)
    # 2051 lies half way between 2050 and 2052: to nearest even.
    assert (multiply("f16", k, a, b, c, halved=True) == 2052).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_round_toward_zero(sign: int) -> None:
    a, b = np.zeros((16, 8)), np.zeros((8, 8))
    a[:, 0], b[0] = sign, 1
    c = np.full((16, 8), sign * float(2**24))
    a[:, 1], b[1] = sign, 0.75
    # 2^24 + 1.75 lies between 2^24 and 2^24 + 2, and is nearer to the latter.
    assert (multiply("tf32", 8, a, b, c) == sign * 2**24).all()


def test_low_bits_of_tf32_operands_do_not_count() -> None:
    ones = np.full(32, 0x3F800000 | 0x1FFF, np.uint32)
    assert (lanes(K4.format(a="%i0", b="%i0", c="%i1"), [ones, 0], outputs=4).view(np.float32) == 4).all()


@pytest.mark.parametrize(
    ("a", "c", "expected"), [(np.inf, 1.0, 0x7F800000), (0.0, np.nan, 0x7FFFFFFF), (np.inf, -np.inf, 0x7FFFFFFF)]
)
def test_infinities_and_nan(a: float, c: float, expected: int) -> None:
    words = [np.full(32, x, np.float32) for x in (a, 1.0, c)]
    body = K4.format(a="%i0", b="%i1", c="%i2")
    assert set(lanes(body, words, outputs=4).ravel().tolist()) == {expected}


def test_warps_and_blocks_multiply_on_their_own() -> None:
    scale = np.repeat(np.arange(1.0, 7.0, dtype=np.float32), 32)
    body = "mov.u32 %r1, 0x3f800000;" + K4.format(a="%i0", b="%r1", c="%i1")
    got = lanes(body, [scale, 0], outputs=4, threads=64, blocks=3).view(np.float32)
    assert (got == 4 * scale).all()


def test_one_warp_of_two_multiplies() -> None:
    body = "setp.lt.u32 %q1, %tid, 32; @%q1 bra DONE; mov.u32 %r1, 0x3f800000; mov.u32 %r2, 0;"
    body += K4.format(a="%r1", b="%r1", c="%r2")
    got = lanes(body, outputs=4, threads=64, blocks=2).view(np.float32).reshape(4, 2, 2, 32)
    assert (got[:, :, 0] == 0).all()
    assert (got[:, :, 1] == 4).all()


@given(x=st.floats(allow_nan=False))
def test_rounding_toward_zero(x: float) -> None:
    got = float(toward_zero(np.array([x]))[0])
    if np.isinf(got):
        assert abs(x) >= 2.0**128
        assert np.sign(got) == np.sign(x)
        return
    assert abs(got) <= abs(x)
    with np.errstate(over="ignore"):
        beyond = float(np.nextafter(np.float32(got), np.float32(np.copysign(np.inf, x))))
    assert abs(x) < abs(beyond)


# ldmatrix ------------------------------------------------------------------------------------------------------------

FILL = """shl.b32 %r1, %tid, 2; add.u32 %r1, %r1, %smem;
    st.shared.u32 [%r1], %i0; st.shared.u32 [%r1+128], %i1; st.shared.u32 [%r1+256], %i2; st.shared.u32 [%r1+384], %i3;
    bar.sync 0; add.u32 %r2, %smem, %i4;"""
"""512 bytes of shared memory, word w of it in %i{w / 32} of lane w % 32; %r2: each lane's row, at byte %i4."""

CONTENT = np.random.default_rng(2).integers(0, 2**16, 256, dtype=np.uint16)
"""What the tests below put there: 256 halves."""


def load_matrices(count: int, rows: NDArray[np.int64], *, trans: bool, counters: Counters | None = None) -> NDArray:
    words = CONTENT.view(np.uint32).reshape(4, 32)
    outputs = ", ".join(f"%o{i}" for i in range(count))
    name = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if trans else ''}.shared.b16"
    body = f"{FILL} {name} {{{outputs}}}, [%r2];"
    return lanes(body, [*words, rows], outputs=count, shared_bytes=512, counters=counters)


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrix_loads_hand_out_rows_or_columns(count: int, trans: bool) -> None:
    rows = np.random.default_rng(count).permutation(32) * 16
    got = load_matrices(count, rows, trans=trans)
    for j in range(count):
        matrix = np.array([CONTENT[rows[8 * j + i] // 2 :][:8] for i in range(8)])
        matrix = matrix.T if trans else matrix
        for lane in LANES:
            low, high = matrix[lane // 4, 2 * (lane % 4) : 2 * (lane % 4) + 2]
            assert got[j, lane] == int(low) | int(high) << 16


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize(
    ("rows", "each"),
    [(np.arange(32) * 16, 1), (np.arange(32) % 4 * 128, 4), (np.arange(32) * 0, 1), (np.arange(32) * 32 % 512, 2)],
    ids=["contiguous", "pitch 128", "one row", "pitch 32"],
)
def test_each_matrix_is_a_wavefront_unless_its_rows_meet_in_a_bank(
    rows: NDArray[np.int64], each: int, count: int
) -> None:
    counters = Counters()
    counters.enter(32, np.arange(1))
    load_matrices(count, rows, trans=False, counters=counters)
    by_rule = wavefronts(rows, 16, store=True, active=(1 << 8 * count) - 1)
    assert counters.shared_wavefronts["ld"] == each * count == by_rule
    assert counters.shared_requests["ld"] == 1


ROW_FAULTS = {
    "misaligned": (np.arange(32) * 16 + 8 * (np.arange(32) == 5), r"byte 88 .*thread \(5, 0, 0\)"),
    "out of bounds": (np.arange(32) * 16 + 512 * (np.arange(32) == 7), r"byte 624 of 512, .*thread \(7, 0, 0\)"),
}


@pytest.mark.parametrize(("kind", "rows", "message"), [(k, *v) for k, v in ROW_FAULTS.items()], ids=ROW_FAULTS)
def test_bad_rows_are_told_of_the_lane_that_gives_them(kind: str, rows: NDArray[np.int64], message: str) -> None:
    with pytest.raises(KernelFaultError, match=message) as caught:
        load_matrices(1, rows, trans=False)
    assert caught.value.kind == kind


def test_lanes_whose_address_is_not_asked_for_may_hold_anything() -> None:
    rows = np.where(np.arange(32) < 8, np.arange(32) * 16, 12345)
    assert load_matrices(1, rows, trans=False)[0, 0] == int(CONTENT[:2].view(np.uint32)[0])


def test_rows_that_nobody_wrote() -> None:
    with pytest.raises(KernelFaultError) as caught:
        lanes("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%o0}, [%smem];", shared_bytes=128)
    assert caught.value.kind == "uninitialised"


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_a_matrix_load_races_with_stores_of_other_lanes(trans: str) -> None:
    body = f"""shl.b32 %r1, %lane, 2; add.u32 %r1, %r1, %smem; st.shared.u32 [%r1], %lane;
        and.b32 %r2, %lane, 7; shl.b32 %r2, %r2, 4; add.u32 %r2, %r2, %smem; {{sync}}
        ldmatrix.sync.aligned.m8n8.x1{trans}.shared.b16 {{{{%o0}}}}, [%r2];"""
    lanes(body.format(sync="bar.warp.sync -1;"), shared_bytes=128)
    if trans:
        with pytest.raises(KernelFaultError, match=r"race.*__syncwarp"):
            lanes(body.format(sync=""), shared_bytes=128)
    else:
        # Lane l stores the very word that ldmatrix hands to lane l: nothing crosses lanes.
        assert lanes(body.format(sync=""), shared_bytes=128)[0].tolist() == list(LANES)


@pytest.mark.parametrize(
    "line",
    [
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%o0}, {%i0}, {%i0}, {%i0};",
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%o0}, {%i0}, {%i0}, {%i0};",
        "mma.sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16 {%o0}, {%i0}, {%i0}, {%i0};",
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%o0}, {%i0}, {%i0}, {%i0};",
        "ldmatrix.sync.aligned.m16n16.x1.shared.b8 {%o0}, [%smem];",
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%o0}, [%smem];",
        "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%o0}, {%i0}, {%i0}, {%i0};",
        "cvt.rn.relu.bf16.f32 %h1, %w1;",
        "cvt.rn.satfinite.f16.f32 %h1, %w1;",
        "fma.rn.relu.f16 %h1, %h1, %h1, %h1;",
        "max.f16 %h1, %h1, %h1;",
        "ex2.approx.f32 %f1, %f1;",
    ],
)
def test_other_forms_are_refused_by_name(line: str) -> None:
    with pytest.raises(UnsupportedPtxError, match=line.split(maxsplit=1)[0].replace(".", r"\.")):
        lanes(line, [0])


# Half precision ------------------------------------------------------------------------------------------------------

EDGES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0x3C01, 0x7BFF, 0xFBFF, 0x007F, 0x0080, 0x3F80, 0x7F7F]
a_half = st.sampled_from(EDGES) | st.integers(0, 0xFFFF)
both = pytest.mark.parametrize("kind", ["f16", "bf16"])
NAN = 0x7FFF


def same(bits: int, exact: Fraction | float, kind: str) -> bool:
    """Whether bits are the correctly rounded ``exact``; the sign of an exact zero is not looked at."""
    if isnan(exact):
        return bits == NAN
    if isinstance(exact, float):
        return value_of(bits, kind) == exact
    return bits & 0x7FFF == 0 if exact == 0 else bits == nearest(exact, kind)


def exactly(function: Callable[..., Fraction | float], kind: str, *operands: int) -> Fraction | float:
    """A function of halves in exact arithmetic, in floats as soon as one is not finite."""
    values = [value_of(bits, kind) for bits in operands]
    if all(isinstance(v, Fraction) for v in values):
        return function(*values)
    return function(*(float(v) for v in values))


OPERATIONS: dict[str, tuple[int, Callable[..., Fraction | float]]] = {
    "add": (2, lambda a, b: a + b),
    "sub": (2, lambda a, b: a - b),
    "mul": (2, lambda a, b: a * b),
    "fma.rn": (3, lambda a, b, c: a * b + c),
}


@both
@pytest.mark.parametrize("name", OPERATIONS)
@settings(max_examples=25)
@given(rows=st.lists(st.tuples(a_half, a_half, a_half, a_half), min_size=32, max_size=32))
def test_half_arithmetic_rounds_once(name: str, kind: str, rows: list[tuple[int, ...]]) -> None:
    arity, function = OPERATIONS[name]
    operands = np.array(rows, np.uint32).T[:arity]
    scalars = ", ".join(f"%h{i}" for i in range(arity))
    pairs = ", ".join(f"%r{i}" for i in range(arity))
    body = "".join(f"cvt.u16.u32 %h{i}, %i{i}; mov.b32 %r{i}, {{%h{i}, %h{i}}};" for i in range(arity))
    body += f"{name}.{kind} %h9, {scalars}; cvt.u32.u16 %o0, %h9; {name}.{kind}x2 %o1, {pairs};"
    got = lanes(body, [*operands], outputs=2)
    for lane in LANES:
        exact = exactly(function, kind, *(int(o) for o in operands[:, lane]))
        assert same(int(got[0, lane]), exact, kind)
        assert got[1, lane] == int(got[0, lane]) * 0x10001


@pytest.mark.parametrize(("c", "expected"), [(0x0D80, 0x3F91), (0x0000, 0x3F90), (0x8D80, 0x3F90)])
def test_an_addend_far_below_float64_decides_a_tie(c: int, expected: int) -> None:
    """1.0625 squared lies half way between two .bf16; 2^-100 more, which float64 drops, is more than half."""
    assert value_of(c & 0x7FFF, "bf16") in {0, Fraction(2) ** -100}
    body = "cvt.u16.u32 %h0, %i0; cvt.u16.u32 %h1, %i1; fma.rn.bf16 %h3, %h0, %h0, %h1; cvt.u32.u16 %o0, %h3;"
    assert set(lanes(body, [half(1.0625, "bf16"), c])[0].tolist()) == {expected}


floats = st.floats(width=32) | st.sampled_from(
    [65504.0, 65519.0, 65520.0, 2.0**-25, 1.5 * 2.0**-25, 2.0**-133, 1.5 * 2.0**-134]
)


@both
@given(values=st.lists(floats, min_size=32, max_size=32))
def test_conversions_to_halves(kind: str, values: list[float]) -> None:
    x = np.array(values, np.float32)
    body = f"""mov.b32 %f1, %i0; mov.b32 %f2, %i1;
        cvt.rn.{kind}.f32 %h1, %f1; cvt.u32.u16 %o0, %h1; cvt.rz.{kind}.f32 %h1, %f1; cvt.u32.u16 %o1, %h1;
        cvt.rn.{kind}x2.f32 %o2, %f1, %f2;"""
    got = lanes(body, [x, x[::-1].copy()], outputs=3)
    for lane in LANES:
        exact: Fraction | float = float(x[lane]) if not np.isfinite(x[lane]) else Fraction(float(x[lane]))
        assert same(int(got[0, lane]), exact, kind)
        toward = value_of(int(got[1, lane]), kind)
        if isnan(exact):
            assert got[1, lane] == NAN
        elif isinstance(exact, Fraction):
            assert abs(toward) <= abs(exact)
            next_up = value_of((int(got[1, lane]) & 0x7FFF) + 1, kind)
            assert isinstance(next_up, float) or abs(exact) < next_up
        else:
            assert toward == exact
        assert got[2, lane] == int(got[0, lane]) << 16 | int(got[0, 31 - lane])


@both
def test_conversions_from_halves_are_exact(kind: str) -> None:
    bits = np.arange(0, 0x10000, 7, dtype=np.uint32)[: 9 * 1024]
    body = f"cvt.u16.u32 %h1, %i0; cvt.f32.{kind} %f1, %h1; mov.b32 %o0, %f1;"
    got = lanes(body, [bits], threads=1024, blocks=9).view(np.float32)[0]
    for number, x in zip(bits, got, strict=True):
        exact = value_of(int(number), kind)
        assert (np.isnan(x) and x.view(np.uint32) == 0x7FFFFFFF) if isnan(exact) else x == float(exact)


@given(values=st.lists(floats, min_size=32, max_size=32))
def test_tf32_keeps_ten_bits_of_fraction(values: list[float]) -> None:
    x = np.array(values, np.float32)
    body = "mov.b32 %f1, %i0; cvt.rna.tf32.f32 %o0, %f1; cvt.rn.tf32.f32 %o1, %f1; cvt.rz.tf32.f32 %o2, %f1;"
    got = lanes(body, [x], outputs=3)
    for lane in LANES:
        bits = int(x[lane].view(np.uint32))
        if np.isnan(x[lane]):
            assert got[:, lane].tolist() == [0x7FFFFFFF] * 3
            continue
        down, rest = bits & ~0x1FFF, bits & 0x1FFF
        away = down + (0x2000 if rest >= 0x1000 else 0)
        even = down + (0x2000 if rest > 0x1000 or (rest == 0x1000 and bits & 0x2000) else 0)
        assert got[:, lane].tolist() == [away, even, down]
