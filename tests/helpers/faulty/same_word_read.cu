// same_word_read.cu -- many threads may read one word.

extern "C" __global__ void faulty(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float x;
  if (threadIdx.x == 0) x = A[5];
  __syncthreads();
  C[threadIdx.x] = x;
}
