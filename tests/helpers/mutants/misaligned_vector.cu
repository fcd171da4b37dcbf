// misaligned_vector.cu -- reads four columns of B at once, whatever N is.
//
// /// rung
// title  = "Misaligned vector"
// kernel = "misaligned_vector"
// params = { BM = 8, BN = 32 }
// block  = [8, 8]
// ///

template <int BM, int BN>
__global__ void misaligned_vector(const float* A, const float* B, float* C, int M, int N, int K) {
  const unsigned row = blockIdx.y * BM + threadIdx.y;
  const unsigned col = blockIdx.x * BN + 4 * threadIdx.x;
  if (row >= M || col >= N) return;
  if (col + 3 < N) {
    float4 acc = {0.0f, 0.0f, 0.0f, 0.0f};
    for (unsigned k = 0; k < K; ++k) {
      const float a = A[size_t(row) * K + k];
      const float4 b = *reinterpret_cast<const float4*>(&B[size_t(k) * N + col]);  // BUG: aligned only if N % 4 == 0
      acc.x = fmaf(a, b.x, acc.x);
      acc.y = fmaf(a, b.y, acc.y);
      acc.z = fmaf(a, b.z, acc.z);
      acc.w = fmaf(a, b.w, acc.w);
    }
    float* c = &C[size_t(row) * N + col];
    c[0] = acc.x, c[1] = acc.y, c[2] = acc.z, c[3] = acc.w;
  } else {
    for (unsigned j = col; j < N; ++j) {
      float acc = 0.0f;
      for (unsigned k = 0; k < K; ++k) acc = fmaf(A[size_t(row) * K + k], B[size_t(k) * N + j], acc);
      C[size_t(row) * N + j] = acc;
    }
  }
}
