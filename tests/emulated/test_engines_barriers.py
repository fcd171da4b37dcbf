"""Barriers with names on the C engine against the numpy engine: bits, counts, footprints, and the same faults."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from helpers.engines import ORDERS, Launch, Pointer, assert_rung_is_same, assert_same, operands, rung_launches
from helpers.kernels import fast
from helpers.ptx import compile_snippet, program_of
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ladder.model import Shape
from ladder.ptx import Order, Program
from ladder.ptx.c import find_compiler

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="the C engine needs a C compiler, and there is none")

Array = NDArray[Any]
WARPS = 3
THREADS = 32 * WARPS

each_order = pytest.mark.parametrize("order", ORDERS)

PRELUDE = r"""
__device__ void sync(int name, int n) { asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(n) : "memory"); }
__device__ void arrive(int name, int n) { asm volatile("bar.arrive %0, %1;" ::"r"(name), "r"(n) : "memory"); }
__device__ void arrive_if(bool comes) {
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %0, 0; @p bar.arrive 1, 64; }" ::"r"((int)comes) : "memory");
}
__device__ void copy(float* to, const float* from) {
  const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4; cp.async.commit_group;" ::"r"(at), "l"(from) : "memory");
}
__device__ void wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

extern "C" __global__ void k(float* A, float* B, float* C, int n) {
  const int t = threadIdx.x, warp = t / 32;
  __shared__ float x[96], y[96];
"""
FAULTLESS = {
    "a tile handed over": """
        for (int i = 0; i < n; ++i) {
          if (warp == 0) { if (i) sync(2, 64); x[t] = A[t] + i; arrive(1, 64); }
          if (warp == 1) { sync(1, 64); C[t] += x[95 - t - 32]; if (i < n - 1) arrive(2, 64); }
        }""",
    "copies handed over": """
        if (warp == 0) { copy(x + t, A + t); wait(); arrive(1, 64); }
        if (warp == 1) { sync(1, 64); C[t] = x[95 - t - 32]; }""",
    "two of three": "if (warp < 2) { x[t] = A[t]; sync(3, 64); C[t] = x[63 - t]; } else C[t] = B[t];",
    "some leave early": "x[t] = A[t]; if (warp == 2) return; sync(0, 64); C[t] = x[63 - t];",
    "all of those who are left": "if (warp == 1) return; x[t] = A[t]; __syncthreads(); sync(1, 64); C[t] = x[95 - t];",
    "counts and votes": """
        const int c = __syncthreads_count(A[t] > 0), a = __syncthreads_and(t < n), o = __syncthreads_or(A[t] > 2.5f);
        C[t] = c + 1000 * a + 2000 * o;""",
    "votes of those who are left": "if (warp == 1) return; C[t] = __syncthreads_count(t % 3 == 0);",
    "atomics": """
        int* p = reinterpret_cast<int*>(x); if (t == 0) p[0] = 0; __syncthreads(); atomicAdd(p, t); atomicMax(p + 0, 5);
        sync(4, 96); C[t] = p[0];""",
    "arrival under a predicate": "x[t] = 1; arrive_if(warp == 0); if (warp == 1) { sync(1, 64); C[t] = x[t - 32]; }",
    "a part of a warp, which it names itself": """
        x[t] = A[t];
        if (t % 32 < n) { __syncwarp((1u << n) - 1); C[t] = x[t / 32 * 32 + n - 1 - t % 32]; }
        sync(1, 96);""",
    "warps for themselves": """
        x[t] = A[t]; __syncwarp(); C[t] = x[t ^ 3]; sync(1, 96); x[t] = 2; sync(2, 96); C[t] += x[95 - t];""",
}  # fmt: skip
FAULTS = {
    "no order": ("x[t] = A[t]; if (warp == 2) sync(1, 32); C[t] = x[95 - t];", "race|uninitialised"),
    "who arrives learns nothing": (
        "if (warp == 0) { arrive(1, 64); C[t] = x[t + 32]; } if (warp == 1) { x[t] = 1; sync(1, 64); }",
        "race|uninitialised",
    ),
    "overwritten too early": (
        "x[t] = 1; sync(1, 96); C[t] = x[95 - t]; if (warp == 0) sync(2, 32); x[t] = 2;",
        "race",
    ),
    "nobody comes": ("C[t] = 1; if (warp == 0) sync(1, 64);", "divergent barrier"),
    "half a warp": ("if (t < 16) sync(1, 32); C[t] = 1;", "divergent barrier"),
    "half a warp that waits elsewhere": ("if (t < 16) sync(1, 96); else sync(2, 96); C[t] = 1;", "divergent barrier"),
    "a part of a warp that names others": ("if (t % 32 < n) __syncwarp((2u << n) - 1); sync(1, 96);", "divergent"),
    "parts of a warp that disagree": (
        "if (t % 32 < n) __syncwarp(t % 2 ? (1u << n) - 1 : 0xffff); sync(1, 96);",
        "divergent warp",
    ),
    "an odd count": ("sync(1, 40); C[t] = 1;", "invalid barrier"),
    "a count for each lane": ("sync(1, t < 32 ? 96 : 96 + t % 2 * 32); C[t] = 1;", "invalid barrier"),
    "counts that differ": ("sync(1, warp == 2 ? 64 : 96); C[t] = 1;", "invalid barrier"),
    "a name too many": ("sync(n + 11, 96); C[t] = 1;", "invalid barrier"),
    "more than it waits for": ("sync(1, 64); C[t] = 1;", "invalid barrier|divergent barrier"),
    "copies not waited for": (
        "if (warp == 0) { copy(x + t, A + t); arrive(1, 64); } if (warp == 1) { sync(1, 64); C[t] = x[t - 32]; }",
        "use before",
    ),
}


@cache
def snippet(body: str) -> Program:
    kernel = compile_snippet(f"{PRELUDE}{body}\n}}\n", "k", arch="sm_80")
    return program_of(kernel.ptx, kernel.lowered_name)


@cache
def words() -> tuple[Array, ...]:
    random = np.random.default_rng(5)
    a, b = (random.standard_normal((1, THREADS), np.float32) for _ in range(2))
    return a, b, np.zeros((1, THREADS), np.float32)


def launch_of(program: Program, n: int, *, blocks: int = 1) -> Launch:
    values = (Pointer(0), Pointer(1), Pointer(2), n)
    arguments = {p.offset: value for p, value in zip(program.function.params, values, strict=True)}
    return Launch((blocks, 1, 1), (THREADS, 1, 1), arguments)


@pytest.mark.parametrize("name", FAULTLESS)
@each_order
def test_named_barriers_give_the_same_bits_and_counts(name: str, order: Order) -> None:
    program = snippet(FAULTLESS[name])
    assert program.named_barriers
    assert assert_same(program, words(), [launch_of(program, 5)], order=order) is None


@pytest.mark.parametrize("name", FAULTS)
@each_order
def test_c_misses_no_fault_at_named_barriers(name: str, order: Order) -> None:
    body, kind = FAULTS[name]
    program = snippet(body)
    fault = assert_same(program, words(), [launch_of(program, 5)], order=order)
    assert fault is not None
    assert any(word in fault.kind for word in kind.split("|")), fault


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90"])
@pytest.mark.parametrize("shape", ["32x32x40", "35x79x19", "1x1x1", "5x7x0"])
def test_producers_and_consumers_give_the_same(shape: str, arch: str) -> None:
    assert_rung_is_same(fast("producer", arch=arch), Shape.parse(shape), specials=True)


@each_order
def test_producers_and_consumers_give_the_same_warp_after_warp(order: Order) -> None:
    assert_rung_is_same(fast("producer"), Shape.parse("70x43x45"), order=order)


@pytest.mark.parametrize("params", [{"FULL": 0}, {"EMPTY": 0}], ids=str)
@each_order
def test_c_misses_no_fault_of_a_producer(params: dict[str, int], order: Order) -> None:
    kernel, shape = fast("producer", **params), Shape.parse("32x32x40")
    program = program_of(kernel.ptx, kernel.lowered_name)
    a, b = operands(shape, specials=False)
    c = np.full((shape.m, shape.n), np.nan, np.float32)
    assert assert_same(program, (a, b, c), rung_launches(kernel.rung, program, shape), order=order) is not None


# Any sequence of barriers and accesses, each warp its own -------------------------------------------------------------

MACHINE = """
  const int* step = reinterpret_cast<const int*>(B) + 2 * warp;
  x[t] = t; __syncthreads();
  float s = 0;
  for (int i = 0; i < n; ++i, step += 2 * 3) {
    const int what = step[0], at = (t % 32 + step[1]) % 96;
    if (what == 1) sync(0, 96);
    else if (what == 2) sync(1, 64);
    else if (what == 3) arrive(1, 64);
    else if (what == 4) __syncthreads();
    else if (what == 5) __syncwarp();
    else if (what == 6) s = s * 3 + *(volatile float*)(x + at);
    else if (what == 7) *(volatile float*)(x + at) = s;
    else if (what == 8) atomicAdd(reinterpret_cast<int*>(x) + at, 1);
    else if (what == 9) { copy(x + at, A + t); }
    else if (what == 10) wait();
    else if (what == 11) return;
  }
  C[t] = s;"""
CODES = ["nothing", "sync", "sync of two", "arrive", "__syncthreads", "__syncwarp", "read", "write", "atomic", "copy",
         "wait", "return"]  # fmt: skip
COMMON = ["sync", "__syncthreads", "read", "read", "write", "copy", "wait"]

of_warp = st.tuples(st.sampled_from([*CODES, *COMMON]).map(CODES.index), st.sampled_from([0, 1, 32, 64]))
one_for_all = st.tuples(st.sampled_from(COMMON).map(CODES.index), st.sampled_from([0, 32])).map(
    lambda step: (step,) * WARPS
)
own_words = st.sampled_from(["read", "write"]).map(
    lambda name: tuple((CODES.index(name), 32 * warp) for warp in range(WARPS))
)
steps = st.lists(st.one_of(st.tuples(*[of_warp] * WARPS), one_for_all, own_words), min_size=1, max_size=14)


@given(program=steps, order=st.sampled_from(ORDERS))
def test_any_sequence_of_barriers_is_judged_alike(program: list[Any], order: Order) -> None:
    code = snippet(MACHINE)
    a, _, c = words()
    script = np.array(program, np.int32).reshape(1, -1).view(np.float32)
    assert_same(code, (a, script, c), [launch_of(code, len(program))], order=order)
