// trap.cu -- gives up where an assumption does not hold.

extern "C" __global__ void faulty(const float* A, const float* B, float* C, int M, int N, int K) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef RIGHT
  if (A[i] < 0.0f) __trap();
#else
  if (A[i] == 70.0f) __trap();  // HERE
#endif
  C[i] = A[i];
}
