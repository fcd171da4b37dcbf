// half_words.cu -- neighbours store the halves of one word, as kernels in bfloat16 do.

extern "C" __global__ void faulty(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ unsigned short Hs[64];
  __shared__ unsigned char Bs[64];
  const int i = threadIdx.x;
  Hs[i] = 3 * i;
  Bs[i] = i;
  __syncthreads();
  C[i] = Hs[i ^ 33] + Bs[i ^ 7];
}
