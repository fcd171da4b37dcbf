// 17_split_tensor.cu -- rung 16 on wgmma: B split and turned once, before the product, and copied in by bulk.
//
// C = A @ B, row-major f32: A (M, K), B (K, N), C (M, N).
//
// Removes   the way of B through registers, the splitting of it in every warp that reads it, and mma.sync, which feeds
//           the tensor cores at some 60 % of their rate.
// How       a kernel before this one splits each word of B, x 2^23 = hi + lo, and lays both parts out tile by tile as
//           wgmma reads them: K-major, which for TF32 it must be, and swizzled. A tile of both is then one bulk copy. A
//           stays whole: a third warpgroup copies it, the other two split the words they hold in registers, and run
//           64 x WN products against shared memory. Every PROMOTE of k, corrections first, such a sum is begun at zero,
//           since tensor cores round toward zero; FP32 adds, which round to nearest, collect the sums while the other
//           warpgroup keeps the tensor cores busy.
// Leaves    the power limit: the tensor cores' clock falls below that of FP32 kernels; and 2 K N words that the first
//           kernel writes, which small products feel.
// Source    H. Ootomo, R. Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32
//           theoretical peak performance", IJHPCA 36, 2022; T. J. Dekker, "A floating-point technique for extending the
//           available precision", Numer. Math. 18, 1971.
//
// Range and error bound are rung 16's: operands scaled by 2^23, C by 2^-46, elements whose sum is not finite computed
// again by fused multiply-adds in k order; the error is below 16 K in units of 2^-24 |A||B|. Sums twice as long round
// toward zero: normwise, C is nearer to the exact product than rung 07's from K = 128 on, with a third of its error at
// K = 2048.
//
// /// rung
// title         = "3xTF32 on wgmma, 128 x {BN}"
// kernel        = "split_tensor"
// sweep         = { BN = [64, 128, 256], WN = [64, 128, 128], STAGES = [8, 8, 4] }
// params        = { BM = 128, BK = 16, PROMOTE = 32, NUM_THREADS = 384 }
// arch          = "sm_90a"
// smem_bytes    = "4 * STAGES * BK * (BM + 2 * BN)"
// pack          = { kernel = "split_b", of = "B", tile = ["BK", "BN"], planes = 2, block = 256, overlap = true }
// ordered       = false
// law           = "c_stationary"
// precision     = "fp32_split"
// unit_roundoff = 9.5367431640625e-7
// ///

#include "bulk_copy.cuh"
#include "cp_async.cuh"
#include "overlap.cuh"
#include "wgmma.cuh"

// x 2^23 = hi + lo, both TF32 but for the bits of lo that the tensor cores cut off, and neither ever subnormal. hi is
// rounded to nearest (Dekker's splitting), lo is exact; both are NaN where x (2^36 + 2^23) is not finite. The
// intrinsics keep the compiler from fusing what must be rounded twice.
__device__ __forceinline__ void split(float x, float& hi, float& lo) {
  const float p = __fmul_rn(x, 0x1p23f * 8193.0f);
  hi = __fadd_rn(p, __fmaf_rn(x, 0x1p23f, -p));
  lo = __fmaf_rn(x, 0x1p23f, -hi);
}

// Tile (blockIdx.y, blockIdx.x) of B: hi [BN][16], then lo [BN][16]; a column's 16 words of k in four 16-byte chunks.
// A lane of the product holds k = member and member + 4 of every 8. Any k will do, if A and B agree: chunk 2 s + h holds
// k = 4 m + 2 s + h for m = 0 .. 3, and so each lane finds its words of A's row, 4 member .. 4 member + 3, in one load.
// Chunks are swizzled by the column (describe_64b_swizzled); eight lanes then store to 32 different banks.
template <int BN, int WN, int STAGES, int BM, int BK, int PROMOTE, int NUM_THREADS>
__global__ void __launch_bounds__(256) split_b(const float* B, float* packed, int K, int N) {
  static_assert(BK == 16, "a column of a tile is one swizzled row of 64 bytes");
  __shared__ __align__(128) float tile[2][BN][BK];
  let_the_next_kernel_start();
  const int k0 = blockIdx.y * BK;
  const int n0 = blockIdx.x * BN;
  for (int n = threadIdx.x; n < BN; n += 256) {
    float x[BK];
#pragma unroll
    for (int k = 0; k < BK; ++k) x[k] = k0 + k < K && n0 + n < N ? B[size_t(k0 + k) * N + (n0 + n)] : 0.0f;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      float hi[4], lo[4];
#pragma unroll
      for (int m = 0; m < 4; ++m) split(x[4 * m + c], hi[m], lo[m]);
      const int at = (c ^ n / 2 % 4) * 4;
      *reinterpret_cast<float4*>(&tile[0][n][at]) = make_float4(hi[0], hi[1], hi[2], hi[3]);
      *reinterpret_cast<float4*>(&tile[1][n][at]) = make_float4(lo[0], lo[1], lo[2], lo[3]);
    }
  }
  publish_to_copies();
  __syncthreads();  // the tile is complete, and the copy engine sees it
  if (threadIdx.x == 0) {
    copy_bulk_back(packed + (size_t(blockIdx.y) * gridDim.x + blockIdx.x) * (2 * BN * BK), tile, 4 * 2 * BN * BK);
  }
}

// One sum of COUNT stages, added to acc: a warpgroup's 64 rows of As times the BN columns of Bs, WN at a time. Stage `s`
// is the first of them, `parity` its phase; both move on.
template <int COUNT, int BN, int WN, int STAGES, int AS, int STAGE, int BK>
__device__ __forceinline__ void multiply(float (&acc)[BN / WN][WN / 2], const float* tiles, int a_at, Barrier* full,
                                         Barrier* empty, int& s, int& parity) {
  unsigned hi[COUNT][8], lo[COUNT][8];
  const float* bs[COUNT];
  int stage[COUNT];
#pragma unroll
  for (int p = 0; p < COUNT; ++p) {
    stage[p] = s;
    bs[p] = tiles + s * STAGE + AS;
    wait(&full[s], parity);
    const float4 v = *reinterpret_cast<const float4*>(tiles + s * STAGE + a_at);
    const float4 w = *reinterpret_cast<const float4*>(tiles + s * STAGE + a_at + 8 * BK);
    const float words[8] = {v.x, w.x, v.y, w.y, v.z, w.z, v.w, w.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float h, l;
      split(words[i], h, l);
      hi[p][i] = __float_as_uint(h);
      lo[p][i] = __float_as_uint(l);
    }
    if (++s == STAGES) {
      s = 0;
      parity ^= 1;
    }
  }
#pragma unroll
  for (int c = 0; c < BN / WN; ++c) {
    float sum[WN / 2];
    wgmma_fence();
#pragma unroll
    for (int product = 0; product < 3; ++product) {  // lo hi', hi lo', and then hi hi', which is the largest
#pragma unroll
      for (int p = 0; p < COUNT; ++p) {
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const float* b = bs[p] + c * WN * BK + 8 * k + (product == 1 ? BN * BK : 0);
          wgmma(sum, (product == 0 ? lo[p] : hi[p]) + 4 * k, describe_64b_swizzled(b), product + p + k > 0);
        }
      }
    }
    wgmma_finish();
    if (c == BN / WN - 1 && threadIdx.x % 128 == 0) {
#pragma unroll
      for (int p = 0; p < COUNT; ++p) arrive(&empty[stage[p]]);  // the warpgroup has read its stages
    }
#pragma unroll
    for (int i = 0; i < WN / 2; ++i) acc[c][i] += sum[i];
  }
}

template <int BN, int WN, int STAGES, int BM, int BK, int PROMOTE, int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS, 1)
split_tensor(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K,
             const float* __restrict__ packed) {
  constexpr int GROUP = 8;                      // rows of tiles that are worked on together
  constexpr int AS = BM * BK;                   // words of a stage that hold A, [BM][16], swizzled as B is
  constexpr int BS = 2 * BN * BK;               // and B, as split_b leaves it
  constexpr int STAGE = AS + BS;
  constexpr int CHUNKS = BN / WN;               // products side by side
  constexpr int PARTS = PROMOTE / BK;           // stages that one sum takes
  static_assert(BM == 128 && NUM_THREADS == 384, "two warpgroups multiply 64 rows each, a third one copies");
  static_assert(BN % WN == 0 && PROMOTE % BK == 0 && STAGES > PARTS, "whole products, whole stages, one in flight");

  extern __shared__ __align__(1024) float tiles[];
  __shared__ Barrier full[STAGES], empty[STAGES];
  const int warpgroup = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) {
      init_barrier(&full[s], 128 + 1);  // the copying threads, and the one that announces the bulk copy
      init_barrier(&empty[s], 2);       // the warpgroups that multiply
    }
    publish_barriers();
  }
  __syncthreads();

  // Blocks that run together share rows of A and columns of B in L2: GROUP rows of tiles, column by column.
  const int id = blockIdx.y * gridDim.x + blockIdx.x;
  const int first = id / (GROUP * gridDim.x) * GROUP;
  const int group_rows = min(GROUP, int(gridDim.y) - first);
  const int row0 = (first + id % (GROUP * gridDim.x) % group_rows) * BM;
  const int tile_n = id % (GROUP * gridDim.x) / group_rows;
  const int k_tiles = (K + BK - 1) / BK;

  // 168 registers a thread were given at launch: 40 are enough to copy, 232 hold the sums.
  if (warpgroup == 2) {
    give_registers<40>();
    const int thread = threadIdx.x % 128;
    const int y = thread / 4, chunk = thread % 4;  // four threads a row of A, 32 rows at a time
    const bool wide = K % 4 == 0 && reinterpret_cast<size_t>(A) % 16 == 0;
    const int rows = M - row0 - y;
    const unsigned to = shared_address(tiles + y * BK + (chunk ^ y / 2 % 4) * 4);
    const float* from = A + size_t(row0 + y) * K + 4 * chunk;
    const float* tile = packed + size_t(tile_n) * BS;
    int s = 0, parity = 1;
    if (thread == 0) wait_for_the_kernel_before();
    for (int t = 0; t < k_tiles; ++t) {
      if (t >= STAGES) wait(&empty[s], parity);
      if (thread == 0) {
        arrive_expecting(&full[s], 4 * BS);
        copy_bulk(tiles + s * STAGE + AS, tile, 4 * BS, &full[s]);
      }
      const int left = K - t * BK - 4 * chunk;  // words of the row from `from` on
      if (wide) {
#pragma unroll
        for (int r = 0; r < BM; r += 32) {
          const bool inside = r < rows && left > 0;
          cp_async<16>(to + 4 * (s * STAGE + r * BK), from + size_t(r) * K, inside ? 16 : 0);
        }
      } else {
#pragma unroll 1
        for (int r = 0; r < BM; r += 32) {
#pragma unroll
          for (int x = 0; x < 4; ++x) {
            const bool inside = r < rows && left > x;
            cp_async<4>(to + 4 * (s * STAGE + r * BK + x), from + size_t(r) * K + x, inside ? 4 : 0);
          }
        }
      }
      arrive_after_copies(&full[s]);
      from += BK;
      tile += size_t(gridDim.x) * BS;
      if (++s == STAGES) {
        s = 0;
        parity ^= 1;
      }
    }
  } else {
    take_registers<232>();
    const int lane = threadIdx.x % 32;
    const int member = lane % 4;
    const int y = warpgroup * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4;  // and y + 8, which is swizzled alike
    const int a_at = y * BK + (member ^ y / 2 % 4) * 4;

    float acc[CHUNKS][WN / 2] = {};
    int s = 0, parity = 0;
    int t = 0;
    for (; t + PARTS <= k_tiles; t += PARTS) {
      multiply<PARTS, BN, WN, STAGES, AS, STAGE, BK>(acc, tiles, a_at, full, empty, s, parity);
    }
    for (; t < k_tiles; ++t) multiply<1, BN, WN, STAGES, AS, STAGE, BK>(acc, tiles, a_at, full, empty, s, parity);

    const int col0 = tile_n * BN + 2 * member;
    const bool wide = N % 2 == 0 && reinterpret_cast<size_t>(C) % 8 == 0;
    bool finite = true;
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
#pragma unroll
      for (int j = 0; j < WN / 8; ++j) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int row = row0 + y + 8 * h;
          const int col = col0 + c * WN + 8 * j;
          const float v = acc[c][4 * j + 2 * h] * 0x1p-46f;
          const float w = acc[c][4 * j + 2 * h + 1] * 0x1p-46f;
          finite = finite && isfinite(v) && isfinite(w);
          float* to = C + size_t(row) * N + col;
          if (row < M && col < N) {
            if (wide) {
              *reinterpret_cast<float2*>(to) = make_float2(v, w);
            } else {
              to[0] = v;
              if (col + 1 < N) to[1] = w;
            }
          }
        }
      }
    }
    if (finite) return;
    // What the splitting made infinite or NaN, as rung 07 computes it.
    for (int e = 0; e < BN / 2; ++e) {
      const int row = row0 + y + e / 2 % 2 * 8;
      const int col = col0 + e / 4 * 8 + e % 2;
      if (row >= M || col >= N || isfinite(C[size_t(row) * N + col])) continue;
      float sum = 0.0f;
      for (int k = 0; k < K; ++k) sum = fmaf(A[size_t(row) * K + k], B[size_t(k) * N + col], sum);
      C[size_t(row) * N + col] = sum;
    }
  }
}
