// 06_register_tile_1d.cu -- each thread keeps a column of TM elements of C in registers.
//
// C = A @ B, row-major f32: A (M, K), B (K, N), C (M, N).
//
// Removes   half of the shared-memory reads of rungs 03 to 05: a word of B now feeds TM fused multiply-adds.
// How       per k a thread reads one word of Bs and TM words of As for TM fused multiply-adds. The words of As are the
//           same for a whole warp, so ptxas reads four k of a row with one broadcast (LDS.128), at two wavefronts.
// Leaves    A's side: its words still feed one fused multiply-add each (rung 07).
// Source    V. Volkov, "Better Performance at Lower Occupancy", GTC 2010; named 1D block tiling by S. Boehm, "How to
//           Optimize a CUDA Matmul Kernel for cuBLAS-like Performance", 2022.
//
// /// rung
// title  = "1D register tile"
// kernel = "register_tile_1d"
// params = { BM = 64, BN = 64, BK = 8, TM = 8, NUM_THREADS = 512 }
// law    = "c_stationary"
// ///

template <int BM, int BN, int BK, int TM, int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS)
register_tile_1d(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
  static_assert(NUM_THREADS == BM * BN / TM && BM % TM == 0, "one thread per column of TM elements");
  static_assert(NUM_THREADS == BM * BK, "the block must fetch A's tile with one word per thread");
  static_assert(NUM_THREADS == BK * BN, "the block must fetch B's tile with one word per thread");
  static_assert(BK % 8 == 0, "a row of A's tile must be whole 32-byte sectors");
  static_assert(BN % 32 == 0, "a warp must stay in one row of threads: its reads of As are then broadcasts");

  __shared__ float As[BM][BK];  // (row of C, k)
  __shared__ float Bs[BK][BN];  // (k, column of C)

  const unsigned tx = threadIdx.x % BN;  // column of the C tile
  const unsigned ty = threadIdx.x / BN;  // rows ty * TM ... ty * TM + TM - 1 of it
  const unsigned ax = threadIdx.x % BK;  // the word of A's tile that this thread fetches
  const unsigned ay = threadIdx.x / BK;
  // Unsigned, because the last tile's coordinates may pass 2^31 - 1 before the guards drop them.
  const unsigned row0 = blockIdx.y * BM;
  const unsigned col = blockIdx.x * BN + tx;

  float acc[TM] = {};

  for (unsigned k0 = 0; k0 < K; k0 += BK) {
    // Past K the tiles hold -0 and +0: their product -0 is the one addend that changes no sum, not even a sum of -0.
    As[ay][ax] = row0 + ay < M && k0 + ax < K ? A[size_t(row0 + ay) * K + (k0 + ax)] : -0.0f;
    Bs[ty][tx] = k0 + ty < K && col < N ? B[size_t(k0 + ty) * N + col] : 0.0f;
    __syncthreads();  // every thread reads words that other threads have just written

#pragma unroll
    for (int k = 0; k < BK; ++k) {
      const float b = Bs[k][tx];
#pragma unroll
      for (int i = 0; i < TM; ++i) acc[i] = fmaf(As[ty * TM + i][k], b, acc[i]);
    }
    __syncthreads();  // the next tiles overwrite what slower threads may still be reading
  }

#pragma unroll
  for (int i = 0; i < TM; ++i) {
    const unsigned row = row0 + ty * TM + i;
    if (row < M && col < N) C[size_t(row) * N + col] = acc[i];
  }
}
