"""``cp.async`` on the C engine against the numpy engine: bits, counts, footprints, and no early use that it misses."""

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
THREADS = 64

each_order = pytest.mark.parametrize("order", ORDERS)
each_arch = pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90"])

PRELUDE = r"""
__device__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
template <int BYTES> __device__ void copy(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(to)), "l"(from), "n"(BYTES) : "memory");
}
template <int BYTES> __device__ void copy(void* to, const void* from, int size) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
               ::"r"(shared_address(to)), "l"(from), "n"(BYTES), "r"(size) : "memory");
}
template <int BYTES> __device__ void copy_unless(bool ignored, void* to, const void* from) {
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0; cp.async.ca.shared.global [%0], [%1], %2, p; }"
               ::"r"(shared_address(to)), "l"(from), "n"(BYTES), "r"((int)ignored) : "memory");
}
template <int BYTES> __device__ void copy_if(bool wanted, void* to, const void* from) {
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0; @p cp.async.ca.shared.global [%0], [%1], %2; }"
               ::"r"(shared_address(to)), "l"(from), "n"(BYTES), "r"((int)wanted) : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int KEEP> __device__ void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(KEEP) : "memory"); }
__device__ void wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

extern "C" __global__ void k(float* A, float* B, float* C, int n) {
  const int t = threadIdx.x;
  __shared__ alignas(16) float x[4 * 64], y[4 * 64];
"""
FAULTLESS = {
    "sixteen bytes": """
        copy<16>(x + 4 * t, A + 4 * t); wait_all(); __syncthreads();
        for (int i = 0; i < 4; ++i) C[4 * t + i] = x[(4 * t + i * 65) % 256];""",
    "eight and four bytes": """
        copy<8>(x + 4 * t, A + 4 * t + 2 * (t % 2)); copy<8>(x + 4 * t + 2, B + 2 * t);
        for (int i = 0; i < 4; ++i) copy<4>(y + 64 * i + t, A + (t * 4 + i * 37) % 256);
        commit(); wait<0>(); __syncthreads();
        for (int i = 0; i < 4; ++i) C[4 * t + i] = x[(4 * t + i * 65) % 256] + y[255 - 4 * t - i];""",
    "sizes from nothing to all": """
        copy<16>(x + 4 * t, t % 17 ? A + 4 * t : A - 1000, t % 17); copy<8>(y + 2 * t, B + 2 * t, t % 9);
        copy<4>(y + 128 + t, A + t, t % 5); wait_all(); __syncthreads();
        for (int i = 0; i < 4; ++i) C[4 * t + i] = x[(4 * t + i * 65) % 256] + y[(255 - t - 64 * i) % 192];""",
    "all or nothing": """
        copy<16>(x + 4 * t, A + 4 * (t < n ? t : 1000), t < n ? 16 : 0); copy_unless<4>(t % 3 == 0, y + t, B + t);
        wait_all(); __syncthreads();
        for (int i = 0; i < 4; ++i) C[4 * t + i] = x[(4 * t + i * 65) % 256] + y[63 - t];""",
    "some lanes by a predicate": """
        x[t] = y[t] = -1; __syncthreads();
        copy_if<4>(t % 5 < 2, x + 63 - t, A + 3 * t); if (t & 8) copy<4>(y + t, B + t);
        wait_all(); __syncthreads();
        C[t] = x[t] + y[t ^ 1];""",
    "copies that lie awkwardly in the banks": """
        copy<16>(x + t % 8 * 32 + t / 8 * 4, A + t / 4 * 16 + t % 4 * 4);
        copy<4>(y + t % 2 * 128 + t / 2 * 4, A + t % 4 * 64 + t / 4); wait_all(); __syncthreads();
        for (int i = 0; i < 4; ++i) C[4 * t + i] = x[4 * t + i] + y[t % 2 * 128 + t / 2 * 4];""",
    "groups of each lane's own": """
        for (int i = 0; i < t % 4; ++i) { copy<4>(x + 64 * i + t, A + 64 * i + t); commit(); }
        wait<1>(); float s = 0; for (int i = 0; i < t % 4 - 1; ++i) s += x[64 * i + t];
        wait<0>(); if (t % 4) s += x[64 * (t % 4 - 1) + t]; C[t] = s;""",
    "a ring of three": """
        float s = 0;
        for (int i = 0; i < 2; ++i) { copy<4>(x + 64 * i + t, A + 64 * i + t); commit(); }
        for (int i = 0; i < 9; ++i) {
          wait<1>(); __syncthreads();
          if (i < 7) copy<4>(x + (i + 2) % 3 * 64 + t, A + (i + 2) * 24 + t);
          commit(); s = s * 3 + x[i % 3 * 64 + (t + 7 * i) % 64];
        }
        C[t] = s;""",
    "a warp for itself": """
        copy<4>(x + t, A + t); wait_all(); __syncwarp(); C[t] = x[t ^ 5]; __syncwarp();
        copy<4>(x + t, B + t); wait_all(); __syncwarp(); C[64 + t] = x[t ^ 9];""",
    "nobody waits and nobody looks": "copy<4>(x + t, A + t); if (t & 1) commit(); C[t] = 1;",
    "source and target in turn": """
        x[t] = t; __syncthreads(); float s = x[63 - t]; __syncthreads();
        copy<4>(x + t, A + t); s += y == x; wait_all(); s += x[t]; C[t] = s;""",
}
FAULTS = {
    "read before the wait": ("copy<4>(x + t, A + t); C[t] = x[t];", "use before"),
    "read after a wait for another group": (
        "copy<4>(x + t, A + t); commit(); copy<4>(y + t, B + t); commit(); wait<1>(); C[t] = x[t] + y[t];",
        "use before",
    ),
    "a group that was never committed": ("copy<4>(x + t, A + t); wait<0>(); C[t] = x[t];", "use before"),
    "written under way": ("copy<4>(x + t, A + t); commit(); x[t] = 1; wait<0>(); C[t] = x[t];", "use before"),
    "copied twice": ("copy<4>(x + t, A + t); copy<4>(x + t, B + t); wait_all(); C[t] = x[t];", "use before"),
    "copied twice in a loop": (
        "for (int i = 0; i < n; ++i) copy<4>(x + t, A + t + i); wait_all(); C[t] = x[t];",
        "use before",
    ),
    "read in a later epoch": (
        "copy<4>(x + t, A + t); commit(); __syncthreads(); C[t] = x[t]; wait<0>();",
        "use before",
    ),
    "another thread's, which has not waited": (
        "copy<4>(x + t, A + t); if (t != 9) wait_all(); __syncthreads(); C[t] = x[63 - t];",
        "use before",
    ),
    "read again after the copy": (
        """x[t] = 1; __syncthreads(); float s = 0;
        for (int i = 0; i < 3; ++i) { s += *(volatile float*)(x + t); if (i == 1) copy<4>(x + t, A + t); }
        wait_all(); C[t] = s;""",
        "use before",
    ),
    "no barrier after the wait": ("copy<4>(x + t, A + t); wait_all(); C[t] = x[63 - t];", "race|uninitialised"),
    "no barrier before the copy": (
        "x[t] = 1; __syncthreads(); C[t] = x[63 - t]; copy<4>(x + t, A + t); wait_all();",
        "race",
    ),
    "two lanes, one place": ("copy<4>(x + t / 2, A + t); wait_all(); __syncthreads(); C[t] = x[t % 32];", "race"),
    "too wide a size": ("copy<8>(x + 2 * t, A + 2 * t, t == 63 ? 9 : 8); C[t] = 0;", "invalid copy"),
    "source out of bounds": ("copy<16>(x + 4 * t, A + 4 * t + 4); C[t] = 0;", "out of bounds"),
    "part of a source out": ("copy<8>(y + 2 * t, A + (t == 40 ? 256 : 2 * t), 5); C[t] = 0;", "out of bounds"),
    "target out of bounds": ("copy<16>(y + 4 * t + 4, A + 4 * t); C[t] = 0;", "out of bounds"),
    "source misaligned": ("copy<8>(x + 2 * t, A + 2 * t + 1); C[t] = 0;", "misaligned"),
    "target misaligned": ("copy<8>(x + 2 * t + 1, A + 2 * t); C[t] = 0;", "misaligned"),
}  # fmt: skip


@cache
def snippet(body: str) -> Program:
    kernel = compile_snippet(f"{PRELUDE}{body}\n}}\n", "k", arch="sm_80")
    return program_of(kernel.ptx, kernel.lowered_name)


@cache
def words() -> tuple[Array, ...]:
    random = np.random.default_rng(5)
    a, b = (random.standard_normal((1, 256), np.float32) for _ in range(2))
    return a, b, np.zeros((1, 256), np.float32)


def launch_of(program: Program, n: int, *, blocks: int = 2) -> Launch:
    values = (Pointer(0), Pointer(1), Pointer(2), n)
    arguments = {p.offset: value for p, value in zip(program.function.params, values, strict=True)}
    return Launch((blocks, 1, 1), (THREADS, 1, 1), arguments)


@pytest.mark.parametrize("name", FAULTLESS)
@each_order
def test_copies_give_the_same_bits_and_counts(name: str, order: Order) -> None:
    program = snippet(FAULTLESS[name])
    assert assert_same(program, words(), [launch_of(program, 5)], order=order) is None


@pytest.mark.parametrize("name", FAULTS)
@each_order
def test_c_misses_no_early_use(name: str, order: Order) -> None:
    body, kind = FAULTS[name]
    program = snippet(body)
    fault = assert_same(program, words(), [launch_of(program, 5)], order=order)
    assert fault is not None
    assert any(word in fault.kind for word in kind.split("|")), fault


@pytest.mark.parametrize("shape", ["64x64x16", "128x192x80"])
@pytest.mark.parametrize("stages", [2, 3, 7])
@each_arch
def test_pipelines_give_the_same_bits_and_counts(shape: str, stages: int, arch: str) -> None:
    assert_rung_is_same(fast("pipeline", arch=arch, STAGES=stages), Shape.parse(shape))


@each_order
def test_pipelines_give_the_same_warp_after_warp(order: Order) -> None:
    assert_rung_is_same(fast("pipeline"), Shape.parse("64x128x96"), order=order)


@pytest.mark.parametrize("params", [{"WAIT": 0}, {"BARRIER": 0}], ids=str)
@each_order
def test_c_misses_no_fault_of_a_pipeline(params: dict[str, int], order: Order) -> None:
    kernel, shape = fast("pipeline", **params), Shape.parse("64x64x64")
    program = program_of(kernel.ptx, kernel.lowered_name)
    a, b = operands(shape, specials=False)
    c = np.full((shape.m, shape.n), np.nan, np.float32)
    assert assert_same(program, (a, b, c), rung_launches(kernel.rung, program, shape), order=order) is not None


# Any sequence of copies, waits and barriers ---------------------------------------------------------------------------

MACHINE = """
  const int* step = reinterpret_cast<const int*>(B);
  for (int i = t; i < 256; i += 64) x[i] = i;
  __syncthreads();
  float s = 0;
  for (int i = 0; i < n; ++i, step += 65) {
    const int what = step[0], slot = step[1 + t];
    if (what == 0) __syncthreads();
    else if (slot >= 0) {
      if (what == 1) copy<16>(x + 4 * slot, A + 4 * slot);
      else if (what == 2) copy<16>(x + 4 * slot, A + 4 * slot, 4 * (slot % 5));
      else if (what == 3) copy<4>(x + 4 * slot + 1, A + slot);
      else if (what == 4) commit();
      else if (what == 5) wait<0>();
      else if (what == 6) wait<1>();
      else if (what == 7) wait_all();
      else if (what == 8) s = s * 3 + *(volatile float*)(x + 4 * slot + 1);
      else if (what == 9) *(volatile float*)(x + 4 * slot + 2) = s;
    }
  }
  C[t] = s;"""
OWN = np.arange(THREADS)
PLACES = {
    "own": OWN,
    "of a neighbour": OWN ^ 1,
    "of another warp": (OWN + 32) % 64,
    "own, of some lanes": np.where(OWN % 3 == 1, OWN, -1),
    "own, of a warp": np.where(OWN < 32, OWN, -1),
    "of a neighbour, of some lanes": np.where(OWN % 7 == 3, OWN ^ 1, -1),
}


def step(code: int, place: str) -> Array:
    return np.concatenate([[code], PLACES[place]]).astype(np.int32)


steps = st.lists(
    st.builds(step, st.sampled_from([0, 0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9]), st.sampled_from(list(PLACES))),
    min_size=1,
    max_size=24,
)


@given(program=steps, order=st.sampled_from(ORDERS))
def test_any_sequence_of_copies_is_judged_alike(program: list[Array], order: Order) -> None:
    code = snippet(MACHINE)
    a, _, c = words()
    script = np.concatenate(program).view(np.float32)[None, :]
    assert_same(code, (a, script, c), [launch_of(code, len(program), blocks=1)], order=order)
