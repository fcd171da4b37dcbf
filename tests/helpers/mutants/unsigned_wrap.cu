// unsigned_wrap.cu -- the bound of the loop over whole tiles wraps around for K < T.
//
// /// rung
// title  = "Unsigned wrap"
// kernel = "unsigned_wrap"
// params = { T = 8 }
// tile   = [8, 8]
// block  = [8, 8]
// ///

template <int T>
__global__ void unsigned_wrap(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float As[T][T];
  __shared__ float Bs[T][T];
  const unsigned tx = threadIdx.x, ty = threadIdx.y;
  const unsigned row = blockIdx.y * T + ty, col = blockIdx.x * T + tx;
  float acc = 0.0f;
  const unsigned depth = K;
  unsigned k0 = 0;
  for (; k0 <= depth - T; k0 += T) {  // BUG: depth - T is about 2^32 for K < T
    As[ty][tx] = row < M ? A[size_t(row) * K + k0 + tx] : 0.0f;
    Bs[ty][tx] = col < N ? B[size_t(k0 + ty) * N + col] : 0.0f;
    __syncthreads();
    for (int k = 0; k < T; ++k) acc = fmaf(As[ty][k], Bs[k][tx], acc);
    __syncthreads();
  }
  if (row < M && col < N) {
    for (; k0 < depth; ++k0) acc = fmaf(A[size_t(row) * K + k0], B[size_t(k0) * N + col], acc);
  }
  if (row < M && col < N) C[size_t(row) * N + col] = acc;
}
