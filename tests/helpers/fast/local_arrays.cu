// local_arrays.cu -- one thread an element of C; sums and indices pass through arrays in local memory, 1 to 8 bytes each.
//
// /// rung
// title  = "Local arrays"
// kernel = "local_arrays"
// tile   = [8, 32]
// block  = [32, 8]
// ///

__global__ void local_arrays(const float* A, const float* B, float* C, int M, int N, int K) {
  const unsigned row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
  if (row >= M || col >= N) return;
  // Indices that the compiler cannot know keep these arrays out of registers.
  unsigned char bytes[16];
  unsigned short shorts[16];
  double doubles[4];
  float sums[8];
  for (int i = 0; i < 16; ++i) {
    bytes[(i + K) % 16] = (i + K) % 16;
    shorts[(i + K) % 16] = 1000 + (i + K) % 16;
  }
  sums[K % 8] = 0.0f;
  for (int k = 0; k < K; ++k) {
    doubles[k % 4] = A[size_t(row) * K + k];
    const int same = bytes[k % 16] + shorts[(k + 3) % 16] - 1000 - (k + 3) % 16;  // k % 16
    sums[K % 8] = fmaf(float(doubles[same % 4]), B[size_t(k) * N + col], sums[(K + same - k % 16) % 8]);
  }
  C[size_t(row) * N + col] = sums[K % 8];
}
