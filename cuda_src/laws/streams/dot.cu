// dot.cu -- the dot product of two vectors.
//
// How       8 bytes an element are read for a multiply and an add: 1/4 FLOP/byte. A thread sums PER_THREAD products,
//           the lanes of a warp add theirs by shuffles, the warps by shared memory, and each block adds one word to the
//           result: 4 bytes a block, next to nothing.
// Leaves    one address that every block adds to, one after the other.
//
// /// stream
// title       = "Dot product"
// kernel      = "dot"
// params      = { PER_THREAD = 16, NUM_THREADS = 256 }
// grid        = ["n / (PER_THREAD * NUM_THREADS)"]
// elements    = { x = "n", y = "n", total = "1" }
// computes    = { total = "sum(x * y)" }
// init        = "zero"
// flop        = "2 * n"
// asked_bytes = "8 * n + 4 * blocks"
// l1_bytes    = "8 * n + 32 * blocks"
// ///

template <int PER_THREAD, int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS)
dot(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ total, unsigned n) {
  static_assert(NUM_THREADS % 32 == 0 && NUM_THREADS <= 1024, "whole warps, and at most a warp of their sums");
  __shared__ float sums[NUM_THREADS / 32];

  float acc = 0.0f;
  unsigned i = blockIdx.x * PER_THREAD * NUM_THREADS + threadIdx.x;
#pragma unroll
  for (int step = 0; step < PER_THREAD; ++step, i += NUM_THREADS) {
    if (i < n) acc = fmaf(x[i], y[i], acc);
  }
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) acc += __shfl_down_sync(0xffffffffu, acc, lanes);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = acc;
  __syncthreads();  // thread 0 reads what the other warps have just written
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < NUM_THREADS / 32; ++warp) acc += sums[warp];
    atomicAdd(total, acc);
  }
}
