// read_past.cu -- reads one element past the end of A.

extern "C" __global__ void faulty(const float* A, const float* B, float* C, int M, int N, int K) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef RIGHT
  const float right = i + 1 < M ? A[i + 1] : 0.0f;
#else
  const float right = A[i + 1];  // HERE: the last thread of the last block
#endif
  C[i] = right + A[i];
}
