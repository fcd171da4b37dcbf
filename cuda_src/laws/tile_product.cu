// tile_product.cu -- one block multiplies one pair of T x T tiles and adds the product into C.
//
// C += A @ B, row-major f32: A (M, K), B (K, N), C (M, N), which holds zeros before the launch.
//
// Removes   nothing: it is not a rung but a law made visible.
// How       a product of two tiles is 2 T^3 FLOP and touches three of them: A's and B's are loaded, and C's is sent out
//           as reductions, which add in L2 and return nothing. 2 T^3 / (3 * 4 T^2) = T / 6 FLOP/byte, at every size.
//           One block an SM: of several, accesses meet in the SM's data pipe, which counts 1 to 4 % of them twice, more
//           the smaller the tile. That is the neighbours' doing, and the law speaks of one product.
// Leaves    the traffic of C, which a block avoids when it keeps C in registers across k-tiles (rung 03: T / 4).
// Source    M. Lam, E. Rothberg, M. Wolf, "The Cache Performance and Optimizations of Blocked Algorithms", ASPLOS 1991.
//
// /// rung
// title         = "Tile product, T = {T}"
// kernel        = "tile_product"
// sweep         = { T = [16, 32, 64], NUM_THREADS = [256, 1024, 1024] }
// grid_z        = "K/T"
// blocks_per_sm = 1
// c_init        = "zero"
// ordered       = false
// law           = "tile_product"
// ///

template <int T, int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS)
tile_product(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
  constexpr int ROWS = NUM_THREADS / T;  // rows of a tile that the block covers in one pass
  constexpr int PASSES = T / ROWS;       // passes over a tile, and elements of C per thread
  static_assert(NUM_THREADS % T == 0 && T % ROWS == 0, "the block must cover a T x T tile in whole passes of rows");

  __shared__ float As[T][T];  // (row of C, k)
  __shared__ float Bs[T][T];  // (k, column of C)

  const unsigned tx = threadIdx.x % T;
  const unsigned ty = threadIdx.x / T;
  // Unsigned, because the last tile's coordinates may pass 2^31 - 1 before the guards drop them.
  const unsigned row0 = blockIdx.y * T;
  const unsigned col = blockIdx.x * T + tx;

  // blockIdx.z is the k-tile. A grid has at most 65535 blocks along z, so past that a block takes several products.
  for (unsigned k0 = blockIdx.z * T; k0 < K; k0 += gridDim.z * T) {
#pragma unroll
    for (int i = 0; i < PASSES; ++i) {
      const unsigned y = ty + i * ROWS;
      // Past K the tiles hold -0 and +0: their product -0 is the one addend that changes no sum, not even a sum of -0.
      As[y][tx] = row0 + y < M && k0 + tx < K ? A[size_t(row0 + y) * K + (k0 + tx)] : -0.0f;
      Bs[y][tx] = k0 + y < K && col < N ? B[size_t(k0 + y) * N + col] : 0.0f;
    }
    __syncthreads();  // every thread reads words that other threads have just written

    float acc[PASSES] = {};  // rows ty, ty + ROWS, ... of column tx
#pragma unroll
    for (int k = 0; k < T; ++k) {
      const float b = Bs[k][tx];
#pragma unroll
      for (int i = 0; i < PASSES; ++i) acc[i] = fmaf(As[ty + i * ROWS][k], b, acc[i]);
    }
#pragma unroll
    for (int i = 0; i < PASSES; ++i) {
      const unsigned row = row0 + ty + i * ROWS;
      // The old value is not used, so this is a reduction (RED): nothing comes back to the SM.
      if (row < M && col < N) atomicAdd(&C[size_t(row) * N + col], acc[i]);
    }
    __syncthreads();  // the next tiles overwrite what slower threads may still be reading
  }
}
