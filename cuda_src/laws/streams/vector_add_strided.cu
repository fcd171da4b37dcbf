// vector_add_strided.cu -- z = x + y with neighbouring threads 32 elements apart.
//
// How       thread i takes element (i mod n/32) * 32 + i / (n/32): each element is computed once, and the lanes of a
//           warp stand in 32 different sectors of 32 bytes, of which they use 4. A sector's other words are asked for
//           only after all the other sectors, so unless a cache holds a whole sweep each is fetched eight times.
// Leaves    bytes that nobody asked for: the asked intensity is that of vector_add, the moved one an eighth of it.
//
// /// stream
// title       = "Vector add, stride 32"
// kernel      = "vector_add_strided"
// params      = { STRIDE = 32, NUM_THREADS = 256 }
// multiple    = 1024
// grid        = ["n / NUM_THREADS"]
// elements    = { x = "n", y = "n", z = "n" }
// computes    = { z = "x + y" }
// flop        = "n"
// asked_bytes = "12 * n"
// l1_bytes    = "96 * n"
// ///

template <int STRIDE, int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS)
vector_add_strided(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ z, unsigned n) {
  const unsigned i = blockIdx.x * NUM_THREADS + threadIdx.x;
  if (i >= n) return;
  const unsigned sweep = n / STRIDE;  // threads that pass before a sector is visited again
  const unsigned at = i % sweep * STRIDE + i / sweep;
  z[at] = x[at] + y[at];
}
