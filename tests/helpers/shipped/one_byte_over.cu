// one_byte_over.cu -- 48 KiB of dynamic shared memory and one static byte, all of it in use.
//
// /// rung
// title      = "One byte over 48 KiB"
// kernel     = "one_byte_over"
// params     = { T = 8 }
// block      = [8, 8]
// smem_bytes = 49152
// ///

template <int T>
__global__ void one_byte_over(const float* A, const float* B, float* C, int M, int N, int K) {
  extern __shared__ float words[];
  __shared__ volatile char one;
  const unsigned row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
  if (threadIdx.x == 0 && threadIdx.y == 0) one = 1;
  __syncthreads();
  float* const last = words + 12288 - T * T + threadIdx.y * T + threadIdx.x;
  *last = 0.0f;
  if (row >= M || col >= N) return;
  for (int k = 0; k < K; ++k) *last = fmaf(A[size_t(row) * K + k], one * B[size_t(k) * N + col], *last);
  C[size_t(row) * N + col] = *last;
}
