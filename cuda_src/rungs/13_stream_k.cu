// 13_stream_k.cu -- rung 12 without a last wave: what does not fill the device is cut along K into equal shares.
//
// C = A @ B, row-major f32: A (M, K), B (K, N), C (M, N).
//
// Removes   the idle end of a product. An H200 runs 264 of rung 12's blocks at once: the 1024 tiles of N = 4096 are 3.88
//           waves of them and take the time of 4, and so do 15.5 waves at N = 8192 that of 16: 3 % each.
// How       a grid that stays: as many blocks as the device runs at once, each doing whole tiles for as long as there is
//           one for everybody. The k-tiles of the rest, counted through from tile to tile, are dealt out in equal runs
//           (Stream-K). A run that begins or ends inside a tile is a part of it: its sums go to memory, and the block
//           that finds itself the last of a tile's parts adds all of them, in the order of K whoever comes last, so that
//           the bits of C are the same every time. While a tile is stored, the next one's first copies are under way.
// Leaves    what CUDA C cannot say, as rung 12 does; A, which is turned in 1.4 % of the time at N = 4096.
// Source    D. Merrill et al., "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on
//           the GPU", PPoPP 2023.
//
// /// rung
// title       = "Stream-K"
// kernel      = "stream_k"
// params      = { BM = 128, BN = 128, BK = 32, WM = 64, WN = 32, TM = 8, TN = 8, STAGES = 3, NUM_THREADS = 256 }
// tune        = { BM = [64, 128], BN = [64, 128, 256], WN = [32, 64], TN = [8, 16], STAGES = [3, 4], NUM_THREADS = [128, 256, 512] }
// multiple    = { N = 4 }
// align_bytes = 16
// min_cc      = 90
// grid        = "persistent"
// smem_bytes  = "4 * STAGES * BK * (BM + BN) + NUM_THREADS * WN"
// ordered     = false
// tma         = [{ of = "B", box = ["BK", "BN"] }]
// law         = "c_stationary"
// # Counters, and for each block the sums of two parts.
// pack        = { kernel = "turn_a", of = "A", tile = ["BM", "BK"], block = 256, overlap = true, room_bytes = "4096 + 8 * BM * BN * BLOCKS" }
// ///

#include "bulk_copy.cuh"
#include "overlap.cuh"

constexpr int MOST_BLOCKS = 1024;  // counters; there are fewer unfinished tiles than blocks

// Tile (blockIdx.y, blockIdx.x) of A, turned: [BK][BM]. The tiles of one k-tile lie one after the other. Past M and K it
// holds -0: times the zeros that the tensor map gives for B, the one addend that changes no sum, not even a sum of -0.
// Behind the last tile are the counters of the parts that have arrived, which start at 0.
template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int STAGES, int NUM_THREADS>
__global__ void __launch_bounds__(256) turn_a(const float* A, float* packed, int M, int K) {
  static_assert(BM * BK % 256 == 0, "whole passes of the block");
  let_the_next_kernel_start();
  if (blockIdx.x == 0 && blockIdx.y == 0) {
    int* const arrived = reinterpret_cast<int*>(packed + size_t(gridDim.x) * gridDim.y * (BM * BK));
    for (int i = threadIdx.x; i < MOST_BLOCKS; i += 256) arrived[i] = 0;
  }
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
stream_k(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K,
         float* packed, const __grid_constant__ TensorMap map_b) {
  constexpr int LANES_M = WM / TM;        // lanes along the rows of a warp's tile
  constexpr int LANES_N = WN / TN;        // and along its columns
  constexpr int STAGE = BK * (BM + BN);   // words of a stage: As [BK][BM], Bs [BK][BN]
  constexpr int GROUP = 8;                // rows of tiles that are worked on together
  constexpr int LOOK = 4;                 // the k of a tile at which the next one is looked for
  constexpr int SHORTEST = 8;             // k-tiles that are worth a part of a tile
  static_assert((BM / WM) * (BN / WN) * 32 == NUM_THREADS, "one warp per WM x WN tile");
  static_assert(LANES_M == 8 && LANES_N == 4, "the numbering of lanes below");
  static_assert(128 % WN == 0, "lanes store whole rows of a warp's tile, 16 bytes each");
  static_assert(LOOK % 2 == 0 && BK % 2 == 0 && LOOK < BK, "fragments alternate between two sets of registers");
  static_assert(STAGES >= 3, "a stage in use, one that warps may still be leaving, and one to copy into");

  extern __shared__ __align__(1024) float tiles[];
  __shared__ Barrier barriers[STAGES];
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) init_barrier(&barriers[s], 1);
    publish_barriers();
  }
  __syncthreads();  // the barriers are set up
  BarrierAt full(barriers);
  full.keep();

  const int blocks = min(int(gridDim.x), MOST_BLOCKS), block = blockIdx.x;
  if (block >= blocks) return;
  const int tiles_m = (M + BM - 1) / BM, tiles_n = (N + BN - 1) / BN, tile_count = tiles_m * tiles_n;
  const int k_tiles = (K + BK - 1) / BK;

  // `rounds` of whole tiles, one for each block, then `cut` tiles of which each block gets `share` k-tiles. Where they
  // are one for nearly every block, storing parts and adding them would take longer than it saves.
  int rounds = tile_count / blocks, cut = tile_count % blocks;
  if (10 * cut > 9 * blocks || k_tiles == 0) {
    ++rounds;
    cut = 0;
  }
  const int share = max(SHORTEST, (cut * k_tiles + blocks - 1) / blocks);
  const int end = min(cut * k_tiles, (block + 1) * share);
  int* const arrived = reinterpret_cast<int*>(packed + size_t(k_tiles) * tiles_m * (BM * BK));
  float* const parts = reinterpret_cast<float*>(arrived + MOST_BLOCKS);  // [blocks][2][BM * BN]

  // The work at hand: tile (tile_m, tile_n) of C, its k-tiles `first_k .. first_k + count`.
  int round = 0, at = block * share;
  int id, tile_m, tile_n, first_k, count;
  const auto next = [&]() {
    // Half of the blocks take their shares first. Two blocks of a multiprocessor then do not store at the same time.
    const bool shares_first = block >= blocks / 2 && at < end;
    if (round < rounds && !shares_first && round * blocks + block < tile_count) {
      id = round++ * blocks + block;
      first_k = 0;
      count = k_tiles;
    } else if (at < end) {
      id = at / k_tiles;
      first_k = at - id * k_tiles;
      count = min(k_tiles - first_k, end - at);
      at += count;
      id += rounds * blocks;
    } else {
      return false;
    }
    // Blocks that run together share rows of A and columns of B in L2: GROUP rows of tiles, column by column.
    const int first = id / (GROUP * tiles_n) * GROUP;
    const int rows = min(GROUP, tiles_m - first);
    tile_m = first + id % (GROUP * tiles_n) % rows;
    tile_n = id % (GROUP * tiles_n) / rows;
    return true;
  };
  const auto copy = [&](int t, int s) {
    arrive_expecting(full[s], 4 * STAGE);
    copy_bulk(tiles + s * STAGE, packed + (size_t(t) * tiles_m + tile_m) * (BM * BK), 4 * BM * BK, full[s]);
    copy_box(tiles + s * STAGE + BK * BM, map_b, t * BK, tile_n * BN, full[s]);
  };
  int s = 0, parity = 0;  // the stage of the next k-tile, and of the phase that its barrier ends
  const auto start = [&]() {
    for (int t = 0; t < STAGES - 1 && t < count; ++t) copy(first_k + t, (s + t) % STAGES);
  };
  bool more = next();
  if (threadIdx.x == 0 && more) {
    wait_for_the_kernel_before();
    start();
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

  float acc[TM][TN];
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

#pragma unroll 1
  while (more) {
#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
      for (int j = 0; j < TN; ++j) acc[i][j] = 0.0f;
    }
    const float* as = as_first + s * STAGE;
    const float* bs = bs_first + s * STAGE;
    if (count > 0) {
      wait(full[s], parity);
      load(a[0], b[0], as, bs);
    }
    const int last_k = first_k + count;
#pragma unroll 1
    for (int t = first_k; t < last_k; ++t) {
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
      if (t + 1 < last_k) wait(full[s], parity);
      __syncthreads();  // all warps have left the tile before this one: its stage is free
      if (threadIdx.x == 0 && t + STAGES - 1 < last_k) copy(t + STAGES - 1, before);
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

    const int tile_row = tile_m * BM + warp_m, tile_col = tile_n * BN + warp_n;
    const int cut_tile = id - rounds * blocks;
    const bool whole = count == k_tiles;
    __syncthreads();  // nobody reads the tiles any more
    more = next();
    if (threadIdx.x == 0 && more) start();

    // What one 16-byte instruction moves lies in four registers in a row, the first of them even. b[j] comes in one, so
    // that its parity is that of j. The sums leave in swapped pairs, and their parity is the other one.
    if (!whole) {
      const int begin = cut_tile * k_tiles;
      const int first_block = begin / share, last_block = (begin + k_tiles - 1) / share;
      // Of a block's two parts the second is that of the tile in which its share ends.
      const auto part = [&](int of) {
        return parts + size_t(2 * of + (of * share < begin)) * (BM * BN) + 4 * threadIdx.x;
      };
      float* const mine = part(block);
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
          *reinterpret_cast<float4*>(mine + (i * TN + j) * NUM_THREADS) =
              make_float4(acc[i][j + 1], acc[i][j], acc[i][j + 3], acc[i][j + 2]);
        }
      }
      __threadfence();  // before it is counted, this part is visible to every block
      __syncthreads();  // that of all threads
      if (threadIdx.x == 0) is_last = atomicAdd(&arrived[cut_tile], 1) == last_block - first_block;
      __syncthreads();  // all threads know
      if (!is_last) continue;
      __threadfence();  // and see the other blocks' parts
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) acc[i][j] = 0.0f;
      }
#pragma unroll 1
      for (int of = first_block; of <= last_block; ++of) {
        const float* const its = part(of);
#pragma unroll
        for (int i = 0; i < TM; ++i) {
#pragma unroll
          for (int j = 0; j < TN; j += 4) {
            const float4 v = __ldcg(reinterpret_cast<const float4*>(its + (i * TN + j) * NUM_THREADS));
            acc[i][j + 1] += v.x;
            acc[i][j] += v.y;
            acc[i][j + 3] += v.z;
            acc[i][j + 2] += v.w;
          }
        }
      }
    }

    // C goes through shared memory of its own, for whole rows.
    float* const out = tiles + STAGES * STAGE + warp * LANES_M * WN;
    constexpr int LANES_ROW = WN / 4;  // lanes that store one row, 16 bytes each
    const int col = tile_col + lane % LANES_ROW * 4;
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
        const int row = tile_row + i / 4 * 4 * LANES_M + 4 * r + i % 4;
        const float4 v = *reinterpret_cast<const float4*>(out + r * WN + lane % LANES_ROW * 4);
        if (row < M && col < N) {
          *reinterpret_cast<float4*>(C + size_t(row) * N + col) = make_float4(v.y, v.x, v.w, v.z);
        }
      }
      __syncwarp();  // and have read them before the next ones arrive
    }
  }
}
