// race_write_read.cu -- a warp reads what the other one writes, with no barrier in between.

extern "C" __global__ void faulty(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float As[64];
  const int i = threadIdx.x;
  As[i] = A[i];  // THERE
#ifdef RIGHT
  __syncthreads();
#endif
  C[i] = As[i ^ 32];  // HERE
}
