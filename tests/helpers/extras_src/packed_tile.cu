// packed_tile.cu -- B is first cut into tiles, and each element into its upper bits and the rest; one element of C a thread.
//
// The sum of both planes is the element again, so that C is one chain of multiply-adds in k order.
//
// /// rung
// title  = "Packed B"
// kernel = "multiply_packed"
// params = { BM = 16, BN = 16, BK = 8, NUM_THREADS = 256 }
// pack   = { kernel = "pack_b", of = "B", tile = ["BK", "BN"], planes = 2, block = 128 }
// ///

template <int BM, int BN, int BK, int NUM_THREADS>
__global__ void pack_b(const float* X, float* packed, int rows, int cols) {
  static_assert(BK * BN == 128, "one element a thread");
  const unsigned row = blockIdx.y * BK + threadIdx.x / BN, col = blockIdx.x * BN + threadIdx.x % BN;
  const float x = row < rows && col < cols ? X[size_t(row) * cols + col] : 0.0f;
  const bool finite = x - x == 0.0f;
  const float upper = finite ? __uint_as_float(__float_as_uint(x) & 0xfffff000u) : x;
  float* tile = packed + (size_t(blockIdx.y) * gridDim.x + blockIdx.x) * 2 * BK * BN;
  tile[threadIdx.x] = upper;
  tile[BK * BN + threadIdx.x] = finite ? x - upper : 0.0f;
}

template <int BM, int BN, int BK, int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS)
multiply_packed(const float* A, const float* B, float* C, int M, int N, int K, const float* packed) {
  static_assert(BM * BN == NUM_THREADS, "one element a thread");
  const unsigned row = blockIdx.y * BM + threadIdx.x / BN, col = blockIdx.x * BN + threadIdx.x % BN;
  if (row >= M || col >= N) return;
  float acc = 0.0f;
  for (unsigned k = 0; k < K; ++k) {
    const float* tile = packed + (size_t(k / BK) * gridDim.x + blockIdx.x) * 2 * BK * BN;
    const unsigned at = k % BK * BN + threadIdx.x % BN;
    acc = fmaf(A[size_t(row) * K + k], tile[at] + tile[BK * BN + at], acc);
  }
  C[size_t(row) * N + col] = acc;
}
