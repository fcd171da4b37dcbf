// early_return_of_a_warp.cu -- a whole warp, and a whole block, may leave before the barrier.

extern "C" __global__ void faulty(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float As[64];
  const int i = threadIdx.x;
  if (blockIdx.x == 1 || i >= 32) return;
  As[i] = A[i];
  __syncthreads();
  C[i] = As[31 - i];
}
