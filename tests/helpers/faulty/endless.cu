// endless.cu -- a loop that ends only where i meets M exactly.

extern "C" __global__ void faulty(const float* A, const float* B, float* C, int M, int N, int K) {
  float sum = 0.0f;
#pragma unroll 1
#ifdef RIGHT
  for (unsigned i = 0; i < M; i += 3) {
#else
  for (unsigned i = 0; i != M; i += 3) {  // 64 is no multiple of 3
#endif
    sum += A[i % 64];  // HERE
  }
  C[threadIdx.x] = sum;
}
