// 12_tma_pipeline.cu -- rung 10 with the copy engine: A turned once, before the product, and tiles that fetch themselves.
//
// C = A @ B, row-major f32: A (M, K), B (K, N), C (M, N).
//
// Removes   the copies from the instruction stream: rung 10 issues 12 of them, with their addresses, for every 16 k, and
//           waits at a barrier as often.
// How       a kernel before this one turns A, tile by tile, so that a tile of it is one bulk copy and fragments of it are
//           still contiguous along m; a tile of B is one box of a tensor map. One thread starts both, and an mbarrier
//           counts the bytes as they land. A k-tile is twice as deep as rung 10's; in its loop 93 of 100 instructions
//           are fused multiply-adds.
// Leaves    the last wave of tiles, which rarely fills the device (rung 13); and one thing that CUDA C cannot say: which
//           register holds what. About one fused multiply-add in ten reads two new operands from one register bank, and
//           costs a cycle more.
// Source    NVIDIA, "Hopper Tuning Guide" (asynchronous copies, barriers); S. Gray, "SGEMM", in the manual of the maxas
//           assembler, 2014 (register banks and the reuse cache).
//
// /// rung
// title       = "TMA pipeline"
// kernel      = "tma_pipeline"
// params      = { BM = 128, BN = 128, BK = 32, WM = 64, WN = 32, TM = 8, TN = 8, STAGES = 3, NUM_THREADS = 256 }
// tune        = { BN = [128, 256], WN = [32, 64], TN = [8, 16], STAGES = [3, 4], NUM_THREADS = [128, 256] }
// multiple    = { N = 4 }
// align_bytes = 16
// min_cc      = 90
// smem_bytes  = "4 * STAGES * BK * (BM + BN)"
// pack        = { kernel = "turn_a", of = "A", tile = ["BM", "BK"], block = 256, overlap = true }
// tma         = [{ of = "B", box = ["BK", "BN"] }]
// law         = "c_stationary"
// ///

#include "bulk_copy.cuh"
#include "overlap.cuh"

// Tile (blockIdx.y, blockIdx.x) of A, turned: [BK][BM]. The tiles of one k-tile lie one after the other. Past M and K it
// holds -0: times the zeros that the tensor map gives for B, the one addend that changes no sum, not even a sum of -0.
template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int STAGES, int NUM_THREADS>
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

template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int STAGES, int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS, TM * TN * NUM_THREADS > 16384 ? 1 : 2)  // as many as registers allow
tma_pipeline(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K,
             const float* __restrict__ packed, const __grid_constant__ TensorMap map_b) {
  constexpr int LANES_M = WM / TM;        // lanes along the rows of a warp's tile
  constexpr int LANES_N = WN / TN;        // and along its columns
  constexpr int STAGE = BK * (BM + BN);   // words of a stage: As [BK][BM], Bs [BK][BN]
  constexpr int GROUP = 8;                // rows of tiles that are worked on together
  constexpr int LOOK = 4;                 // the k of a tile at which the next one is looked for
  static_assert((BM / WM) * (BN / WN) * 32 == NUM_THREADS, "one warp per WM x WN tile");
  static_assert(LANES_M == 8 && LANES_N == 4, "the numbering of lanes below");
  static_assert(WM * WN <= 4096 && 128 % WN == 0, "a warp's share of the tiles' memory takes its part of C");
  static_assert(LOOK % 2 == 0 && BK % 2 == 0 && LOOK < BK, "fragments alternate between two sets of registers");

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
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int lane_m = lane % 2 + lane / 8 * 2;
  const int lane_n = lane / 2 % 4;
  const int warp_m = warp / (BN / WN) * WM;
  const int warp_n = warp % (BN / WN) * WN;
  const float* const as_first = tiles + warp_m + 4 * lane_m;
  const float* const bs_first = tiles + BK * BM + warp_n + 4 * lane_n;

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
    for (int k = 0; k < BK - LOOK; ++k) {
      if (k + 1 < BK - LOOK) {
        load(a[(k + 1) % 2], b[(k + 1) % 2], as + (k + 1) * BM, bs + (k + 1) * BN);
      } else {
        load(a[0], b[0], as_next, bs_next);  // after the last tile, of words that nobody uses
      }
      multiply(a[k % 2], b[k % 2]);
    }
    as = as_next;
    bs = bs_next;
  }

  // C goes through shared memory, for whole rows, and for the registers: what one 16-byte instruction moves lies in four
  // registers in a row, the first of them even. b[j] comes in one, so that its parity is that of j. The sums leave in
  // swapped pairs, and their parity is the other one.
  __syncthreads();  // nobody reads the tiles any more
  float* const out = tiles + warp * LANES_M * WN;
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
