// 15_tensor_tf32.cu -- tensor cores: one instruction of a warp multiplies 16 x 8 by 8 x 8 elements, rounded to TF32.
//
// C = A @ B, row-major f32: A (M, K), B (K, N), C (M, N). TF32 keeps 11 of float32's 24 significant bits and its range.
// Operands are rounded to nearest, sums are float32: an element is off by up to 2^-10 |A||B|, 2^-11 for each operand of
// a product, where float32's first rounding is 2^-24. Integers up to 2048 stay exact. Infinities and NaN are kept; an
// operand within 2^116 of the largest float32 becomes infinite, one below 2^-137 zero.
//
// Removes   the FP32 units as the limit: mma.sync m16n8k8 does 1024 multiply-adds an instruction, where FFMA does 32.
// How       a warp owns 64 x 64 elements of C. Per 8 of k it reads 128 rows and columns of 8 words, 32 wavefronts, for
//           32 products; a warp tile of 64 x 32 would read 24 for 16, which takes the data pipe about as long as the
//           tensor cores. Rounding to TF32 is two instructions a word. cp.async keeps STAGES - 1 k-tiles under way.
// Leaves    13 bits of each operand, which rung 16 brings back; and mma.sync itself, which reads both operands from
//           registers and reaches some 60 % of what wgmma does from shared memory on sm_90.
// Source    NVIDIA A100 Tensor Core GPU Architecture, 2020; fragments as in the PTX ISA, mma.m16n8k8; the multistage
//           mainloop of CUTLASS, "Efficient GEMM in CUDA"; mma.sync on sm_90 after W. Luo et al., "Benchmarking and
//           Dissecting the Nvidia Hopper GPU Architecture", 2024.
//
// /// rung
// title         = "TF32 tensor cores"
// kernel        = "tensor_tf32"
// params        = { BM = 128, BN = 128, BK = 32, WM = 64, WN = 64, STAGES = 3, NUM_THREADS = 128 }
// tune          = { BM = [64, 128], BN = [128, 256], WN = [32, 64], STAGES = [2, 3, 4], NUM_THREADS = [128, 256] }
// min_cc        = 80
// smem_bytes    = "4 * STAGES * BK * (BM + BN)"
// ordered       = false
// law           = "c_stationary"
// precision     = "tf32"
// unit_roundoff = 0.0009765625
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

template <int BM, int BN, int BK, int WM, int WN, int STAGES, int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS)
tensor_tf32(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
  constexpr int TILES_M = WM / 8;   // 8 x 16 tiles of C in a warp's tile, along its rows
  constexpr int TILES_N = WN / 16;  // and along its columns
  static_assert(BM % WM == 0 && BN % WN == 0 && NUM_THREADS == 32 * (BM / WM) * (BN / WN), "one warp per WM x WN tile");
  static_assert(WM % 16 == 0 && WN % 32 == 0 && (BK == 16 || BK == 32), "which fragments and swizzle rely on");
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
    for (int k = 0; k < BK; k += 8) {
      unsigned a[TILES_M][2];
#pragma unroll
      for (int i = 0; i < TILES_M; i += 2) {
        unsigned v[4];
        ldmatrix_x4(v, shared_address(As + place_a(lane % 8, k + lane / 8 % 2 * 4) + 8 * i * BK));
#pragma unroll
        for (int e = 0; e < 4; ++e) a[i + e / 2][e % 2] = to_tf32(__uint_as_float(v[e]));
      }
#pragma unroll
      for (int j = 0; j < TILES_N; ++j) {
        unsigned b[4];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const float* at = Bs + place_b(member, 16 * j + 2 * group) + (k + 4 * h) * BN;
          const float2 v = *reinterpret_cast<const float2*>(at);
          b[2 * h] = to_tf32(v.x), b[2 * h + 1] = to_tf32(v.y);
        }
#pragma unroll
        for (int i = 0; i < TILES_M; ++i) mma_m16n8k8_tf32(acc[i][j], b, a[i], acc[i][j]);
      }
    }
    stage = stage + 1 == STAGES ? 0 : stage + 1;
    next = next + 1 == STAGES ? 0 : next + 1;
  }

#pragma unroll
  for (int i = 0; i < TILES_M; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const unsigned row = row0 + warp_row + 8 * i + 2 * member + h;
#pragma unroll
      for (int j = 0; j < TILES_N; ++j) {
        const unsigned col = col0 + warp_col + 16 * j + 2 * group;
        float* to = C + size_t(row) * N + col;
        if (row < M && col < N) {
          if (wide_c) {
            *reinterpret_cast<float2*>(to) = {acc[i][j][h], acc[i][j][2 + h]};
          } else {
            to[0] = acc[i][j][h];
            if (col + 1 < N) to[1] = acc[i][j][2 + h];
          }
        }
      }
    }
  }
}
