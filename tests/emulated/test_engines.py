"""The C engine against the numpy engine: the same bits, the same counts, and no fault that it misses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest
from helpers.engines import (
    ORDERS,
    STEP_LIMIT,
    Launch,
    Pointer,
    assert_rung_is_same,
    assert_same,
    in_c,
    operands,
    run,
    snippet,
    snippet_launch,
    supported,
    words,
)
from helpers.kernels import MUTANTS, RUNGS, compiled, mutant, shifted
from helpers.ptx import module, program_of
from helpers.warp_requests import GLOBAL, SHARED, Measured, masks, patterns
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ladder.backends import emulated
from ladder.backends.base import Outcome
from ladder.backends.emulated import EmulatedBackend, Engine
from ladder.errors import KernelFaultError, LadderError, UnsupportedPtxError
from ladder.memory import reduction_sectors, reduction_wavefronts, sectors, wavefronts
from ladder.model import Rung, Shape
from ladder.nvrtc import Compiled
from ladder.profiles import load_profile
from ladder.ptx import GlobalMemory, Machine, Order, Program
from ladder.ptx.c import CMachine, SuspectError, find_compiler, runtime

Array = NDArray[Any]

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="the C engine needs a C compiler, and there is none")

SHAPES = [Shape.parse(text) for text in ("64x64x64", "35x79x19", "129x70x33", "3x3x431", "1x1x1", "5x7x0", "0x3x2")]

each_rung = pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
each_order = pytest.mark.parametrize("order", ORDERS)


# Rungs ----------------------------------------------------------------------------------------------------------------


@each_rung
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_rung_gives_the_same_bits_and_counts(rung: Rung, shape: Shape) -> None:
    assert_rung_is_same(compiled(rung), supported(rung, shape), specials=True)


@each_rung
@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
def test_every_rung_gives_the_same_on_every_architecture(rung: Rung, arch: str) -> None:
    if rung.min_cc <= int(arch.removeprefix("sm_")):
        assert_rung_is_same(compiled(rung, arch), supported(rung, Shape(m=70, n=45, k=77)))


@each_rung
@pytest.mark.parametrize("offsets", [(1, 2, 3), (4, 0, 1)])
def test_every_rung_gives_the_same_at_misaligned_pointers(rung: Rung, offsets: tuple[int, int, int]) -> None:
    assert_rung_is_same(compiled(rung), supported(rung, Shape(m=67, n=40, k=50)), offsets=shifted(rung, offsets))


@each_rung
@pytest.mark.parametrize("order", ORDERS[1:])
def test_every_rung_gives_the_same_warp_after_warp(rung: Rung, order: Order) -> None:
    assert_rung_is_same(compiled(rung), supported(rung, Shape(m=33, n=20, k=20)), order=order)


@each_rung
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_c_knows_every_rung_that_numpy_knows(rung: Rung, arch: str) -> None:
    if rung.min_cc > int(arch.removeprefix("sm_")):
        return
    chosen = EmulatedBackend(load_profile("h200").device, engine="c")
    m, n, k = rung.multiple
    outcome = chosen.run(compiled(rung, arch), *operands(Shape(m=m, n=n, k=k), specials=False))
    assert (outcome.damage, chosen.notes) == (None, [])


# Control flow, shared memory, faults ----------------------------------------------------------------------------------

FAULTLESS = {
    "loop of each lane's own length": """
        float s = 0; for (int i = 0; i < t % 7; ++i) { if (i == n) break; s += A[i] * B[t]; } C[t] = s;""",
    "nested divergence": """
        float s = A[t]; if (t & 1) { if (t & 2) s *= 2; else s -= 3; while (s > 1) s *= 0.5f; } else if (t > 40) return;
        C[t] = s;""",
    "exit before the barrier": """
        __shared__ float x[128]; if (t >= 96) return; x[t] = A[t]; __syncthreads(); C[t] = x[95 - t];""",
    "barrier in a loop": """
        __shared__ float x[128]; float s = 0;
        for (int i = 0; i < n; ++i) { x[t] = A[t] + i; __syncthreads(); s += x[(t + i) % 100]; __syncthreads(); }
        C[t] = s;""",
    "padding that nobody writes": """
        __shared__ float x[10][13]; x[t / 10][t % 10] = A[t]; __syncthreads(); C[t] = x[t % 10][t / 10];""",
    "words and bytes": """
        __shared__ unsigned char x[512]; for (int i = 0; i < 4; ++i) x[4 * t + i] = t + i; __syncthreads();
        C[t] = x[(7 * t) % 400] + reinterpret_cast<unsigned short*>(x)[t];""",
    "vectors": """
        __shared__ float4 x[100]; x[t] = reinterpret_cast<float4*>(A)[t % 25]; __syncthreads();
        const float4 v = x[99 - t]; C[t] = v.x + v.y * v.z - v.w;""",
    "atomics in shared memory": """
        __shared__ int x[8]; if (t < 8) x[t] = 0; __syncthreads(); atomicAdd(&x[t % 8], t); atomicMax(&x[t % 3], t);
        __syncthreads(); if (t < 8) C[t] = x[t];""",
    "atomics that return": """
        if (blockIdx.x) return; int* p = reinterpret_cast<int*>(C); if (t == 0) p[0] = 0; __syncthreads();
        p[atomicAdd(p, 1) % 50 + 1] = 7; atomicExch(p + 60 + t % 4, t); atomicCAS(p + 70, p[70], t);
        atomicInc((unsigned*)p + 80, 5); atomicAnd(p + 81, t); atomicOr(p + 82, t); atomicXor(p + 83, t);""",
    "reductions of several instructions": """
        if (blockIdx.x) return;
        for (int i = 0; i < 3; ++i) atomicAdd(&C[(t * i) % 9], A[t] + i); atomicAdd(&C[t % 5], 0.25f);""",
    "local arrays": """
        float x[9]; for (int i = 0; i < 9; ++i) x[(i * n) % 9] = A[(t + i) % 100]; C[t] = x[t % 9] + x[(t + n) % 9];""",
    "generic pointers": """
        __shared__ float x[100]; x[t] = A[t]; __syncthreads();
        const float* p = n > 2 ? x : B; float y[3] = {1, 2, 3}; float* q = n > 1 ? y : C; q[n % 3] = p[t];
        C[t] = p[(t + n) % 100] + q[(n + 1) % 3];""",
    "synchronised warps": """
        __shared__ float x[128]; x[t] = A[t]; __syncwarp(); const float y = x[t ^ (t < 96)]; __syncwarp();
        x[t] = y + 1; __syncwarp(); C[t] = x[t / 32 * 32];""",
    "synchronised warps after divergence": """
        __shared__ float x[128]; if (t & 1) x[t] = A[t]; else x[t] = B[t] * 2; __syncwarp(); C[t] = x[t ^ (t < 96)];""",
    "integers": """
        int* p = reinterpret_cast<int*>(A); unsigned* q = reinterpret_cast<unsigned*>(B);
        int s = p[t] / (p[t + 1] | 1) + p[t] % 7 - (q[t] >> (t % 40)) + __clz(p[t]) * __popc(q[t]) + __brev(q[t])
            + __mulhi(p[t], p[t + 1]) + __umulhi(q[t], 77777)
            + __byte_perm(p[t], q[t], t) + __funnelshift_l(p[t], q[t], t);
        long long w = (long long)p[t] * q[t] / 12345; reinterpret_cast<int*>(C)[t] = s ^ (int)(w >> 7) ^ (int)w;""",
    "floats": """
        float x = A[t], y = B[t]; C[t] = sqrtf(fabsf(x)) / (y * y + 1) + fminf(x, y) - fmaxf(-x, 0.0f * y)
            + (float)(int)(y * 1e9f) + (float)__float2int_rd(x * 9) + (float)__dadd_rn(__dmul_rn(x, y), 1e-3);""",
}
FAULTS = {
    "out of bounds, global": ("C[t + 30 * (t > 70)] = 1;", "out of bounds"),
    "out of bounds, before the array": ("C[t - 1] = 1;", "out of bounds"),
    "out of bounds, shared": ("__shared__ volatile float x[50]; x[t / 2 + (t == 99)] = 1; C[t] = 0;", "out of bounds"),
    "out of bounds, local": (
        "float x[4]; for (int i = 0; i < n; ++i) x[i + t] = A[i]; C[t] = x[t % 4];",
        "out of bounds",
    ),
    "misaligned, global": ("reinterpret_cast<float2*>(C + 1)[t / 4] = {1, 2};", "misaligned"),
    "misaligned, shared": (
        "__shared__ float x[128]; reinterpret_cast<float2*>(x + t % 2)[t / 2] = {1, 2}; C[t] = 0;",
        "misaligned",
    ),
    "uninitialised": ("__shared__ float x[128]; x[t] = 1; __syncthreads(); C[t] = x[t + (t == 99)];", "uninitialised"),
    "uninitialised byte": (
        "__shared__ unsigned char x[400]; x[2 * t] = 1; __syncthreads(); C[t] = x[2 * t + (t == 50)];",
        "uninitialised",
    ),
    "race of two warps": ("__shared__ float x[128]; x[t] = 1; C[t] = x[(t + 32) % 100];", "race|uninitialised"),
    "race within a warp": ("__shared__ float x[128]; x[t] = A[t]; C[t] = x[t ^ 1];", "race|uninitialised"),
    "race of writes": ("__shared__ float x[128]; x[t / 2] = t; __syncthreads(); C[t] = x[t / 2];", "race"),
    "race of a write after a read": (
        "__shared__ float x[128]; x[t] = 1; __syncthreads(); const float y = x[99 - t]; x[t] = y; C[t] = y;",
        "race",
    ),
    "race of an atomic and a read": (
        "__shared__ int x[4]; if (t < 4) x[t] = 0; __syncthreads(); atomicAdd(x, 1); C[t] = x[t % 4];",
        "race",
    ),
    "race in the last epoch": ("__shared__ volatile float x[4]; x[t / 200] = t; C[t] = 0;", "race"),
    "race that a warp's barrier does not order": (
        "__shared__ float x[128]; x[t] = 1; __syncwarp(); C[t] = x[(t + 32) % 100];",
        "race|uninitialised",
    ),
    "race on the way to a warp's barrier": (
        "__shared__ float x[128]; x[t] = 1; __syncwarp(); C[t] = x[t ^ 1]; x[t] = 2; __syncwarp();",
        "race",
    ),
    "race through a long loop of reads": (
        """__shared__ float x[128]; x[t] = 1; __syncthreads(); float s = 0;
        for (int i = 0; i < 1000; ++i) s += x[(t + i) % 100]; if (t == 7) x[3] = s; C[t] = s;""",
        "race",
    ),
    "divergent barrier": (
        "if (t < 50) __syncthreads(); else { C[t] = 1; __syncthreads(); } C[t] = 0;",
        "divergent barrier",
    ),
    "divergent warp barrier": ("if (t < 50) __syncwarp(); __syncthreads(); C[t] = 0;", "divergent"),
    "trap": ("if (A[t] != A[t]) C[t] = 0; if (t == 77) __trap(); C[t] = 0;", "trap"),
    "endless loop": ("while (n) C[t] += 1;", "endless loop"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTLESS)
@each_order
def test_snippets_give_the_same_bits_and_counts(name: str, order: Order) -> None:
    program = snippet(FAULTLESS[name])
    assert assert_same(program, words(), [snippet_launch(program)], order=order) is None


@pytest.mark.parametrize("name", FAULTS)
@each_order
def test_c_misses_no_fault(name: str, order: Order) -> None:
    body, kind = FAULTS[name]
    program = snippet(body)
    fault = assert_same(program, words(), [snippet_launch(program)], order=order, count=False)
    assert fault is not None
    assert any(word in fault.kind for word in kind.split("|")), fault


# Opcodes --------------------------------------------------------------------------------------------------------------

INTEGER_CODES = """
add.s16 %h0, %h1, %h2; add.u32 %w0, %w1, %w2; add.s64 %x0, %x1, %x2; sub.s32 %w0, %w1, %w2; sub.u16 %h0, %h1, %h2;
mul.lo.s32 %w0, %w1, %w2; mul.lo.u16 %h0, %h1, %h2; mul.hi.s32 %w0, %w1, %w2; mul.hi.u64 %x0, %x1, %x2;
mul.hi.s64 %x0, %x1, %x2; mul.hi.s16 %h0, %h1, %h2; mul.wide.s32 %x0, %w1, %w2; mul.wide.u16 %w0, %h1, %h2;
mad.lo.s32 %w0, %w1, %w2, %w3; mad.hi.u32 %w0, %w1, %w2, %w3; mad.wide.s32 %x0, %w1, %w2, %x3;
mad.lo.u64 %x0, %x1, %x2, %x3; div.s32 %w0, %w1, %w2; div.u64 %x0, %x1, %x2; div.s64 %x0, %x1, %x2;
rem.s32 %w0, %w1, %w2; rem.u16 %h0, %h1, %h2; rem.s64 %x0, %x1, %x2; abs.s32 %w0, %w1; abs.s64 %x0, %x1;
neg.s32 %w0, %w1; neg.s16 %h0, %h1; min.s32 %w0, %w1, %w2; min.u64 %x0, %x1, %x2; max.s16 %h0, %h1, %h2;
max.u32 %w0, %w1, %w2; and.b32 %w0, %w1, %w2; or.b64 %x0, %x1, %x2; xor.b16 %h0, %h1, %h2; not.b32 %w0, %w1;
shl.b32 %w0, %w1, %w2; shl.b64 %x0, %x1, %w2; shl.b32 %w0, %w1, 7; shr.u32 %w0, %w1, %w2; shr.s32 %w0, %w1, %w2;
shr.s64 %x0, %x1, %w2; shr.b16 %h0, %h1, %w2; shr.s32 %w0, %w1, 33; bfe.u32 %w0, %w1, %w2, %w3;
bfe.s32 %w0, %w1, %w2, %w3; bfe.s64 %x0, %x1, %w2, %w3; bfe.u64 %x0, %x1, %w2, %w3; bfi.b32 %w0, %w1, %w2, %w3, %w4;
bfi.b64 %x0, %x1, %x2, %w3, %w4; brev.b32 %w0, %w1; brev.b64 %x0, %x1; clz.b32 %w0, %w1; clz.b64 %w0, %x1;
popc.b32 %w0, %w1; popc.b64 %w0, %x1; prmt.b32 %w0, %w1, %w2, %w3; lop3.b32 %w0, %w1, %w2, %w3, 0xCA;
lop3.b32 %w0, %w1, %w2, %w3, 0; shf.l.wrap.b32 %w0, %w1, %w2, %w3; shf.r.clamp.b32 %w0, %w1, %w2, %w3;
shf.l.clamp.b32 %w0, %w1, %w2, %w3; shf.r.wrap.b32 %w0, %w1, %w2, %w3; mov.b64 %x0, {%w1, %w2};
mov.b64 {%w0, %w5}, %x1; mov.b32 %w0, {%h1, %h2}; mov.b32 {%h0, %h5}, %w1; cvt.u64.u32 %x0, %w1; cvt.s64.s32 %x0, %w1;
cvt.u32.u64 %w0, %x1; cvt.s32.s16 %w0, %h1; cvt.u16.u32 %h0, %w1; cvt.s32.s8 %w0, %w1; cvt.u64.s32 %x0, %w1;
selp.b32 %w0, %w1, %w2, %q1; selp.b64 %x0, %x1, %x2, !%q1; @%q1 mov.u32 %w0, %w1; @!%q1 add.s32 %w0, %w1, %w2;
"""
FLOAT_CODES = """
add.f32 %f0, %f1, %f2; sub.rn.f32 %f0, %f1, %f2; mul.f32 %f0, %f1, %f2; fma.rn.f32 %f0, %f1, %f2, %f3;
div.rn.f32 %f0, %f1, %f2; sqrt.rn.f32 %f0, %f1; abs.f32 %f0, %f1; neg.f32 %f0, %f1; min.f32 %f0, %f1, %f2;
max.f32 %f0, %f1, %f2; add.f64 %d0, %d1, %d2; mul.rn.f64 %d0, %d1, %d2; sub.f64 %d0, %d1, %d2;
div.rn.f64 %d0, %d1, %d2; sqrt.rn.f64 %d0, %d1; abs.f64 %d0, %d1; neg.f64 %d0, %d1; min.f64 %d0, %d1, %d2;
max.f64 %d0, %d1, %d2; selp.f32 %f0, %f1, %f2, %q1; mov.f32 %f0, %f1; mov.b32 %w0, %f1; mov.b32 %f0, %w1;
cvt.rni.s32.f32 %w0, %f1; cvt.rzi.u32.f32 %w0, %f1; cvt.rmi.s64.f32 %x0, %f1; cvt.rpi.s32.f64 %w0, %d1;
cvt.rzi.u64.f64 %x0, %d1; cvt.rzi.s16.f32 %h0, %f1; cvt.rn.f32.s32 %f0, %w1; cvt.rn.f32.u64 %f0, %x1;
cvt.rn.f64.s64 %d0, %x1; cvt.rn.f32.f64 %f0, %d1; cvt.f64.f32 %d0, %f1; @%q1 fma.rn.f32 %f0, %f1, %f2, %f3;
fma.rn.f32 %f5, %f1, %f2, %f3; fma.rn.f32 %f0, %f5, %f2, %f5; add.f32 %f5, %f1, %f2; mov.b32 %w0, %f5;
mul.f32 %f5, %f1, %f2; neg.f32 %f0, %f5; mul.f32 %f5, %f1, %f2; selp.f32 %f0, %f5, %f1, %q1; sub.f32 %f5, %f1, %f2;
max.f32 %f0, %f5, %f3; add.f32 %f5, %f1, %f2; @%q1 mov.f32 %f5, %f3; mov.f32 %f0, %f5;
"""
HALF_CODES = """
cvt.rn.f16.f32 %h0, %f1; cvt.rz.f16.f32 %h0, %f1; cvt.rn.bf16.f32 %h0, %f1; cvt.rz.bf16.f32 %h0, %f1;
cvt.rn.f16x2.f32 %w0, %f1, %f2; cvt.rz.bf16x2.f32 %w0, %f1, %f2; cvt.f32.f16 %f0, %h1; cvt.f32.bf16 %f0, %h1;
cvt.f32.f16 %f5, %h1; mov.b32 %w0, %f5; cvt.rna.tf32.f32 %w0, %f1; cvt.rn.tf32.f32 %w0, %f1; cvt.rz.tf32.f32 %w0, %f1;
add.f16 %h0, %h1, %h2; sub.rn.bf16 %h0, %h1, %h2; mul.f16 %h0, %h1, %h2; fma.rn.f16 %h0, %h1, %h2, %h3;
fma.rn.bf16 %h0, %h1, %h2, %h3; add.bf16x2 %w0, %w1, %w2; sub.f16x2 %w0, %w1, %w2; mul.rn.bf16x2 %w0, %w1, %w2;
fma.rn.f16x2 %w0, %w1, %w2, %w3; @%q1 cvt.rn.bf16.f32 %h0, %f2; add.f32 %f5, %f1, %f2; cvt.rn.bf16.f32 %h0, %f5;
"""
COMPARED = [
    *(
        f"{how}.{kind} %q0, {r}1, {r}2"
        for kind, r in (("s32", "%w"), ("s64", "%x"))
        for how in ("lt", "ge", "eq", "ne")
    ),
    *(
        f"{how}.{kind} %q0, {r}1, {r}2"
        for kind, r in (("u32", "%w"), ("u16", "%h"))
        for how in ("lo", "hs", "le", "gt")
    ),
    *(
        f"{how}.f32 %q0, %f1, %f2"
        for how in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
    ),
    "lt.and.s32 %q0|%q2, %w1, %w2, %q1",
    "gt.or.f32 %q0, %f1, %f2, !%q1",
    "ne.xor.b32 %q1|%q0, %w1, %w2, %q1",
]
EDGES = [
    0,
    1,
    2,
    31,
    32,
    33,
    63,
    64,
    255,
    2**15,
    2**16 - 1,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63,
    2**64 - 1,
    2**32,
    7 << 60,
]
FLOATS = [0x477FE000, 0x477FEFFF, 0x477FF000, 0x38800000, 0x387FF000, 0x33000000, 0x33000001, 0x33C00000, 0x3F801000,
          0x3F803000, 0x7F7F8000, 0x00008000, 0x3F808000, 0x3F818000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000,
          0x7FC12345, 0x7F812345, 0xFFC00001, 1, 0x80000000, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0x4F000000, 0xCF000000,
          0x5F000000, 0x3F000000, 0x3FC00000, 0x40200000]  # fmt: skip
DOUBLES = [
    int(np.float64(x).view(np.uint64)) for x in (0.0, -0.0, 1.5, -2.5, 1e300, -1e-310, 2.0**31, -(2.0**63), np.inf)
]
DOUBLES += [0x7FF8000000012345]  # one only: which of two a CPU passes on, PTX does not say


def opcode_kernel() -> tuple[str, int]:
    """Every line of the tables, each on each thread's own operands, and how many 8-byte results a thread leaves."""
    codes = [
        code.strip()
        for code in (INTEGER_CODES + FLOAT_CODES + HALF_CODES).replace("\n", " ").split(";")
        if code.strip()
    ]
    codes += [f"setp.{compare}" for compare in COMPARED]
    loads = "".join(
        f"ld.global.u64 %x{i}, [%at+{8 * i}]; cvt.u32.u64 %w{i}, %x{i}; cvt.u16.u64 %h{i}, %x{i};"
        f"ld.global.u32 %w19, [%at+{8 * i + 40}]; mov.b32 %f{i}, %w19; ld.global.f64 %d{i}, [%at+{8 * i + 80}];\n"
        for i in range(5)
    )
    keep = {"h": "cvt.u64.u16 %x9, %h0;", "w": "cvt.u64.u32 %x9, %w0;", "f": "mov.b32 %w9, %f0; cvt.u64.u32 %x9, %w9;"}
    keep |= {"x": "mov.b64 %x9, %x0;", "d": "mov.b64 %x9, %d0;", "q": "selp.u64 %x9, 1, 2, %q0;"}
    body = [f"mul.wide.u32 %x39, %tid, 120; add.s64 %at, %p0, %x39;\n{loads}setp.lt.u32 %q1, %w1, %w2;"]
    for number, code in enumerate(codes):
        letter = next(c for c in code[code.index("%", 4) :] if c in keep)
        body.append(f"{code};\n{keep[letter]} st.global.u64 [%x38+{8 * number}], %x9;")
    body[0] += f"\nmul.wide.u32 %x37, %tid, {8 * len(codes)}; add.s64 %x38, %p1, %x37;"
    return module("\n".join(body)), len(codes)


def test_every_opcode_gives_the_same_bits() -> None:
    text, results = opcode_kernel()
    random = np.random.default_rng(11)
    lanes = 1024
    given_words = np.zeros((lanes, 15), np.uint64)
    given_words[:, :5] = random.choice(np.array(EDGES, np.uint64), (lanes, 5))
    given_words[::3, :5] = random.integers(0, 2**63, (len(given_words[::3]), 5), np.uint64) * np.uint64(2)
    given_words[:, 5:10] = random.choice(np.array(FLOATS, np.uint64), (lanes, 5))
    given_words[::4, 5:10] = random.integers(0, 2**32, (len(given_words[::4]), 5), np.uint64)
    given_words[:, 10:] = random.choice(np.array(DOUBLES, np.uint64), (lanes, 5))
    given_words[::5, 10:] = random.standard_normal((len(given_words[::5]), 5)).view(np.uint64)
    program = program_of(text)
    params = program.function.params
    arguments = {p.offset: Pointer(number) if number < 2 else 0 for number, p in enumerate(params)}
    buffers = (given_words.view(np.float32), np.zeros((lanes, 2 * results), np.float32))
    launches = [Launch((1, 1, 1), (lanes, 1, 1), arguments)]
    ran = {}
    for engine in ("numpy", "c"):
        bits = run(engine, program, buffers, launches).bits[1]  # type: ignore[arg-type]
        ran[engine] = np.frombuffer(bits, np.uint64).reshape(lanes, results)
    codes = [i.op for i in program.function.instructions]
    different = np.unique(np.nonzero(ran["numpy"] != ran["c"])[1])
    assert not len(different), f"results {different.tolist()} of {len(codes)} instructions differ"


# Rules ----------------------------------------------------------------------------------------------------------------


def pattern_of(offsets: Sequence[int]) -> Array:
    """Offsets as C takes them."""
    return np.array(offsets, np.int64)


def c_rule(name: str, offsets: Sequence[int], *arguments: int) -> int:
    return int(getattr(runtime(), name)(pattern_of(offsets).ctypes.data, *arguments))


@given(
    units=patterns(),
    active=masks(),
    width=st.sampled_from((1, 2, 4, 8, 16)),
    base=st.integers(0, 2**30),
    data=st.data(),
)
def test_rules_agree_with_their_definition(
    units: tuple[int, ...], active: int, width: int, base: int, data: st.DataObject
) -> None:
    offsets = [(base + unit) * width for unit in units]
    space = data.draw(st.sampled_from(("shared", "global")))
    store = data.draw(st.booleans())
    merges = int(space == "shared" and not store)
    assert c_rule("ladder_wavefronts", offsets, width, merges, active) == wavefronts(
        offsets, width, space=space, store=store, active=active
    )
    assert c_rule("ladder_sectors", offsets, active) == sectors(offsets, width, active=active)
    words_ = [(base + unit) * 4 for unit in units]
    assert c_rule("ladder_reduction_wavefronts", words_, active) == reduction_wavefronts(words_, active=active)
    assert c_rule("ladder_reduction_sectors", words_, active) == reduction_sectors(words_, active=active)


@pytest.mark.parametrize("row", [*SHARED[::7], *GLOBAL[::7]], ids=str)
def test_rules_agree_on_measured_requests(row: Measured) -> None:
    space: Literal["shared", "global"] = "global" if row.sectors is not None else "shared"
    store = row.op == "st"
    expected = wavefronts(row.offsets, row.width, space=space, store=store, active=row.active)
    merges = int(space == "shared" and not store)
    assert c_rule("ladder_wavefronts", row.offsets, row.width, merges, row.active) == expected


# The backend ----------------------------------------------------------------------------------------------------------


def backend(engine: Engine, **how: Any) -> EmulatedBackend:
    return EmulatedBackend(load_profile("h200").device, engine=engine, step_limit=STEP_LIMIT, **how)


def attempt(engine: Engine, kernel: Compiled, shape: Shape) -> Outcome | str:
    a, b = operands(shape, specials=False)
    try:
        return backend(engine).run(kernel, a, b, count=True)
    except LadderError as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("name", sorted(path.stem for path in MUTANTS.glob("*.cu")))
@pytest.mark.parametrize("shape", [Shape(m=35, n=79, k=19), Shape(m=64, n=64, k=64), Shape(m=8, n=8, k=9)], ids=str)
def test_mutants_get_the_same_verdict_in_the_same_words(name: str, shape: Shape) -> None:
    expected, got = attempt("numpy", mutant(name), shape), attempt("c", mutant(name), shape)
    if isinstance(expected, str) or isinstance(got, str):
        assert got == expected
        return
    assert got.damage == expected.damage
    assert got.traffic == expected.traffic
    # What the other blocks read while one of them overwrites an input is anybody's guess.
    assert name == "writes_input" or got.c.tobytes() == expected.c.tobytes()


def test_the_backend_takes_c_when_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    monkeypatch.setattr(emulated, "CMachine", lambda *a, **k: used.append("c") or CMachine(*a, **k))
    monkeypatch.setattr(emulated, "Machine", lambda *a, **k: used.append("numpy") or Machine(*a, **k))
    kernel = compiled(RUNGS[0])
    a, b = operands(Shape(m=9, n=9, k=9), specials=False)
    engines: tuple[Engine, ...] = ("auto", "c", "numpy")
    for engine in engines:
        chosen = backend(engine)
        chosen.run(kernel, a, b)
        assert chosen.notes == []
    assert used == ["c", "c", "numpy"]


def test_a_kernel_beyond_c_runs_on_numpy_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(program: Program, block: tuple[int, int, int]) -> None:
        raise UnsupportedPtxError("k.cu:3: PTX `new.op`: opcode new, in C")

    monkeypatch.setattr(emulated, "compile_program", refuse)
    kernel = compiled(RUNGS[0])
    a, b = operands(Shape(m=9, n=9, k=9), specials=False)
    chosen = backend("auto")
    first, second = (chosen.run(kernel, a, b, count=True) for _ in range(2))
    assert first.traffic == second.traffic
    assert len(chosen.notes) == 1
    assert "numpy" in chosen.notes[0]
    assert "new.op" in chosen.notes[0]
    with pytest.raises(UnsupportedPtxError, match=r"new\.op"):
        backend("c").run(kernel, a, b)


def test_a_needless_suspicion_is_told_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def suspect(machine: CMachine, **_: Any) -> None:
        tried.append(machine)
        raise SuspectError

    monkeypatch.setattr(CMachine, "launch", suspect)
    kernel = compiled(RUNGS[0])
    a, b = operands(Shape(m=9, n=9, k=9), specials=False)
    chosen = backend("c")
    first, second = (chosen.run(kernel, a, b).c.tobytes() for _ in range(2))
    assert first == second
    assert len(tried) == len(chosen.notes) == 1
    assert "suspected a fault" in chosen.notes[0]


def test_c_names_an_endless_loop_itself() -> None:
    program = snippet(FAULTS["endless loop"][0])
    launch = snippet_launch(program)
    with pytest.raises(KernelFaultError) as numpy_fault:
        run("numpy", program, words(), [launch])
    with pytest.raises(KernelFaultError) as c_fault:
        run("c", program, words(), [launch])
    assert str(c_fault.value) == str(numpy_fault.value)


def test_lanes_are_counted_alike() -> None:
    """Executed instructions times lanes: C's own count against that of instrumented basic blocks."""
    program = snippet(FAULTLESS["nested divergence"])
    launch = snippet_launch(program)
    counted = 0
    memory = GlobalMemory()
    held = [memory.allocate(name, (1, array.shape[1])) for name, array in zip("ABC", words(), strict=True)]
    for buffer, array in zip(held, words(), strict=True):
        buffer.matrix[...] = array
    arguments = {
        at: held[value.buffer].base if isinstance(value, Pointer) else value for at, value in launch.arguments.items()
    }
    machine = CMachine(in_c(program, launch.block), memory, arguments)
    machine.launch(grid=launch.grid, block=launch.block)
    lanes = 200
    for block in program.blocks:
        length, full, masked = len(block.instructions), block.run, block.run_masked

        def count_full(m: Any, r: Any, length: int = length, full: Any = full) -> None:
            nonlocal counted
            counted += length * lanes
            full(m, r)

        def count_masked(m: Any, r: Any, mask: Any, length: int = length, masked: Any = masked) -> None:
            nonlocal counted
            counted += length * int(np.count_nonzero(mask)) * (lanes // mask.size)
            masked(m, r, mask)

        block.run, block.run_masked = count_full, count_masked
    Machine(program, memory, arguments).launch(grid=launch.grid, block=launch.block)
    assert machine.thread_instructions == counted
