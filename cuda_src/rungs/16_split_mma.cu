// 16_split_mma.cu -- float32's accuracy from TF32 tensor cores: each operand in two parts, three products for one.
//
// C = A @ B, row-major f32: A (M, K), B (K, N), C (M, N).
//
// Removes   the 13 bits that TF32 cuts off: x = hi + lo, two TF32 numbers, keeps 23 of float32's 24 significant bits,
//           and hi hi' + hi lo' + lo hi' leaves out lo lo' alone, 2^-22 of a product at most.
// How       the warps split what they read from shared memory, in four FP32 instructions a word. Tensor cores round
//           toward zero, so that long sums of positive data drift by more than float32 is off: every PROMOTE of k, the
//           corrections first, a sum is begun at zero, and FP32 adds, which round to nearest, collect these sums.
//           Normwise, C is nearer to the exact product than rung 07's from K = 64 on, with a third of its error at
//           K = 2048; below, its error stays under 1.2e-7, where rung 07's starts from 2.5e-8 at K = 1.
// Leaves    three products of mma.sync, each of which wgmma does in some 60 % of the time (rung 17), and two FP32
//           instructions for each of them to split the operands, once in every warp that reads them.
// Source    H. Ootomo, R. Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32
//           theoretical peak performance", IJHPCA 36, 2022; T. J. Dekker, "A floating-point technique for extending the
//           available precision", Numer. Math. 18, 1971; how tensor cores round: F. A. Khattak, M. Mikaitis, "Accurate
//           models of NVIDIA tensor cores", 2025.
//
// Range. Operands are scaled by 2^23 as they are split, and C by 2^-46 as it is stored. Neither part of a float32
// number, be it the smallest, is then subnormal in TF32. Tensor cores align products by their operands' exponents, where
// a subnormal counts as 2^-126 however small it is, and an H200 drops what lies 25 bits below the largest: at 2^13 it
// kept 15 bits of a product with 2^-149. An infinity, a NaN, an operand from 2^92 on or a sum past 2^82 makes the
// element's sum infinite or NaN; the element is then computed again by fused multiply-adds in k order, and gets rung
// 07's bits at a naive kernel's pace. So C is infinite or NaN wherever the product is, and nowhere that rung 07's is
// not. (A sum that only leaves the range on its way may stay finite.)
//
// Error, in units of 2^-24 |A||B|: 4 for the bits lost in both operands, 4 for lo lo', 2 for each rounding and up to 2
// for each alignment in the tensor cores, 1 for each FP32 add: below 16 at K = 1, and below 16 K, hence unit_roundoff.
//
// /// rung
// title         = "3xTF32 on mma.sync"
// kernel        = "split_mma"
// params        = { BM = 128, BN = 64, BK = 32, WM = 32, WN = 64, STAGES = 3, PROMOTE = 16, NUM_THREADS = 128 }
// tune          = { BM = [64, 128], BN = [64, 128], WN = [32, 64], PROMOTE = [8, 16, 32], NUM_THREADS = [128, 256] }
// min_cc        = 80
// smem_bytes    = "4 * STAGES * BK * (BM + BN)"
// ordered       = false
// law           = "c_stationary"
// precision     = "fp32_split"
// unit_roundoff = 9.5367431640625e-7
// ///

#include "cp_async.cuh"
#include "mma.cuh"

// Copies a ROWS x COLS tile, WORDS words at a time, from a matrix whose rows are `pitch` words apart; word (y, x) of it
// goes to word place(y, x) of `to`. Of the tile only `rows` x `cols` words exist: the rest becomes zeros.
template <int ROWS, int COLS, int WORDS, int NUM_THREADS, typename Place>
__device__ __forceinline__ void fetch_tile(unsigned to, Place place, const float* from, unsigned pitch, unsigned rows,
                                           unsigned cols) {
  constexpr int PER_ROW = COLS / WORDS;
  constexpr int STEP = NUM_THREADS / PER_ROW;
  static_assert(NUM_THREADS % PER_ROW == 0 && ROWS % STEP == 0, "the block must fetch a tile in whole passes of rows");
  const unsigned x = threadIdx.x % PER_ROW * WORDS, y0 = threadIdx.x / PER_ROW;
  const unsigned left = x < cols && y0 < rows ? rows - y0 : 0;
  from += size_t(y0) * pitch + x;
#pragma unroll(WORDS == 4 ? ROWS : 4)
  for (int y = 0; y < ROWS; y += STEP) {
    cp_async<4 * WORDS>(to + 4 * place(y0 + y, x), from, y < left ? 4 * WORDS : 0);
    from += size_t(STEP) * pitch;
  }
}

// x 2^23 = hi + lo, both TF32 but for the bits of lo that the tensor cores cut off: at most one, of the 24 of x. hi is
// x 2^23 rounded to 11 bits, to nearest (Dekker's splitting); lo is exact. Both are multiples of 2^-126, so zero or
// normal. Masked off instead, hi would always lie on one side of x, lo would keep two bits less, and such errors add
// up. Where x (2^36 + 2^23) is not finite, and so wherever x is not, both come out NaN. The intrinsics keep the
// compiler from fusing what must be rounded twice.
__device__ __forceinline__ void split(float x, unsigned& hi, unsigned& lo) {
  const float p = __fmul_rn(x, 0x1p23f * 8193.0f);
  const float h = __fadd_rn(p, __fmaf_rn(x, 0x1p23f, -p));
  hi = __float_as_uint(h);
  lo = __float_as_uint(__fmaf_rn(x, 0x1p23f, -h));
}

template <int BM, int BN, int BK, int WM, int WN, int STAGES, int PROMOTE, int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS)
split_mma(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
  constexpr int TILES_M = WM / 8;   // 8 x 16 tiles of C in a warp's tile, along its rows
  constexpr int TILES_N = WN / 16;  // and along its columns
  constexpr int STEPS = PROMOTE / 8;
  static_assert(BM % WM == 0 && BN % WN == 0 && NUM_THREADS == 32 * (BM / WM) * (BN / WN), "one warp per WM x WN tile");
  static_assert(WM % 16 == 0 && WN % 32 == 0 && (BK == 16 || BK == 32), "which fragments and swizzle rely on");
  static_assert(PROMOTE % 8 == 0 && BK % PROMOTE == 0, "a k-tile is summed in whole runs of products");
  static_assert(STAGES >= 2, "a k-tile is multiplied while the next one is fetched");

  // STAGES times As (BM rows of C, BK k), then Bs (BK k, BN columns of C).
  extern __shared__ float4 stages[];
  const float* smem = reinterpret_cast<const float*>(stages);

  // Banks. Rows begin a multiple of 16 words apart, so a word's place in its row depends on the row. As: ldmatrix reads
  // 16-byte chunks of equal k in 8 rows, and the chunks of each row are permuted such that these 8 cover all 32 banks.
  // Bs: a half warp reads 8 bytes a lane, four neighbouring pairs of columns in four rows, and each row is turned by 8
  // words more, so that these 16 cover all banks. Every 128 bytes that are read take one wavefront; the copies of 16
  // bytes pass the data pipe by, and those of one word do not meet either.
  auto place_a = [](unsigned row, unsigned k) { return row * BK + (k ^ (row * BK / 32 % (BK / 4) * 4)); };
  auto place_b = [](unsigned k, unsigned col) { return k * BN + (col ^ (k % 4 * 8)); };

  const unsigned lane = threadIdx.x % 32, group = lane / 4, member = lane % 4;
  const unsigned warp_row = threadIdx.x / 32 / (BN / WN) * WM;
  const unsigned warp_col = threadIdx.x / 32 % (BN / WN) * WN;
  // Unsigned, because the last tile's coordinates may pass 2^31 - 1 before the guards drop them.
  const unsigned row0 = blockIdx.y * BM;
  const unsigned col0 = blockIdx.x * BN;
  const unsigned tiles = (unsigned(K) + BK - 1) / BK;
  const bool wide_a = K % 4 == 0 && reinterpret_cast<size_t>(A) % 16 == 0;
  const bool wide_b = N % 4 == 0 && reinterpret_cast<size_t>(B) % 16 == 0;
  const bool wide_c = N % 2 == 0 && reinterpret_cast<size_t>(C) % 8 == 0;

  auto fetch = [&](unsigned tile, unsigned stage) {
    const unsigned k0 = tile * BK;
    const unsigned as = shared_address(smem + stage * BK * (BM + BN)), bs = as + 4 * BM * BK;
    const float* a = A + size_t(row0) * K + k0;
    const float* b = B + size_t(k0) * N + col0;
    if (wide_a) {
      fetch_tile<BM, BK, 4, NUM_THREADS>(as, place_a, a, K, M - row0, K - k0);
    } else {
      fetch_tile<BM, BK, 1, NUM_THREADS>(as, place_a, a, K, M - row0, K - k0);
    }
    if (wide_b) {
      fetch_tile<BK, BN, 4, NUM_THREADS>(bs, place_b, b, N, K - k0, N - col0);
    } else {
      fetch_tile<BK, BN, 1, NUM_THREADS>(bs, place_b, b, N, K - k0, N - col0);
    }
  };

  float acc[TILES_M][TILES_N][4] = {};

  for (unsigned tile = 0; tile < STAGES - 1; ++tile) {
    if (tile < tiles) fetch(tile, tile);
    cp_async_commit();
  }
  unsigned stage = 0, next = STAGES - 1;
  for (unsigned tile = 0; tile < tiles; ++tile) {
    cp_async_wait<STAGES - 2>();
    __syncthreads();  // everyone's part of this tile is there, and everyone has left the one that is overwritten next
    if (tile + STAGES - 1 < tiles) fetch(tile + STAGES - 1, next);
    cp_async_commit();  // an empty group where nothing is left to fetch, so that the count to wait for stays the same

    // The product is taken as C^T = B^T A^T, since then a lane's two columns of B lie side by side in Bs and in the
    // registers of its fragment, and no register has to be moved. Column 2 g of C is row g of the fragment and column
    // 2 g + 1 is row g + 8, so that a lane also stores two neighbours. place_a repeats after 8 rows, place_b after 4.
    const float* As = smem + stage * BK * (BM + BN) + (warp_row + lane / 16 * 8) * BK;
    const float* Bs = smem + stage * BK * (BM + BN) + BM * BK + warp_col;
#pragma unroll
    for (int k = 0; k < BK; k += PROMOTE) {
      unsigned a_hi[STEPS][TILES_M][2], a_lo[STEPS][TILES_M][2];
#pragma unroll
      for (int s = 0; s < STEPS; ++s) {
#pragma unroll
        for (int i = 0; i < TILES_M; i += 2) {
          unsigned v[4];
          ldmatrix_x4(v, shared_address(As + place_a(lane % 8, k + 8 * s + lane / 8 % 2 * 4) + 8 * i * BK));
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            split(__uint_as_float(v[e]), a_hi[s][i + e / 2][e % 2], a_lo[s][i + e / 2][e % 2]);
          }
        }
      }
#pragma unroll
      for (int j = 0; j < TILES_N; ++j) {
        unsigned b_hi[STEPS][4], b_lo[STEPS][4];
#pragma unroll
        for (int s = 0; s < STEPS; ++s) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const float* at = Bs + place_b(member, 16 * j + 2 * group) + (k + 8 * s + 4 * h) * BN;
            const float2 v = *reinterpret_cast<const float2*>(at);
            split(v.x, b_hi[s][2 * h], b_lo[s][2 * h]);
            split(v.y, b_hi[s][2 * h + 1], b_lo[s][2 * h + 1]);
          }
        }
        // The corrections first, while they are not rounded to the size of the sum.
        float sum[TILES_M][4] = {};
#pragma unroll
        for (int s = 0; s < STEPS; ++s) {
#pragma unroll
          for (int i = 0; i < TILES_M; ++i) mma_m16n8k8_tf32(sum[i], b_lo[s], a_hi[s][i], sum[i]);
#pragma unroll
          for (int i = 0; i < TILES_M; ++i) mma_m16n8k8_tf32(sum[i], b_hi[s], a_lo[s][i], sum[i]);
        }
#pragma unroll
        for (int s = 0; s < STEPS; ++s) {
#pragma unroll
          for (int i = 0; i < TILES_M; ++i) mma_m16n8k8_tf32(sum[i], b_hi[s], a_hi[s][i], sum[i]);
        }
#pragma unroll
        for (int i = 0; i < TILES_M; ++i) {
#pragma unroll
          for (int e = 0; e < 4; ++e) acc[i][j][e] = __fadd_rn(acc[i][j][e], sum[i][e]);
        }
      }
    }
    stage = stage + 1 == STAGES ? 0 : stage + 1;
    next = next + 1 == STAGES ? 0 : next + 1;
  }

  bool finite = true;
#pragma unroll
  for (int i = 0; i < TILES_M; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const unsigned row = row0 + warp_row + 8 * i + 2 * member + h;
#pragma unroll
      for (int j = 0; j < TILES_N; ++j) {
        const unsigned col = col0 + warp_col + 16 * j + 2 * group;
        const float2 v = {0x1p-46f * acc[i][j][h], 0x1p-46f * acc[i][j][2 + h]};
        float* to = C + size_t(row) * N + col;
        finite = finite && isfinite(v.x) && isfinite(v.y);
        if (row < M && col < N) {
          if (wide_c) {
            *reinterpret_cast<float2*>(to) = v;
          } else {
            to[0] = v.x;
            if (col + 1 < N) to[1] = v.y;
          }
        }
      }
    }
  }
  if (finite) return;

  for (unsigned e = 0; e < WM * WN / 32; ++e) {
    const unsigned row = row0 + warp_row + e / 2 / TILES_N / 2 * 8 + 2 * member + e / 2 / TILES_N % 2;
    const unsigned col = col0 + warp_col + e / 2 % TILES_N * 16 + 2 * group + e % 2;
    if (row >= M || col >= N || isfinite(C[size_t(row) * N + col])) continue;
    float sum = 0.0f;
    for (unsigned k0 = 0; k0 < K && !isnan(sum); k0 += 8) {  // a NaN stays one
#pragma unroll
      for (unsigned k = k0; k < k0 + 8; ++k) {
        if (k < K) sum = fmaf(A[size_t(row) * K + k], B[size_t(k) * N + col], sum);
      }
    }
    C[size_t(row) * N + col] = sum;
  }
}
