// misaligned_shared.cu -- stores two floats at once to an odd word of shared memory.

extern "C" __global__ void faulty(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ __align__(16) float s[256];
  const int i = threadIdx.x;
#ifdef RIGHT
  *reinterpret_cast<float2*>(s + 2 * i) = make_float2(A[i], B[i]);
#else
  *reinterpret_cast<float2*>(s + 2 * i + N) = make_float2(A[i], B[i]);  // HERE: N = 1
#endif
  __syncthreads();
  C[i] = s[i] + s[i + 64];
}
