// atomics.cu -- atomics on one word do not race with each other.

extern "C" __global__ void faulty(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ int count;
  const int i = threadIdx.x;
  if (i == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, i);
  atomicMax(&count, 1);
  __syncthreads();
  C[i] = count;
}
