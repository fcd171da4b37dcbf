// write_past.cu -- writes one element past the end of C.

extern "C" __global__ void faulty(const float* A, const float* B, float* C, int M, int N, int K) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef RIGHT
  if (i < M) C[i] = A[i];
#else
  C[i + 1] = A[i];  // HERE
#endif
}
