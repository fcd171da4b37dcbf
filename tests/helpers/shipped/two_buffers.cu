// two_buffers.cu -- two tiles of k in turn, one fetched while the other is used; the loop takes them in pairs.
//
// LAST = 0 forgets the tile that is left over when their number is odd.
//
// /// rung
// title  = "Two buffers"
// kernel = "two_buffers"
// params = { T = 8, LAST = 1 }
// block  = [8, 8]
// ///

template <int T, int LAST>
__global__ void two_buffers(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float As[2][T][T];
  __shared__ float Bs[2][T][T];
  const unsigned tx = threadIdx.x, ty = threadIdx.y;
  const unsigned row = blockIdx.y * T + ty, col = blockIdx.x * T + tx;
  const unsigned tiles = K / T + (K % T != 0);
  float acc = 0.0f;

  auto fetch = [&](unsigned tile, int to) {
    const unsigned ka = tile * T + tx, kb = tile * T + ty;
    As[to][ty][tx] = row < M && ka < K ? A[size_t(row) * K + ka] : -0.0f;
    Bs[to][ty][tx] = kb < K && col < N ? B[size_t(kb) * N + col] : 0.0f;
  };
  auto multiply = [&](int from) {
    for (int k = 0; k < T; ++k) acc = fmaf(As[from][ty][k], Bs[from][k][tx], acc);
  };

  if (tiles > 0) fetch(0, 0);
  __syncthreads();
  for (unsigned tile = 0; tile + 1 < tiles; tile += 2) {
    fetch(tile + 1, 1);
    multiply(0);
    __syncthreads();
    if (tile + 2 < tiles) fetch(tile + 2, 0);
    multiply(1);
    __syncthreads();
  }
  if (LAST && tiles % 2 == 1) multiply(0);
  if (row < M && col < N) C[size_t(row) * N + col] = acc;
}
