// divergent_barrier.cu -- half a warp waits at one barrier, everybody else at the next.

extern "C" __global__ void faulty(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float As[64];
  const int i = threadIdx.x;
  As[i] = A[i];
#ifdef RIGHT
  __syncthreads();
#else
  if (i < 16) __syncthreads();  // HERE
#endif
  As[i] += 1.0f;
  __syncthreads();  // THERE
  C[i] = As[i ^ 1];
}
