// race_within_a_warp.cu -- lanes of one warp read what their neighbours write, with no __syncwarp() in between.

extern "C" __global__ void faulty(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float As[64];
  const int i = threadIdx.x;
  As[i] = A[i];  // THERE
#ifdef RIGHT
  __syncwarp();
#endif
  C[i] = As[i ^ 1];  // HERE
}
