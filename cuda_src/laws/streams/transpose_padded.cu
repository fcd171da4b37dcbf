// transpose_padded.cu -- transpose_tiled with one word of padding a row: the same walk visits all 32 banks.
//
// How       word (row, column) of the tile lies at row * PITCH + column. With an odd PITCH of 33 the 32 words of a
//           column lie in 32 different banks: one wavefront. DRAM, L2 and L1 move what they move in transpose_tiled.
// Leaves    nothing: it is a copy that turns.
// Source    G. Ruetsch, P. Micikevicius, "Optimizing Matrix Transpose in CUDA", NVIDIA, 2009.
//
// /// stream
// title       = "Transpose, padded"
// kernel      = "transpose_padded"
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
transpose_padded(const float* __restrict__ x, float* __restrict__ y, unsigned n) {
  constexpr int PITCH = T + 1;  // words from one row of the tile to the next
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
