// 05_padded.cu -- rung 04 with one word of padding: the same walk now visits all 32 banks.
//
// C = A @ B, row-major f32: A (M, K), B (K, N), C (M, N).
//
// Removes   the bank conflicts of rung 04, by one word per column: PAD. Nothing else of the kernel differs.
// How       PITCH = 33 is odd, so the banks (33 * column + k) % 32 = (column + k) % 32 of a warp's 32 columns are 32
//           different ones: one wavefront per request. The price is 32 words of shared memory that hold nothing, and
//           that ptxas can no longer read four k of a column at once, since 33 * column is not a multiple of 4.
// Leaves    two shared-memory words per fused multiply-add, as in rung 03: with the conflicts gone it is the bandwidth
//           of the SM's data pipe that binds (rung 06).
// Source    G. Ruetsch, P. Micikevicius, "Optimizing Matrix Transpose in CUDA", NVIDIA, 2009.
//
// /// rung
// title  = "Transposed tile, padded"
// kernel = "tiled_transposed"
// params = { T = 32, PAD = 1, NUM_THREADS = 1024 }
// law    = "c_stationary"
// ///

template <int T, int PAD, int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS)
tiled_transposed(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
  constexpr int PITCH = T + PAD;  // words from one column of B to the next
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
