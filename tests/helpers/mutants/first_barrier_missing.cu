// first_barrier_missing.cu -- a warp may read a tile before the other warp has written it.
//
// /// rung
// title  = "First barrier missing"
// kernel = "first_barrier_missing"
// params = { T = 8 }
// tile   = [8, 8]
// block  = [8, 8]
// ///

template <int T>
__global__ void first_barrier_missing(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float As[T][T];
  __shared__ float Bs[T][T];
  const unsigned tx = threadIdx.x, ty = threadIdx.y;
  const unsigned row = blockIdx.y * T + ty, col = blockIdx.x * T + tx;
  float acc = 0.0f;
  for (unsigned k0 = 0; k0 < K; k0 += T) {
    As[ty][tx] = row < M && k0 + tx < K ? A[size_t(row) * K + k0 + tx] : 0.0f;
    Bs[ty][tx] = k0 + ty < K && col < N ? B[size_t(k0 + ty) * N + col] : 0.0f;
    // BUG: no barrier before the tiles are read
    for (int k = 0; k < T; ++k) acc = fmaf(As[ty][k], Bs[k][tx], acc);
    __syncthreads();
  }
  if (row < M && col < N) C[size_t(row) * N + col] = acc;
}
