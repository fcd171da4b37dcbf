// shared_out_of_bounds.cu -- indexes shared memory past its end.

extern "C" __global__ void faulty(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float s[64];
  const int i = threadIdx.x;
  s[i] = A[i];
  __syncthreads();
#ifdef RIGHT
  C[i] = s[(i + N) % 64];
#else
  C[i] = s[i + N];  // HERE: N = 1, so by the last thread
#endif
}
