// uninitialised.cu -- reads shared memory that nobody wrote.

extern "C" __global__ void faulty(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float Ts[128];
  const int i = threadIdx.x;
#ifdef RIGHT
  Ts[i + 64] = 1.0f;
#endif
  Ts[i] = A[i];
  __syncthreads();
  C[i] = Ts[i + 1];  // HERE: thread 63 reads element 64
}
