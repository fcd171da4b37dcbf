// 11_slice_k.cu -- rung 10 for small products: the warps of a block share one tile of C and divide K.
//
// C = A @ B, row-major f32: A (M, K), B (K, N), C (M, N).
//
// Removes   the idle multiprocessors of a small product: C has 16 tiles of 128 x 128 where N = 512, and an H200 has 132
//           multiprocessors.
// How       small tiles, and SLICES groups of warps to each: a group multiplies its share of every k-tile, and at the end
//           the groups add up their sums through shared memory, in an order that never changes. So 128 blocks of eight
//           warps work where N = 512, and each warp keeps a tile that is worth its loads.
// Leaves    intensity: half the tile edge, half the reuse of every word from L2, which large products feel.
// Source    NVIDIA, "CUTLASS: Efficient GEMM in CUDA" (sliced-K reduction between warps of a threadblock).
//
// /// rung
// title      = "Sliced K, {BM} x {BN}"
// kernel     = "slice_k"
// sweep      = { BM = [32, 64], BN = [64, 128], BK = [64, 32], WM = [32, 64], TN = [4, 8], SLICES = [4, 2] }
// params     = { WN = 32, TM = 8, STAGES = 4, NUM_THREADS = 256 }
// min_cc     = 80
// smem_bytes = "4 * STAGES * BK * (BM + 4 + BN)"
// ordered    = false
// law        = "c_stationary"
// ///

#include "cp_async.cuh"

template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int STAGES, int SLICES, int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS)
slice_k(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
  constexpr int LANES_M = WM / TM;               // lanes along the rows of a warp's tile
  constexpr int LANES_N = WN / TN;               // and along its columns
  constexpr int WARPS = (BM / WM) * (BN / WN);   // of one slice
  constexpr int SLICE = BK / SLICES;             // k of every tile that a slice multiplies
  constexpr int PITCH = BM + 4;                  // words from one k of As to the next
  constexpr int LOOK = 2;                      // the k of a slice at which the next tile is looked for
  constexpr int STAGE = BK * (PITCH + BN);       // words of a stage: As [BK][PITCH], Bs [BK][BN]
  constexpr int SUMS = SLICES / 2 * BM * BN;     // words of the sums that slices hand over at once
  static_assert(32 * WARPS * SLICES == NUM_THREADS, "one warp per WM x WN tile and slice");
  static_assert(LANES_M * LANES_N == 32 && (LANES_M == 4 || LANES_M == 8), "the numbering of lanes below");
  static_assert(SLICE % 2 == 0 && (SLICES & (SLICES - 1)) == 0, "slices are alike, and are added up in pairs");
  static_assert(LOOK % 2 == 0 && SLICE % 2 == 0 && LOOK < SLICE && STAGES > 2, "fragments alternate between two sets");
  static_assert(BK % 8 == 0 && NUM_THREADS % (4 * BK) == 0 && BM % (NUM_THREADS / BK) == 0, "whole passes of rows of A");
  static_assert(NUM_THREADS % (BN / 4) == 0 && BK % (NUM_THREADS / (BN / 4)) == 0, "and of rows of B");
  static_assert(SUMS + WARPS * LANES_M * WN <= STAGES * STAGE && 128 % WN == 0, "the sums fit");

  extern __shared__ __align__(16) float tiles[];
  const int warp = threadIdx.x / 32 % WARPS;
  const int slice = threadIdx.x / 32 / WARPS;
  const int lane = threadIdx.x % 32;

  // Copies. Of A single words, so that they land turned: a warp takes 8 k of 4 rows, whole sectors of global memory, and
  // they land in 32 different banks, since a k is BM + 4 words from the next: 4 k + m.
  constexpr int A_WARPS = BK / 8;                // warps side by side along k
  constexpr int A_ROWS = NUM_THREADS / BK;       // rows that the block takes in one pass
  constexpr int B_ROWS = NUM_THREADS / (BN / 4);
  const int ax = threadIdx.x / 32 % A_WARPS * 8 + threadIdx.x % 8;
  const int ay = threadIdx.x / 32 / A_WARPS * 4 + threadIdx.x % 32 / 8;
  const int bx = threadIdx.x % (BN / 4) * 4;
  const int by = threadIdx.x / (BN / 4);
  const int row0 = blockIdx.y * BM;
  const int col0 = blockIdx.x * BN;
  const int k_tiles = (K + BK - 1) / BK;
  const float* const a_from = A + size_t(row0 + ay) * K + ax;
  const float* const b_from = B + size_t(by) * N + col0 + bx;
  const unsigned a_to = shared_address(tiles + ax * PITCH + ay);
  const unsigned b_to = shared_address(tiles + BK * PITCH + by * BN + bx);
  const bool wide_b = N % 4 == 0 && reinterpret_cast<size_t>(B) % 16 == 0;
  const auto copy = [&](int t, int s) {
    const int k0 = t * BK;
#pragma unroll
    for (int y = 0; y < BM; y += A_ROWS) {
      const bool inside = row0 + ay + y < M && k0 + ax < K;
      cp_async<4>(a_to + 4 * (s * STAGE + y), a_from + size_t(y) * K + k0, inside ? 4 : 0);
    }
#pragma unroll
    for (int y = 0; y < BK; y += B_ROWS) {
      const float* from = b_from + size_t(k0 + y) * N;
      const unsigned to = b_to + 4 * (s * STAGE + y * BN);
      const int inside = k0 + by + y < K ? N - col0 - bx : 0;
      if (wide_b) {
        cp_async<16>(to, from, inside > 0 ? 16 : 0);
      } else {
#pragma unroll
        for (int x = 0; x < 4; ++x) cp_async<4>(to + 4 * x, from + x, x < inside ? 4 : 0);
      }
    }
  };

  // Lane bit 0 and the last ones number the rows of lanes, those between the columns: a lane's neighbour lane ^ 1 loads
  // the same words of Bs, lane ^ 2 the same of As, and so each 16-byte load is served in two wavefronts, not four.
  const int lane_m = lane % 2 + lane / (2 * LANES_N) * 2;
  const int lane_n = lane / 2 % LANES_N;
  const int warp_m = warp / (BN / WN) * WM;
  const int warp_n = warp % (BN / WN) * WN;
  const float* const as_first = tiles + slice * SLICE * PITCH + warp_m + 4 * lane_m;
  const float* const bs_first = tiles + BK * PITCH + slice * SLICE * BN + warp_n + 4 * lane_n;

  float acc[TM][TN] = {};
  float a[2][TM], b[2][TN];
  const auto load = [](float (&to_a)[TM], float (&to_b)[TN], const float* as, const float* bs) {
#pragma unroll
    for (int i = 0; i < TM; i += 4) {
      *reinterpret_cast<float4*>(to_a + i) = *reinterpret_cast<const float4*>(as + i * LANES_M);
    }
#pragma unroll
    for (int j = 0; j < TN; j += 4) {
      *reinterpret_cast<float4*>(to_b + j) = *reinterpret_cast<const float4*>(bs + j * LANES_N);
    }
  };
  // Along a row, back and forth: of the two factors one is then always in the reuse cache, and each fused multiply-add
  // reads two new registers, b[j] and its sum. They must lie in different banks (odd and even): see below.
  const auto multiply = [&](const float (&row)[TM], const float (&col)[TN]) {
#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
      for (int x = 0; x < TN; ++x) {
        const int j = i % 2 ? TN - 1 - x : x;
        acc[i][j] = fmaf(row[i], col[j], acc[i][j]);
      }
    }
  };

#pragma unroll
  for (int t = 0; t < STAGES - 1; ++t) {
    if (t < k_tiles) copy(t, t);
    cp_async_commit();  // one group a stage, also where nothing is left to copy
  }
  cp_async_wait<STAGES - 2>();
  __syncthreads();  // the first tile is there, copied by all threads
  const float* as = as_first;
  const float* bs = bs_first;
  if (k_tiles > 0) load(a[0], b[0], as, bs);
  int s = 0;
#pragma unroll 1
  for (int t = 0; t < k_tiles; ++t) {
#pragma unroll
    for (int k = 0; k < LOOK; ++k) {
      load(a[(k + 1) % 2], b[(k + 1) % 2], as + (k + 1) * PITCH, bs + (k + 1) * BN);
      multiply(a[k % 2], b[k % 2]);
    }
    as += LOOK * PITCH;
    bs += LOOK * BN;
    const int before = s == 0 ? STAGES - 1 : s - 1;
    if (++s == STAGES) s = 0;
    cp_async_wait<STAGES - 3>();
    __syncthreads();  // the next tile is there, and all warps have left the one before this: its stage is free
    if (t + STAGES - 1 < k_tiles) copy(t + STAGES - 1, before);
    cp_async_commit();
    const int next = t + 1 < k_tiles ? s : 0;  // after the last tile, words that nobody uses
    const float* const as_next = as_first + next * STAGE;
    const float* const bs_next = bs_first + next * STAGE;
#pragma unroll
    for (int k = 0; k < SLICE - LOOK; ++k) {
      if (k + 1 < SLICE - LOOK) {
        load(a[(k + 1) % 2], b[(k + 1) % 2], as + (k + 1) * PITCH, bs + (k + 1) * BN);
      } else {
        load(a[0], b[0], as_next, bs_next);
      }
      multiply(a[k % 2], b[k % 2]);
    }
    as = as_next;
    bs = bs_next;
  }
  // Sums go through shared memory in swapped pairs, for the registers' sake: what one 16-byte instruction moves lies in
  // four registers in a row, the first of them even. b[j] comes in one, so that its parity is that of j; the parity of
  // the sums is the other one.
  cp_async_wait<0>();
  constexpr int THREADS = 32 * WARPS;
  float4* const handed = reinterpret_cast<float4*>(tiles) + threadIdx.x % THREADS;
#pragma unroll
  for (int half = SLICES / 2; half > 0; half /= 2) {
    __syncthreads();  // nobody reads the tiles, or the sums of the last round, any more
    if (slice >= half && slice < 2 * half) {
#pragma unroll
      for (int q = 0; q < TM * TN / 4; ++q) {
        const float* from = acc[q / (TN / 4)] + q % (TN / 4) * 4;
        handed[((slice - half) * (TM * TN / 4) + q) * THREADS] = make_float4(from[1], from[0], from[3], from[2]);
      }
    }
    __syncthreads();  // the sums are there
    if (slice < half) {
#pragma unroll
      for (int q = 0; q < TM * TN / 4; ++q) {
        const float4 v = handed[(slice * (TM * TN / 4) + q) * THREADS];
        float* to = acc[q / (TN / 4)] + q % (TN / 4) * 4;
        to[0] += v.y;
        to[1] += v.x;
        to[2] += v.w;
        to[3] += v.z;
      }
    }
  }
  if (slice > 0) return;

  float* const out = tiles + SUMS + warp * LANES_M * WN;
  constexpr int LANES_ROW = WN / 4;  // lanes that store one row, 16 bytes each
  const bool wide_c = N % 4 == 0 && reinterpret_cast<size_t>(C) % 16 == 0;
  const int col = col0 + warp_n + lane % LANES_ROW * 4;
#pragma unroll
  for (int i = 0; i < TM; ++i) {
#pragma unroll
    for (int j = 0; j < TN; j += 4) {
      *reinterpret_cast<float4*>(out + lane_m * WN + j * LANES_N + 4 * lane_n) =
          make_float4(acc[i][j + 1], acc[i][j], acc[i][j + 3], acc[i][j + 2]);
    }
    __syncwarp();  // the lanes read words of other lanes
#pragma unroll
    for (int y = 0; y < LANES_M; y += 32 / LANES_ROW) {
      const int r = y + lane / LANES_ROW;
      const int row = row0 + warp_m + i / 4 * 4 * LANES_M + 4 * r + i % 4;
      const int inside = row < M ? N - col : 0;
      const float4 v = *reinterpret_cast<const float4*>(out + r * WN + lane % LANES_ROW * 4);
      float* to = C + size_t(row) * N + col;
      if (wide_c) {
        if (inside > 0) *reinterpret_cast<float4*>(to) = make_float4(v.y, v.x, v.w, v.z);
      } else {
        if (inside > 0) to[0] = v.y;
        if (inside > 1) to[1] = v.x;
        if (inside > 2) to[2] = v.w;
        if (inside > 3) to[3] = v.z;
      }
    }
    __syncwarp();  // and have read them before the next ones arrive
  }
}
