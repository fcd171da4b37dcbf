// 04_tiled_conflict.cu -- rung 03 at T = 32 with B's tile held transposed: a warp walks down one bank.
//
// C = A @ B, row-major f32: A (M, K), B (K, N), C (M, N).
//
// Removes   nothing. It is a step back on purpose, to show what a shared-memory layout can cost: same FLOP, same bytes
//           from DRAM, L2 and L1 as tiled_32, and only the shared-memory wavefronts differ.
// How       word (column, k) of Bs lies at column * PITCH + k, and a word's bank is its address modulo 32. With
//           PITCH = 32 all 32 lanes of a warp, which differ in their column, meet in bank k % 32: a 32-way conflict,
//           32 wavefronts a request. ptxas softens the reads: 32 is a multiple of 4, so one LDS.128 fetches four k, and
//           its 32 wavefronts bring four words a lane, where 4 wavefronts would have done.
// Leaves    those conflicts: one word of padding ends them (rung 05).
// Source    CUDA C++ Best Practices Guide, "Shared Memory and Memory Banks".
//
// /// rung
// title  = "Transposed tile, bank conflicts"
// kernel = "tiled_transposed"
// params = { T = 32, NUM_THREADS = 1024 }
// law    = "c_stationary"
// ///

template <int T, int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS)
tiled_transposed(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
  constexpr int PITCH = T;  // words from one column of B to the next
  static_assert(NUM_THREADS == T * T, "one thread per element of the T x T tile");
  static_assert(T == 32, "a warp is one row of the tile, which the bank arithmetic relies on");

  __shared__ float As[T][T];      // (row of C, k)
  __shared__ float Bs[T][PITCH];  // (column of C, k)

  const unsigned tx = threadIdx.x % T;
  const unsigned ty = threadIdx.x / T;
  // Unsigned, because the last tile's coordinates may pass 2^31 - 1 before the guards drop them.
  const unsigned row = blockIdx.y * T + ty;
  const unsigned col = blockIdx.x * T + tx;

  float acc = 0.0f;

  for (unsigned k0 = 0; k0 < K; k0 += T) {
    // Past K the tiles hold -0 and +0: their product -0 is the one addend that changes no sum, not even a sum of -0.
    As[ty][tx] = row < M && k0 + tx < K ? A[size_t(row) * K + (k0 + tx)] : -0.0f;
    Bs[tx][ty] = k0 + ty < K && col < N ? B[size_t(k0 + ty) * N + col] : 0.0f;
    __syncthreads();  // every thread reads words that other threads have just written

    // Banks: lane tx reads word tx * PITCH + k of Bs, and wrote word tx * PITCH + ty.
#pragma unroll
    for (int k = 0; k < T; ++k) acc = fmaf(As[ty][k], Bs[tx][k], acc);
    __syncthreads();  // the next tiles overwrite what slower threads may still be reading
  }

  if (row < M && col < N) C[size_t(row) * N + col] = acc;
}
