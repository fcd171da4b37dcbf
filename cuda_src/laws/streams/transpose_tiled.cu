// transpose_tiled.cu -- the transpose of an n x n matrix by way of a tile in shared memory.
//
// How       a block reads a T x T tile along rows and writes it along rows of the result, so that both sides use whole
//           sectors: 8 bytes an element, asked for and moved. In between a warp reads a column of the tile: 32 words in
//           one bank, 32 wavefronts where one would do.
// Leaves    the bank conflicts (transpose_padded).
//
// /// stream
// title       = "Transpose, tiled"
// kernel      = "transpose_tiled"
// params      = { T = 32, ROWS = 8 }
// block       = [32, 8]
// multiple    = 32
// grid        = ["n / T", "n / T"]
// elements    = { x = "n * n", y = "n * n" }
// computes    = { y = "transpose(x)" }
// flop        = "0"
// asked_bytes = "8 * n * n"
// ///

template <int T, int ROWS>
__global__ void __launch_bounds__(T * ROWS)
transpose_tiled(const float* __restrict__ x, float* __restrict__ y, unsigned n) {
  constexpr int PITCH = T;  // words from one row of the tile to the next
  __shared__ float tile[T][PITCH];

  for (unsigned i = threadIdx.y; i < T; i += ROWS) {
    const unsigned row = blockIdx.y * T + i, column = blockIdx.x * T + threadIdx.x;
    if (row < n && column < n) tile[i][threadIdx.x] = x[size_t(row) * n + column];
  }
  __syncthreads();  // every thread reads words that other threads have just written
  for (unsigned i = threadIdx.y; i < T; i += ROWS) {
    const unsigned row = blockIdx.x * T + i, column = blockIdx.y * T + threadIdx.x;
    if (row < n && column < n) y[size_t(row) * n + column] = tile[threadIdx.x][i];
  }
}
