// race_with_an_atomic.cu -- reads a counter while other threads may still count.

extern "C" __global__ void faulty(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ int count;
  const int i = threadIdx.x;
  if (i == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, 1);  // THERE
#ifdef RIGHT
  __syncthreads();
#endif
  if (i == 40) C[i] = count;  // HERE
}
