// disjoint_halves.cu -- each warp has its own half, and orders its own lanes.

extern "C" __global__ void faulty(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float As[64];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  As[32 * warp + lane] = A[threadIdx.x];
  __syncwarp();
  C[threadIdx.x] = As[32 * warp + (lane + 1) % 32];
}
