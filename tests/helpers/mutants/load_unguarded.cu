// load_unguarded.cu -- the last tiles of A reach past its end.
//
// /// rung
// title  = "Load unguarded"
// kernel = "load_unguarded"
// params = { T = 8 }
// tile   = [8, 8]
// block  = [8, 8]
// ///

template <int T>
__global__ void load_unguarded(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float As[T][T];
  __shared__ float Bs[T][T];
  const unsigned tx = threadIdx.x, ty = threadIdx.y;
  const unsigned row = blockIdx.y * T + ty, col = blockIdx.x * T + tx;
  float acc = 0.0f;
  for (unsigned k0 = 0; k0 < K; k0 += T) {
    As[ty][tx] = A[size_t(row) * K + k0 + tx];  // BUG: rows past M and columns past K are read
    Bs[ty][tx] = k0 + ty < K && col < N ? B[size_t(k0 + ty) * N + col] : 0.0f;
    __syncthreads();
    for (int k = 0; k < T; ++k) acc = fmaf(As[ty][k], Bs[k][tx], acc);
    __syncthreads();
  }
  if (row < M && col < N) C[size_t(row) * N + col] = acc;
}
