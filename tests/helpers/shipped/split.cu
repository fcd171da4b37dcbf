// split.cu -- each operand as a sum of two numbers of 12 bits, as tensor cores are fed, one element of C a thread.
//
// GUARD = 0 splits infinities too: the rest of one is infinity - infinity.
//
// /// rung
// title   = "Split operands"
// kernel  = "split"
// params  = { T = 8, GUARD = 1 }
// block   = [8, 8]
// ordered = false
// ///

template <int GUARD>
__device__ float2 parts(float x) {
  const float high = __uint_as_float(__float_as_uint(x) & 0xFFFFF000u);
  return make_float2(high, GUARD && !isfinite(x) ? 0.0f : x - high);
}

template <int T, int GUARD>
__global__ void split(const float* A, const float* B, float* C, int M, int N, int K) {
  const unsigned row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
  if (row >= M || col >= N) return;
  float acc = 0.0f;
  for (int k = 0; k < K; ++k) {
    const float x = A[size_t(row) * K + k], y = B[size_t(k) * N + col];
    if (GUARD && !(isfinite(x) && isfinite(y))) {
      acc = fmaf(x, y, acc);
      continue;
    }
    const float2 a = parts<GUARD>(x), b = parts<GUARD>(y);
    acc = fmaf(a.y, b.y, acc);
    acc = fmaf(a.y, b.x, acc);
    acc = fmaf(a.x, b.y, acc);
    acc = fmaf(a.x, b.x, acc);
  }
  C[size_t(row) * N + col] = acc;
}
