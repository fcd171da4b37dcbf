// illegal_address.cu -- stores C a terabyte away from where it is.
//
// /// rung
// title  = "Illegal address"
// kernel = "illegal_address"
// params = { T = 16 }
// tile   = [16, 16]
// block  = [16, 16]
// ///

template <int T>
__global__ void illegal_address(const float* A, const float* B, float* C, int M, int N, int K) {
  const unsigned row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
  if (row >= M || col >= N) return;
  float acc = 0.0f;
  for (unsigned k = 0; k < K; ++k) acc = fmaf(A[size_t(row) * K + k], B[size_t(k) * N + col], acc);
  C[(size_t(1) << 38) + size_t(row) * N + col] = acc;  // BUG
}
