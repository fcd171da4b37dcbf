// race_write_write.cu -- all threads write one word.

extern "C" __global__ void faulty(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float total;
  const int i = threadIdx.x;
#ifdef RIGHT
  if (i == 7) total = A[i];
#else
  total = A[i];  // HERE THERE
#endif
  __syncthreads();
  C[i] = total;
}
