// 03_tiled.cu -- a block stages a T x T tile of A and of B in shared memory and uses each word T times.
//
// C = A @ B, row-major f32: A (M, K), B (K, N), C (M, N).
//
// Removes   the missing reuse of rung 02: every word that a block fetches now feeds T fused multiply-adds.
// How       C stays in registers while k-tiles pass by. A block fetches 2 T^2 words per k-tile for 2 T^3 FLOP, so the
//           intensity of its loads is T / 4, and (T / 4) / (1 + T / 2K) once its own store of C is counted: it grows
//           with the tile's edge and with nothing else.
// Leaves    shared memory itself: each fused multiply-add still reads two words of it. At T = 64 a thread owns four
//           elements of a column and reuses its word of B four times, which hints at the way out (rung 06).
// Source    CUDA C++ Programming Guide, "Shared Memory": the matrix product with one thread per element.
//
// /// rung
// title  = "Shared-memory tile, T = {T}"
// kernel = "tiled"
// sweep  = { T = [16, 32, 64], NUM_THREADS = [256, 1024, 1024] }
// law    = "c_stationary"
// ///

template <int T, int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS)
tiled(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
  constexpr int ROWS = NUM_THREADS / T;  // rows of a tile that the block covers in one pass
  constexpr int PASSES = T / ROWS;       // passes over a tile, and elements of C per thread
  static_assert(NUM_THREADS % T == 0 && T % ROWS == 0, "the block must cover a T x T tile in whole passes of rows");

  __shared__ float As[T][T];  // (row of C, k)
  __shared__ float Bs[T][T];  // (k, column of C)

  const unsigned tx = threadIdx.x % T;
  const unsigned ty = threadIdx.x / T;
  // Unsigned, because the last tile's coordinates may pass 2^31 - 1 before the guards drop them.
  const unsigned row0 = blockIdx.y * T;
  const unsigned col = blockIdx.x * T + tx;

  float acc[PASSES] = {};  // rows ty, ty + ROWS, ... of column tx

  for (unsigned k0 = 0; k0 < K; k0 += T) {
#pragma unroll
    for (int i = 0; i < PASSES; ++i) {
      const unsigned y = ty + i * ROWS;
      // Past K the tiles hold -0 and +0: their product -0 is the one addend that changes no sum, not even a sum of -0.
      As[y][tx] = row0 + y < M && k0 + tx < K ? A[size_t(row0 + y) * K + (k0 + tx)] : -0.0f;
      Bs[y][tx] = k0 + y < K && col < N ? B[size_t(k0 + y) * N + col] : 0.0f;
    }
    __syncthreads();  // every thread reads words that other threads have just written

    // Banks: the lanes of a warp read neighbouring words of a row of Bs (one wavefront), and one word of As, or two
    // of them 16 apart when T = 16 (one wavefront as well). ptxas reads four k of As at once (LDS.128).
#pragma unroll
    for (int k = 0; k < T; ++k) {
      const float b = Bs[k][tx];
#pragma unroll
      for (int i = 0; i < PASSES; ++i) acc[i] = fmaf(As[ty + i * ROWS][k], b, acc[i]);
    }
    __syncthreads();  // the next tiles overwrite what slower threads may still be reading
  }

#pragma unroll
  for (int i = 0; i < PASSES; ++i) {
    const unsigned row = row0 + ty + i * ROWS;
    if (row < M && col < N) C[size_t(row) * N + col] = acc[i];
  }
}
