// 10_async_pipeline.cu -- rung 09 with copies that pass registers by, several k-tiles ahead.
//
// C = A @ B, row-major f32: A (M, K), B (K, N), C (M, N).
//
// Removes   the registers that hold a k-tile on its way in rung 09, and the limit of one k-tile in flight.
// How       cp.async copies from global to shared memory while the threads go on: STAGES k-tiles are on their way or in
//           use, and a group of copies is waited for only when its tile is next. Fragments of the next k, across the
//           border of k-tiles too, are loaded before this one is multiplied.
// Leaves    the copies in the instruction stream: of A word by word, since they turn it as they land; and a barrier for
//           every 16 k.
// Source    NVIDIA, "CUDA C++ Programming Guide" (asynchronous data copies); S. Gray, "SGEMM", in the manual of the maxas
//           assembler, 2014 (numbering of lanes, register banks and the reuse cache).
//
// /// rung
// title      = "cp.async pipeline"
// kernel     = "async_pipeline"
// params     = { BM = 128, BN = 256, BK = 16, WM = 64, WN = 64, TM = 8, TN = 16, STAGES = 4, NUM_THREADS = 256 }
// tune       = { BN = [128, 256], WN = [32, 64], TN = [8, 16], BK = [8, 16], STAGES = [3, 4], NUM_THREADS = [128, 256] }
// min_cc     = 80
// smem_bytes = "4 * STAGES * BK * (BM + 4 + BN)"
// law        = "c_stationary"
// ///

#include "cp_async.cuh"

template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int STAGES, int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS, TM * TN * NUM_THREADS > 16384 ? 1 : 2)  // as many as registers allow
async_pipeline(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
  constexpr int LANES_M = WM / TM;               // lanes along the rows of a warp's tile
  constexpr int LANES_N = WN / TN;               // and along its columns
  constexpr int PITCH = BM + 4;                  // words from one k of As to the next
  constexpr int LOOK = 4;                      // the k of a tile at which the next tile is looked for
  constexpr int STAGE = BK * (PITCH + BN);       // words of a stage: As [BK][PITCH], Bs [BK][BN]
  static_assert((BM / WM) * (BN / WN) * 32 == NUM_THREADS, "one warp per WM x WN tile");
  static_assert(LANES_M == 8 && LANES_N == 4, "the numbering of lanes below");
  static_assert(LOOK % 2 == 0 && BK % 2 == 0 && LOOK < BK && STAGES > 2, "fragments alternate between two sets");
  static_assert(BK % 8 == 0 && NUM_THREADS % (4 * BK) == 0 && BM % (NUM_THREADS / BK) == 0, "whole passes of rows of A");
  static_assert(NUM_THREADS % (BN / 4) == 0 && BK % (NUM_THREADS / (BN / 4)) == 0, "and of rows of B");
  static_assert(NUM_THREADS / 32 * LANES_M * WN <= STAGES * STAGE && 128 % WN == 0, "C passes where the tiles were");

  extern __shared__ __align__(16) float tiles[];
  const int warp = threadIdx.x / 32;
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

  // Lane bits 0, 3, 4 number the rows of lanes, 1 and 2 the columns: a lane's neighbour lane ^ 1 loads the same words of
  // Bs, lane ^ 2 the same of As, and so each 16-byte load is served in two wavefronts, not four.
  const int lane_m = lane % 2 + lane / 8 * 2;
  const int lane_n = lane / 2 % 4;
  const int warp_m = warp / (BN / WN) * WM;
  const int warp_n = warp % (BN / WN) * WN;
  const float* const as_first = tiles + warp_m + 4 * lane_m;
  const float* const bs_first = tiles + BK * PITCH + warp_n + 4 * lane_n;

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
  // reads two new registers, b[j] and its sum. They must lie in different banks (odd and even): see the epilogue.
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
  for (int t = 0; t < K / BK; ++t) {
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
    for (int k = 0; k < BK - LOOK; ++k) {
      if (k + 1 < BK - LOOK) {
        load(a[(k + 1) % 2], b[(k + 1) % 2], as + (k + 1) * PITCH, bs + (k + 1) * BN);
      } else {
        load(a[0], b[0], as_next, bs_next);
      }
      multiply(a[k % 2], b[k % 2]);
    }
    as = as_next;
    bs = bs_next;
  }
  // What K cuts off the last tile, k by k: the zeros behind it would turn a sum of -0 into +0.
#pragma unroll 1
  for (int k = 0; k < K % BK; ++k) {
    load(a[0], b[0], as + k * PITCH, bs + k * BN);
    multiply(a[0], b[0]);
  }

  // C goes through shared memory, for whole rows, and for the registers: what one 16-byte instruction moves lies in four
  // registers in a row, the first of them even. b[j] comes in one, so that its parity is that of j. The sums leave in
  // swapped pairs, and their parity is the other one.
  cp_async_wait<0>();
  __syncthreads();  // nobody reads the tiles any more, and no copy is on its way to them
  float* const out = tiles + warp * LANES_M * WN;
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
