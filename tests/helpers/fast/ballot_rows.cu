// ballot_rows.cu -- one warp 32 elements of a row of C: a ballot finds the nonzero elements of A, a shuffle hands them out.
//
// /// rung
// title  = "Skip zeros by ballot"
// kernel = "ballot_rows"
// tile   = [4, 32]
// block  = [32, 4]
// ///

__global__ void ballot_rows(const float* A, const float* B, float* C, int M, int N, int K) {
  const unsigned lane = threadIdx.x, row = blockIdx.y * 4 + threadIdx.y, col = blockIdx.x * 32 + lane;
  if (row >= M) return;
  float acc = 0.0f;
  for (unsigned k0 = 0; k0 < K; k0 += 32) {
    const float a = k0 + lane < K ? A[size_t(row) * K + k0 + lane] : 0.0f;
    for (unsigned left = __ballot_sync(0xffffffffu, a != 0.0f); left; left &= left - 1) {
      const int k = __ffs(left) - 1;
      const float one = __shfl_sync(0xffffffffu, a, k);
      if (col < N) acc = fmaf(one, B[size_t(k0 + k) * N + col], acc);
    }
  }
  if (col < N) C[size_t(row) * N + col] = acc;
}
