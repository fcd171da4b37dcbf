// 14_tma_slice_k.cu -- rung 12 for small products: the warps of a block share one tile of C and divide K.
//
// C = A @ B, row-major f32: A (M, K), B (K, N), C (M, N).
//
// Removes   the idle multiprocessors of a small product: C has 64 tiles of 128 x 128 where N = 1024, and an H200 has 132
//           multiprocessors.
// How       tiles of half the size, and SLICES groups of warps to a tile: each multiplies its share of every k-tile, so
//           that the threads, and a thread's TM x TN, stay as many as they were. At the end the groups add up their
//           sums through shared memory, in an order that never changes.
// Leaves    the time that does not shrink with the product: two launches, the first tiles' way from memory, the sums.
// Source    NVIDIA, "CUTLASS: Efficient GEMM in CUDA" (sliced-K reduction between warps of a threadblock).
//
// /// rung
// title       = "TMA pipeline, sliced K"
// kernel      = "tma_slice_k"
// params      = { BM = 64, BN = 128, BK = 64, WM = 64, WN = 64, TM = 8, TN = 16, STAGES = 3, SLICES = 4, NUM_THREADS = 256 }
// multiple    = { N = 4 }
// align_bytes = 16
// min_cc      = 90
// smem_bytes  = "4 * STAGES * BK * (BM + BN)"
// pack        = { kernel = "turn_a", of = "A", tile = ["BM", "BK"], block = 256, overlap = true }
// tma         = [{ of = "B", box = ["BK", "BN"] }]
// ordered     = false
// law         = "c_stationary"
// ///

#include "bulk_copy.cuh"
#include "overlap.cuh"

// Tile (blockIdx.y, blockIdx.x) of A, turned: [BK][BM]. The tiles of one k-tile lie one after the other. Past M and K it
// holds -0: times the zeros that the tensor map gives for B, the one addend that changes no sum, not even a sum of -0.
template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int STAGES, int SLICES, int NUM_THREADS>
__global__ void __launch_bounds__(256) turn_a(const float* A, float* packed, int M, int K) {
  static_assert(BM * BK % 256 == 0, "whole passes of the block");
  let_the_next_kernel_start();
  __shared__ float words[BM][BK + 1];  // one more word a row: the words of a column are in 32 different banks
#pragma unroll
  for (int w = threadIdx.x; w < BM * BK; w += 256) {
    const int m = blockIdx.y * BM + w / BK, k = blockIdx.x * BK + w % BK;
    words[w / BK][w % BK] = m < M && k < K ? A[size_t(m) * K + k] : -0.0f;
  }
  __syncthreads();  // every thread reads words that other threads have just written
  float* tile = packed + (size_t(blockIdx.x) * gridDim.y + blockIdx.y) * (BM * BK);
#pragma unroll
  for (int w = threadIdx.x; w < BM * BK; w += 256) tile[w] = words[w % BM][w / BM];
}

template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int STAGES, int SLICES, int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS)
tma_slice_k(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K,
             const float* __restrict__ packed, const __grid_constant__ TensorMap map_b) {
  constexpr int LANES_M = WM / TM;        // lanes along the rows of a warp's tile
  constexpr int LANES_N = WN / TN;        // and along its columns
  constexpr int STAGE = BK * (BM + BN);   // words of a stage: As [BK][BM], Bs [BK][BN]
  constexpr int GROUP = 8;                // rows of tiles that are worked on together
  constexpr int WARPS = (BM / WM) * (BN / WN);   // of one slice
  constexpr int SLICE = BK / SLICES;      // k of every tile that a slice multiplies
  constexpr int LOOK = 2;                 // the k of a slice at which the next tile is looked for
  constexpr int SUMS = SLICES / 2 * BM * BN;     // words of the sums that slices hand over at once
  static_assert(WARPS * 32 * SLICES == NUM_THREADS, "one warp per WM x WN tile and slice");
  static_assert(BK % SLICES == 0 && (SLICES & (SLICES - 1)) == 0, "slices are alike, and are added up in pairs");
  static_assert(SUMS + WARPS * LANES_M * WN <= STAGES * STAGE, "the sums take the place of the tiles");
  static_assert(LANES_M == 8 && LANES_N == 4, "the numbering of lanes below");
  static_assert(128 % WN == 0, "a warp stores whole rows of its tile");
  static_assert(LOOK % 2 == 0 && SLICE % 2 == 0 && LOOK < SLICE, "fragments alternate between two sets of registers");

  extern __shared__ __align__(1024) float tiles[];
  __shared__ Barrier barriers[STAGES];
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) init_barrier(&barriers[s], 1);
    publish_barriers();
  }
  __syncthreads();  // the barriers are set up
  BarrierAt full(barriers);
  full.keep();

  // Blocks that run together share rows of A and columns of B in L2: GROUP rows of tiles, column by column.
  const int id = blockIdx.y * gridDim.x + blockIdx.x;
  const int first = id / (GROUP * gridDim.x) * GROUP;
  const int rows = min(GROUP, int(gridDim.y) - first);
  const int tile_m = first + id % (GROUP * gridDim.x) % rows;
  const int tile_n = id % (GROUP * gridDim.x) / rows;
  const int k_tiles = (K + BK - 1) / BK;

  const auto copy = [&](int t, int s) {
    arrive_expecting(full[s], 4 * STAGE);
    copy_bulk(tiles + s * STAGE, packed + (size_t(t) * gridDim.y + tile_m) * (BM * BK), 4 * BM * BK, full[s]);
    copy_box(tiles + s * STAGE + BK * BM, map_b, t * BK, tile_n * BN, full[s]);
  };
  if (threadIdx.x == 0) {
    wait_for_the_kernel_before();
    for (int t = 0; t < STAGES - 1 && t < k_tiles; ++t) copy(t, t);
  }

  // Lane bits 0, 3, 4 number the rows of lanes, 1 and 2 the columns: a lane's neighbour lane ^ 1 loads the same words of
  // Bs, lane ^ 2 the same of As, and so each 16-byte load is served in two wavefronts, not four.
  const int warp = threadIdx.x / 32 % WARPS;
  const int slice = threadIdx.x / 32 / WARPS;
  const int lane = threadIdx.x % 32;
  const int lane_m = lane % 2 + lane / 8 * 2;
  const int lane_n = lane / 2 % 4;
  const int warp_m = warp / (BN / WN) * WM;
  const int warp_n = warp % (BN / WN) * WN;
  const float* const as_first = tiles + slice * SLICE * BM + warp_m + 4 * lane_m;
  const float* const bs_first = tiles + BK * BM + slice * SLICE * BN + warp_n + 4 * lane_n;

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

  if (k_tiles > 0) {
    wait(full[0], 0);
    load(a[0], b[0], as_first, bs_first);
  }
  const float* as = as_first;
  const float* bs = bs_first;
  int s = 0, parity = 0;
#pragma unroll 1
  for (int t = 0; t < k_tiles; ++t) {
#pragma unroll
    for (int k = 0; k < LOOK; ++k) {
      load(a[(k + 1) % 2], b[(k + 1) % 2], as + (k + 1) * BM, bs + (k + 1) * BN);
      multiply(a[k % 2], b[k % 2]);
    }
    as += LOOK * BM;
    bs += LOOK * BN;
    const int before = s == 0 ? STAGES - 1 : s - 1;
    if (++s == STAGES) {
      s = 0;
      parity ^= 1;
    }
    if (t + 1 < k_tiles) wait(full[s], parity);
    __syncthreads();  // all warps have left the tile before this one: its stage is free
    if (threadIdx.x == 0 && t + STAGES - 1 < k_tiles) copy(t + STAGES - 1, before);
    const float* const as_next = as_first + s * STAGE;
    const float* const bs_next = bs_first + s * STAGE;
#pragma unroll
    for (int k = 0; k < SLICE - LOOK; ++k) {
      if (k + 1 < SLICE - LOOK) {
        load(a[(k + 1) % 2], b[(k + 1) % 2], as + (k + 1) * BM, bs + (k + 1) * BN);
      } else {
        load(a[0], b[0], as_next, bs_next);  // after the last tile, of words that nobody uses
      }
      multiply(a[k % 2], b[k % 2]);
    }
    as = as_next;
    bs = bs_next;
  }

  // Sums go through shared memory in swapped pairs, for the registers' sake: what one 16-byte instruction moves lies in
  // four registers in a row, the first of them even. b[j] comes in one, so that its parity is that of j; the parity of
  // the sums is the other one.
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
  const int col = tile_n * BN + warp_n + lane % LANES_ROW * 4;
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
      const int row = tile_m * BM + warp_m + i / 4 * 4 * LANES_M + 4 * r + i % 4;
      const float4 v = *reinterpret_cast<const float4*>(out + r * WN + lane % LANES_ROW * 4);
      if (row < M && col < N) {
        *reinterpret_cast<float4*>(C + size_t(row) * N + col) = make_float4(v.y, v.x, v.w, v.z);
      }
    }
    __syncwarp();  // and have read them before the next ones arrive
  }
}
