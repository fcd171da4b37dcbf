// wavefronts.cu -- what takes wavefronts of the SM's data pipe, one thing at a time.
//
// Launched under ncu by bench/wavefront_probe, which names the instantiations that it needs. All memory that is loaded
// holds zeros, and zeros are all that is stored.
#include "../laws/tile_product.cu"

typedef unsigned u32;

// Lane l of warp w of block b asks, in request i, for
//   base + b block_step + w warp_step + (l / g) pitch + (l % g) q + (i >> dup) step   (step for lanes in step_mask only).
struct P {
  char* base;
  u32 g, pitch, q, active, step_mask;
  u32 n, step, dup, reps, gap, touch;
  u32 warp_step, block_step;
  u32 dg, dpitch, dq, dstep, dwarp;  // the same for the shared side
  u32 split;                         // k_mix: warps below it play role A
  u32 n2, gap2;                      // role B (LDS/STS side)
};

template <int W>
__device__ __forceinline__ void store(char* p) {
  const u32 z = 0;
  if constexpr (W == 4) asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(z) : "memory");
  if constexpr (W == 8) asm volatile("st.global.v2.u32 [%0], {%1, %1};" ::"l"(p), "r"(z) : "memory");
  if constexpr (W == 16) asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(p), "r"(z) : "memory");
}

__device__ __forceinline__ void spin(u32 gap) {
  if (gap == 0) return;
  const u32 begun = clock();
  while (u32(clock()) - begun < gap) {}
}

template <int W, int POL>
__device__ __forceinline__ u32 load(const char* p) {
  u32 a, b = 0, c = 0, d = 0;
  if constexpr (W == 4 && POL == 0) asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(a) : "l"(p) : "memory");
  if constexpr (W == 4 && POL == 1) asm volatile("ld.global.u32 %0, [%1];" : "=r"(a) : "l"(p) : "memory");
  if constexpr (W == 4 && POL == 2) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(a) : "l"(p) : "memory");
  if constexpr (W == 8) asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "l"(p) : "memory");
  if constexpr (W == 16)
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(p) : "memory");
  return a | b | c | d;
}

__device__ __forceinline__ void reduce(char* p) {
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(p), "f"(0.0f) : "memory");
}

struct Lane {
  char* at;
  u32 step;
  bool on;
};

__device__ __forceinline__ Lane place(const P& p, u32 warp) {
  const u32 lane = threadIdx.x & 31;
  Lane l;
  l.at = p.base + size_t(blockIdx.x) * p.block_step + size_t(warp) * p.warp_step + (lane / p.g) * p.pitch + (lane % p.g) * p.q;
  l.step = (p.step_mask >> lane & 1) ? p.step : 0;
  l.on = p.active >> lane & 1;
  return l;
}

// Loads, U in flight; the next U wait for them (memory is zero, so their sum moves nothing).
template <int W, int POL, int U>
__device__ __forceinline__ void run_loads(const P& p, const Lane& l) {
  u32 zero = 0;
  for (u32 r = 0; r < p.reps; ++r) {
    for (u32 i = 0; i < p.n; i += U) {
      u32 v[U];
#pragma unroll
      for (int u = 0; u < U; ++u) v[u] = load<W, POL>(l.at + zero + ((i + u) >> p.dup) * l.step);
#pragma unroll
      for (int u = 0; u < U; ++u) zero += v[u];
      spin(p.gap);
    }
  }
  if (zero == 0x9e3779b9u) store<4>(l.at);  // never, but ptxas must not know that
}

template <int W, int POL, int U>
__global__ void k_ld(P p) {
  const Lane l = place(p, threadIdx.x / 32);
  if (!l.on) return;
  run_loads<W, POL, U>(p, l);
}

template <int W, int U>
__global__ void k_st(P p) {
  const Lane l = place(p, threadIdx.x / 32);
  if (!l.on) return;
  u32 zero = 0;
  if (p.touch)
    for (u32 i = 0; i < p.n; ++i) zero += load<W, W == 4 ? 1 : 0>(l.at + (i >> p.dup) * l.step);
  for (u32 r = 0; r < p.reps; ++r)
    for (u32 i = 0; i < p.n; i += U) {
#pragma unroll
      for (int u = 0; u < U; ++u) store<W>(l.at + zero + ((i + u) >> p.dup) * l.step);
      spin(p.gap);
    }
}

template <int U>
__global__ void k_red(P p) {
  const Lane l = place(p, threadIdx.x / 32);
  if (!l.on) return;
  u32 zero = 0;
  if (p.touch)
    for (u32 i = 0; i < p.n; ++i) zero += load<4, 1>(l.at + (i >> p.dup) * l.step);
  for (u32 r = 0; r < p.reps; ++r)
    for (u32 i = 0; i < p.n; i += U) {
#pragma unroll
      for (int u = 0; u < U; ++u) reduce(l.at + zero + ((i + u) >> p.dup) * l.step);
      spin(p.gap);
    }
}

extern __shared__ __align__(128) char smem[];

__device__ __forceinline__ u32 shared_at(const P& p, u32 warp) {
  const u32 lane = threadIdx.x & 31;
  return u32(__cvta_generic_to_shared(smem)) + warp * p.dwarp + (lane / p.dg) * p.dpitch + (lane % p.dg) * p.dq;
}

// Role B: n2 groups of four LDS.32 (OP 1), four LDS.128 (OP 2), four STS.32 (OP 3).
template <int OP>
__device__ __forceinline__ void run_shared(const P& p, u32 warp) {
  const u32 at = shared_at(p, warp);
  u32 sum = 0;
  for (u32 i = 0; i < p.n2; ++i) {
    const u32 a = at + (i & 7) * p.dstep;
    u32 v[4] = {}, w[4] = {};
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      if constexpr (OP == 1) asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(v[u]) : "r"(a) : "memory");
      if constexpr (OP == 2) {
        u32 x, y;
        asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v[u]), "=r"(w[u]), "=r"(x), "=r"(y) : "r"(a) : "memory");
        v[u] ^= x ^ y;
      }
      if constexpr (OP == 3) asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(a), "r"(i) : "memory");
    }
#pragma unroll
    for (int u = 0; u < 4; ++u) sum ^= v[u] ^ w[u];
    spin(p.gap2);
  }
  if (sum == 0x9e3779b9u && p.n2 > 0x7fffffffu) store<4>(p.base);  // never
}

// Role A of the warps below split (global side), role B of the others (shared side). A: 0 none, 1 loads one at a time,
// 2 loads by eight, 3 stores, 4 reductions.
template <int A, int B>
__global__ void k_mix(P p) {
  const u32 warp = threadIdx.x / 32;
  if (warp < p.split) {
    const Lane l = place(p, warp);
    if (!l.on) return;
    if constexpr (A == 1) run_loads<4, 0, 1>(p, l);
    if constexpr (A == 2) run_loads<4, 0, 8>(p, l);
    if constexpr (A == 3 || A == 4)
      for (u32 r = 0; r < p.reps; ++r)
        for (u32 i = 0; i < p.n; ++i) {
          if constexpr (A == 3) store<4>(l.at + (i >> p.dup) * l.step);
          if constexpr (A == 4) reduce(l.at + (i >> p.dup) * l.step);
          spin(p.gap);
        }
  } else {
    if constexpr (B > 0) run_shared<B>(p, warp - p.split);
  }
}

// cp.async of W bytes a lane, through L1 (CA) or past it, U in flight.
template <int W, int CA, int U>
__global__ void k_copy(P p) {
  const u32 warp = threadIdx.x / 32;
  const Lane l = place(p, warp);
  const u32 to = shared_at(p, warp);
  if (!l.on) return;
  for (u32 r = 0; r < p.reps; ++r)
    for (u32 i = 0; i < p.n; i += U) {
#pragma unroll
      for (int u = 0; u < U; ++u) {
        const char* from = l.at + ((i + u) >> p.dup) * l.step;
        const u32 d = to + ((i + u) & 3) * p.dstep;
        if constexpr (CA) asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(d), "l"(from), "n"(W) : "memory");
        else asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(d), "l"(from) : "memory");
      }
      asm volatile("cp.async.commit_group;\n cp.async.wait_group 0;" ::: "memory");
      spin(p.gap);
    }
}

// tile_product of the ladder with parts left out or moved. MODE bits: 1 a barrier before the result is sent, 2 stores in
// place of reductions, 4 nothing is sent, 8 no product (the sum is a word of the thread's own), 16 operands come from
// shared memory alone (no global loads), 32 the reductions of a block are spread in time, a warp after the other.
template <int T, int NT, int MODE>
__global__ void __launch_bounds__(NT)
k_tile(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
  constexpr int ROWS = NT / T, PASSES = T / ROWS;
  __shared__ float As[T][T];
  __shared__ float Bs[T][T];
  const unsigned tx = threadIdx.x % T, ty = threadIdx.x / T;
  const unsigned row0 = blockIdx.y * T, col = blockIdx.x * T + tx;
  for (unsigned k0 = blockIdx.z * T; k0 < K; k0 += gridDim.z * T) {
#pragma unroll
    for (int i = 0; i < PASSES; ++i) {
      const unsigned y = ty + i * ROWS;
      if constexpr (MODE & 16) {
        As[y][tx] = 0.0f;
        Bs[y][tx] = 0.0f;
      } else {
        As[y][tx] = row0 + y < M && k0 + tx < K ? A[size_t(row0 + y) * K + (k0 + tx)] : -0.0f;
        Bs[y][tx] = k0 + y < K && col < N ? B[size_t(k0 + y) * N + col] : 0.0f;
      }
    }
    __syncthreads();
    float acc[PASSES] = {};
    if constexpr (MODE & 8) {
#pragma unroll
      for (int i = 0; i < PASSES; ++i) acc[i] = As[ty + i * ROWS][tx] + Bs[ty + i * ROWS][tx];
    } else {
#pragma unroll
      for (int k = 0; k < T; ++k) {
        const float b = Bs[k][tx];
#pragma unroll
        for (int i = 0; i < PASSES; ++i) acc[i] = fmaf(As[ty + i * ROWS][k], b, acc[i]);
      }
    }
    if constexpr (MODE & 1) __syncthreads();
    if constexpr (MODE & 32) spin(200 * (threadIdx.x / 32 + 1));
#pragma unroll
    for (int i = 0; i < PASSES; ++i) {
      const unsigned row = row0 + ty + i * ROWS;
      if constexpr (MODE & 4) {
        if (acc[i] == 1.0f) C[size_t(row) * N + col] = acc[i];  // never
      } else if (row < M && col < N) {
        if constexpr (MODE & 2) C[size_t(row) * N + col] = acc[i];
        else atomicAdd(&C[size_t(row) * N + col], acc[i]);
      }
    }
    __syncthreads();
  }
}
