// race_read_write.cu -- the next turn overwrites what slower threads still read: the second barrier is missing.

extern "C" __global__ void faulty(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float As[64];
  const int i = threadIdx.x;
  float sum = 0.0f;
#pragma unroll 1
  for (int k = 0; k < K; ++k) {
    As[i] = A[i] + k;  // HERE
    __syncthreads();
    sum += As[i ^ 32];  // THERE
#ifdef RIGHT
    __syncthreads();
#endif
  }
  C[i] = sum;
}
