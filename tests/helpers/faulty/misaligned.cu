// misaligned.cu -- reads four floats at once from an address that is no multiple of 16.

extern "C" __global__ void faulty(const float* A, const float* B, float* C, int M, int N, int K) {
  const int i = threadIdx.x;
#ifdef RIGHT
  const float4 v = *reinterpret_cast<const float4*>(A + 4 * i);
#else
  const float4 v = *reinterpret_cast<const float4*>(A + 4 * i + N);  // HERE: N = 1
#endif
  C[i] = v.x + v.y + v.z + v.w;
}
