// early_return.cu -- threads that have returned do not keep the others waiting.

extern "C" __global__ void faulty(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float As[64];
  const int i = threadIdx.x;
  if (i >= 40) return;
  As[i] = A[i];
  __syncthreads();
  if (i >= 20) return;
  As[i] = As[i + 20];
  __syncthreads();
  C[i] = As[19 - i];
}
