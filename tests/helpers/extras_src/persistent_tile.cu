// persistent_tile.cu -- as many blocks as run at once share out the tiles of C; the rest of them is cut along K.
//
// /// rung
// title   = "Persistent"
// kernel  = "persistent"
// params  = { BM = 16, BN = 16, BK = 8, NUM_THREADS = 256 }
// grid    = "persistent"
// ordered = false
// pack    = { kernel = "keep_b", of = "B", tile = ["BK", "BN"], block = 128, room_bytes = "256 + 8 * BM * BN * BLOCKS" }
// ///

constexpr int MOST_BLOCKS = 64;

template <int BM, int BN, int BK, int NUM_THREADS>
__global__ void keep_b(const float* X, float* packed, int rows, int cols) {
  const unsigned row = blockIdx.y * BK + threadIdx.x / BN, col = blockIdx.x * BN + threadIdx.x % BN;
  packed[(size_t(blockIdx.y) * gridDim.x + blockIdx.x) * BK * BN + threadIdx.x] =
      row < rows && col < cols ? X[size_t(row) * cols + col] : 0.0f;
  int* arrived = reinterpret_cast<int*>(packed + size_t(gridDim.x) * gridDim.y * BK * BN);
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x < MOST_BLOCKS) arrived[threadIdx.x] = 0;
}

template <int BM, int BN, int BK, int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS)
persistent(const float* A, const float* B, float* C, int M, int N, int K, float* packed) {
  __shared__ int last;
  const int blocks = min(int(gridDim.x), MOST_BLOCKS), block = blockIdx.x;
  if (block >= blocks) return;
  const int tiles_n = (N + BN - 1) / BN, tiles = (M + BM - 1) / BM * tiles_n, k_tiles = (K + BK - 1) / BK;
  const int rounds = k_tiles == 0 ? (tiles + blocks - 1) / blocks : tiles / blocks;
  const int cut = k_tiles == 0 ? 0 : tiles % blocks;
  const int share = max(1, (cut * k_tiles + blocks - 1) / blocks);
  int* arrived = reinterpret_cast<int*>(packed + size_t(tiles_n) * k_tiles * BK * BN);
  float* parts = reinterpret_cast<float*>(arrived + MOST_BLOCKS);
  const int end = min(cut * k_tiles, (block + 1) * share);
  int round = 0, at = block * share;
  while (true) {
    int tile, first = 0, count = k_tiles;
    if (round < rounds && round * blocks + block < tiles) {
      tile = round++ * blocks + block;
    } else if (at < end) {
      tile = rounds * blocks + at / k_tiles;
      first = at % k_tiles;
      count = min(k_tiles - first, end - at);
      at += count;
    } else {
      return;
    }
    const int row = tile / tiles_n * BM + threadIdx.x / BN, col = tile % tiles_n * BN + threadIdx.x % BN;
    float acc = 0.0f;
    for (int k = first * BK; k < min(K, (first + count) * BK); ++k) {
      const float b = packed[(size_t(k / BK) * tiles_n + tile % tiles_n) * BK * BN + k % BK * BN + threadIdx.x % BN];
      if (row < M) acc = fmaf(A[size_t(row) * K + k], b, acc);
    }
    if (count < k_tiles) {
      const int begin = (tile - rounds * blocks) * k_tiles;
      const int first_block = begin / share, last_block = (begin + k_tiles - 1) / share;
      parts[(2 * block + (block * share < begin)) * BM * BN + threadIdx.x] = acc;
      __threadfence();
      __syncthreads();
      if (threadIdx.x == 0) last = atomicAdd(&arrived[tile - rounds * blocks], 1) == last_block - first_block;
      __syncthreads();
      if (!last) continue;
      __threadfence();
      acc = 0.0f;
      for (int of = first_block; of <= last_block; ++of) {
        acc += __ldcg(&parts[(2 * of + (of * share < begin)) * BM * BN + threadIdx.x]);
      }
    }
    if (row < M && col < N) C[size_t(row) * N + col] = acc;
  }
}
