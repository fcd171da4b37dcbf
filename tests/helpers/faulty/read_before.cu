// read_before.cu -- reads one element in front of A.

extern "C" __global__ void faulty(const float* A, const float* B, float* C, int M, int N, int K) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef RIGHT
  const float left = i > 0 ? A[i - 1] : 0.0f;
#else
  const float left = A[i - 1];  // HERE: thread 0 of block 0
#endif
  C[i] = left + A[i];
}
