// 02_coalesced.cu -- one thread per element of C, and a warp walks along a row.
//
// C = A @ B, row-major f32: A (M, K), B (K, N), C (M, N).
//
// Removes   uncoalesced access (rung 01): the two thread indices change places, and nothing else.
// How       threadIdx.x chooses the column. The 32 lanes read one word of A, which is a broadcast, and 32 neighbouring
//           words of B, which are 4 whole sectors: 5 sectors (160 B) per k instead of 33.
// Leaves    no reuse by design: 64 FLOP ask for two trips through the SM's data pipe, and whatever caches save is luck.
//           The intensity at L1 stays at 64 / 160 = 0.4 FLOP/byte for every N (rung 03).
// Source    CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory".
//
// /// rung
// title  = "Naive, coalesced"
// kernel = "coalesced"
// params = { BM = 32, BN = 32 }
// block  = [32, 32]
// ///

template <int BM, int BN>
__global__ void __launch_bounds__(BM * BN)
coalesced(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
  static_assert(BM * BN <= 1024, "one thread per element of the BM x BN tile: a block has at most 1024");

  // Unsigned, because the last tile's coordinates may pass 2^31 - 1 before the guard drops them.
  const unsigned row = blockIdx.y * BM + threadIdx.y;
  const unsigned col = blockIdx.x * BN + threadIdx.x;
  if (row >= M || col >= N) return;

  float acc = 0.0f;
  for (int k = 0; k < K; ++k) {
    // A: one word for the whole warp. B: four whole sectors.
    acc = fmaf(A[size_t(row) * K + k], B[size_t(k) * N + col], acc);
  }
  C[size_t(row) * N + col] = acc;
}
