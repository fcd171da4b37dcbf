// 07_register_tile.cu -- each thread keeps a TM x TN tile of C in registers.
//
// C = A @ B, row-major f32: A (M, K), B (K, N), C (M, N).
//
// Removes   shared memory as the limit: the reads of A are now reused as well, not only those of B (rung 06).
// How       per k a thread reads TM + TN words of shared memory for TM * TN fused multiply-adds: TM TN / (2 (TM + TN))
//           = 2 FLOP/byte before broadcasts, against 1 / 4 in rung 03. The larger block tile raises L1's intensity to
//           BM BN / (2 (BM + BN)) = 32 FLOP/byte.
// Leaves    words fetched one at a time from global memory and from Bs, no load in flight during the mainloop, and only
//           one or two blocks a multiprocessor to hide their latency: 64 sums a thread are paid for in registers.
// Source    V. Volkov, J. Demmel, "Benchmarking GPUs to Tune Dense Linear Algebra", SC08; named 2D block tiling by
//           S. Boehm, "How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance", 2022.
//
// /// rung
// title  = "2D register tile"
// kernel = "register_tile"
// params = { BM = 128, BN = 128, BK = 8, TM = 8, TN = 8, NUM_THREADS = 256 }
// law    = "c_stationary"
// ///

template <int BM, int BN, int BK, int TM, int TN, int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS)
register_tile(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
  constexpr int ROWS = BM / TM;               // threads along the rows of the C tile
  constexpr int COLS = BN / TN;               // and along its columns
  constexpr int A_ROWS = NUM_THREADS / BK;    // rows of A's tile that the block fetches in one pass
  constexpr int B_ROWS = NUM_THREADS / BN;    // and of B's tile
  static_assert(BM % TM == 0 && BN % TN == 0 && NUM_THREADS == ROWS * COLS, "one thread per TM x TN tile");
  static_assert(NUM_THREADS % BK == 0 && BM % A_ROWS == 0, "the block must fetch A's tile in whole passes of rows");
  static_assert(NUM_THREADS % BN == 0 && BK % B_ROWS == 0, "the block must fetch B's tile in whole passes of rows");
  static_assert(BK % 8 == 0 && COLS % 8 == 0, "a warp's rows of A and of C must be whole 32-byte sectors");

  __shared__ float As[BM][BK];  // (row of C, k)
  __shared__ float Bs[BK][BN];  // (k, column of C)

  // A thread owns rows ty, ty + ROWS, ... and columns tx, tx + COLS, ...: interleaved, so that the lanes of a warp read
  // and store neighbouring words. Contiguous 8 x 8 tiles would spread each store over eight times as many sectors.
  const unsigned tx = threadIdx.x % COLS;
  const unsigned ty = threadIdx.x / COLS;
  const unsigned ax = threadIdx.x % BK;
  const unsigned ay = threadIdx.x / BK;
  const unsigned bx = threadIdx.x % BN;
  const unsigned by = threadIdx.x / BN;
  // Unsigned, because the last tile's coordinates may pass 2^31 - 1 before the guards drop them.
  const unsigned row0 = blockIdx.y * BM;
  const unsigned col0 = blockIdx.x * BN;

  float acc[TM][TN] = {};

  for (unsigned k0 = 0; k0 < K; k0 += BK) {
    // Past K the tiles hold -0 and +0: their product -0 is the one addend that changes no sum, not even a sum of -0.
#pragma unroll
    for (int y = 0; y < BM; y += A_ROWS) {
      const unsigned row = row0 + ay + y;
      As[ay + y][ax] = row < M && k0 + ax < K ? A[size_t(row) * K + (k0 + ax)] : -0.0f;
    }
#pragma unroll
    for (int y = 0; y < BK; y += B_ROWS) {
      const unsigned k = k0 + by + y;
      Bs[by + y][bx] = k < K && col0 + bx < N ? B[size_t(k) * N + (col0 + bx)] : 0.0f;
    }
    __syncthreads();  // every thread reads words that other threads have just written

    // Banks: a warp is two rows of 16 threads. Of Bs it reads 16 neighbouring words, of As two words BK apart: always
    // in different banks, so one wavefront. ptxas reads four k of As at once (LDS.128), at two wavefronts.
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      float a[TM], b[TN];
#pragma unroll
      for (int i = 0; i < TM; ++i) a[i] = As[ty + i * ROWS][k];
#pragma unroll
      for (int j = 0; j < TN; ++j) b[j] = Bs[k][tx + j * COLS];
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) acc[i][j] = fmaf(a[i], b[j], acc[i][j]);
      }
    }
    __syncthreads();  // the next tiles overwrite what slower threads may still be reading
  }

#pragma unroll
  for (int i = 0; i < TM; ++i) {
    const unsigned row = row0 + ty + i * ROWS;
#pragma unroll
    for (int j = 0; j < TN; ++j) {
      const unsigned col = col0 + tx + j * COLS;
      if (row < M && col < N) C[size_t(row) * N + col] = acc[i][j];
    }
  }
}
