// producer.cu -- warps 0 to 3 fill two k-tiles in turn, warps 4 to 7 use them; named barriers pass the tiles to and fro.
//
// FULL = 0 leaves out the barriers that hand a tile over, EMPTY = 0 those that give it back.
//
// /// rung
// title  = "Producer and consumer warps"
// kernel = "producer"
// params = { FULL = 1, EMPTY = 1 }
// tile   = [32, 32]
// block  = [256]
// ///

__device__ void sync(int name) { asm volatile("bar.sync %0, 256;" ::"r"(name) : "memory"); }
__device__ void arrive(int name) { asm volatile("bar.arrive %0, 256;" ::"r"(name) : "memory"); }

template <int FULL, int EMPTY>
__global__ void __launch_bounds__(256)
producer(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float As[2][32][8], Bs[2][8][32];
  const int t = threadIdx.x % 128, tiles = (K + 7) / 8;
  const unsigned row0 = blockIdx.y * 32, col0 = blockIdx.x * 32;
  if (threadIdx.x < 128) {
    for (int tile = 0; tile < tiles; ++tile) {
      const int stage = tile % 2;
      if (EMPTY && tile >= 2) sync(3 + stage);
      for (int i = t; i < 256; i += 128) {
        const unsigned row = row0 + i / 8, k = tile * 8 + i % 8;
        As[stage][i / 8][i % 8] = row < M && k < K ? A[size_t(row) * K + k] : -0.0f;
        const unsigned kb = tile * 8 + i / 32, col = col0 + i % 32;
        Bs[stage][i / 32][i % 32] = kb < K && col < N ? B[size_t(kb) * N + col] : 0.0f;
      }
      if (FULL) arrive(1 + stage);
    }
    return;
  }
  const int tx = t % 32, ty = t / 32;
  float acc[8] = {};
  for (int tile = 0; tile < tiles; ++tile) {
    const int stage = tile % 2;
    if (FULL) sync(1 + stage);
    for (int k = 0; k < 8; ++k)
      for (int i = 0; i < 8; ++i) acc[i] = fmaf(As[stage][ty * 8 + i][k], Bs[stage][k][tx], acc[i]);
    if (EMPTY && tile + 2 < tiles) arrive(3 + stage);
  }
  for (int i = 0; i < 8; ++i)
    if (row0 + ty * 8 + i < M && col0 + tx < N) C[size_t(row0 + ty * 8 + i) * N + col0 + tx] = acc[i];
}
