// double_buffer.cu -- two stages of shared memory: one barrier a turn is enough.

extern "C" __global__ void faulty(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float As[2][64];
  const int i = threadIdx.x;
  float sum = 0.0f;
  As[0][i] = A[i];
  __syncthreads();
#pragma unroll 1
  for (int k = 0; k < K; ++k) {
    As[(k + 1) & 1][i] = A[i] + k;
    sum += As[k & 1][i ^ 32];
    __syncthreads();
  }
  C[i] = sum;
}
