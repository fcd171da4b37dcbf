// warp_dot.cu -- one warp an element of C: its lanes take every 32nd k and add up by shuffles.
//
// /// rung
// title   = "Warp reduction"
// kernel  = "warp_dot"
// tile    = [1, 8]
// block   = [256]
// ordered = false
// ///

__global__ void warp_dot(const float* A, const float* B, float* C, int M, int N, int K) {
  const int lane = threadIdx.x % 32, row = blockIdx.y;
  const unsigned col = blockIdx.x * 8 + threadIdx.x / 32;
  if (col >= N) return;
  float sum = 0.0f;
  for (int k = lane; k < K; k += 32) sum = fmaf(A[size_t(row) * K + k], B[size_t(k) * N + col], sum);
  for (int half = 16; half; half /= 2) sum += __shfl_down_sync(0xffffffffu, sum, half);
  if (lane == 0) C[size_t(row) * N + col] = sum;
}
