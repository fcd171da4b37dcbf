// starter.cu -- a block stages a T x T tile of A and of B in shared memory; a thread computes one element of C.
//
// C = A @ B, row-major f32: A (M, K), B (K, N), C (M, N).
//
// The four labels are for you to fill in. What stands there is true of the kernel as it is; the line above as well.
//
// Removes   one bottleneck of an earlier rung: here the missing reuse of rung 02, since a word that a block fetches
//           feeds T fused multiply-adds.
// How       by what means, with the arithmetic of bytes, banks or instructions: here 2 T^2 words a k-tile for 2 T^3
//           FLOP, so that the intensity of the loads is T / 4.
// Leaves    what binds now, left to which rung: here shared memory, of which each multiply-add reads two words.
// Source    who described it first: here the CUDA C++ Programming Guide, "Shared Memory".
//
// /// rung
// title  = "Starter"
// kernel = "starter"
// params = { T = 16, NUM_THREADS = 256 }
// law    = "c_stationary"
// ///

// `params` above are the template arguments. T sets the tile of C, and with it the grid: x = ceil(N / T) blocks along
// the columns of C, y = ceil(M / T) along its rows. NUM_THREADS sets the block.
template <int T, int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS)
starter(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
  static_assert(NUM_THREADS == T * T, "one thread per element of the tile");

  __shared__ float As[T][T];  // (row of C, k)
  __shared__ float Bs[T][T];  // (k, column of C)

  const unsigned tx = threadIdx.x % T;  // neighbouring lanes on neighbouring columns: their accesses are contiguous
  const unsigned ty = threadIdx.x / T;
  const unsigned row = blockIdx.y * T + ty;
  const unsigned col = blockIdx.x * T + tx;

  float acc = 0.0f;

  for (unsigned k0 = 0; k0 < K; k0 += T) {
    // Any shape: what lies outside A or B is zero here, and is not read. size_t, since M * K may pass 2^31.
    As[ty][tx] = row < M && k0 + tx < K ? A[size_t(row) * K + (k0 + tx)] : 0.0f;
    Bs[ty][tx] = k0 + ty < K && col < N ? B[size_t(k0 + ty) * N + col] : 0.0f;
    __syncthreads();  // the tiles are complete before anyone reads them

#pragma unroll
    for (int k = 0; k < T; ++k) acc = fmaf(As[ty][k], Bs[k][tx], acc);
    __syncthreads();  // everyone has read them before the next ones arrive
  }

  // Every element of C is written, by one thread, and nothing beyond it.
  if (row < M && col < N) C[size_t(row) * N + col] = acc;
}
