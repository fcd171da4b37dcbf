// 01_naive.cu -- one thread per element of C, and a warp walks down a column.
//
// C = A @ B, row-major f32: A (M, K), B (K, N), C (M, N).
//
// Removes   nothing: this is the ground floor. Every element of C is one chain of K fused multiply-adds.
// How       threadIdx.x, which runs fastest inside a warp, chooses the row. So the 32 lanes read 32 rows of A at the
//           same k: words that lie K apart, in 32 different sectors, of which 4 bytes of 32 are used.
// Leaves    uncoalesced access: per k a warp touches 33 sectors (1056 B) for 64 FLOP, and its store touches 32
//           (rung 02).
// Source    CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory": the pattern that it warns of.
//
// /// rung
// title  = "Naive, uncoalesced"
// kernel = "naive"
// params = { BM = 32, BN = 32 }
// block  = [32, 32]
// ///

template <int BM, int BN>
__global__ void __launch_bounds__(BM * BN)
naive(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
  static_assert(BM * BN <= 1024, "one thread per element of the BM x BN tile: a block has at most 1024");

  // Unsigned, because the last tile's coordinates may pass 2^31 - 1 before the guard drops them.
  const unsigned row = blockIdx.y * BM + threadIdx.x;
  const unsigned col = blockIdx.x * BN + threadIdx.y;
  if (row >= M || col >= N) return;

  float acc = 0.0f;
  for (int k = 0; k < K; ++k) {
    // A: one sector per lane. B: one word for the whole warp.
    acc = fmaf(A[size_t(row) * K + k], B[size_t(k) * N + col], acc);
  }
  C[size_t(row) * N + col] = acc;
}
