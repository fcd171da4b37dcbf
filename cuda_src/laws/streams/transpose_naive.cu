// transpose_naive.cu -- the transpose of an n x n matrix, read along rows and written down columns.
//
// How       a warp reads 32 neighbouring words and writes 32 words that lie n apart, each into a sector of its own: for
//           8 bytes an element that lanes ask for, L1 moves 4 and 32.
// Leaves    those stores (transpose_tiled).
//
// /// stream
// title       = "Transpose, naive"
// kernel      = "transpose_naive"
// params      = { T = 32, ROWS = 8 }
// block       = [32, 8]
// multiple    = 32
// grid        = ["n / T", "n / T"]
// elements    = { x = "n * n", y = "n * n" }
// computes    = { y = "transpose(x)" }
// flop        = "0"
// asked_bytes = "8 * n * n"
// l1_bytes    = "36 * n * n"
// ///

template <int T, int ROWS>
__global__ void __launch_bounds__(T * ROWS)
transpose_naive(const float* __restrict__ x, float* __restrict__ y, unsigned n) {
  const unsigned column = blockIdx.x * T + threadIdx.x;
  for (unsigned i = threadIdx.y; i < T; i += ROWS) {
    const unsigned row = blockIdx.y * T + i;
    if (row < n && column < n) y[size_t(column) * n + row] = x[size_t(row) * n + column];
  }
}
