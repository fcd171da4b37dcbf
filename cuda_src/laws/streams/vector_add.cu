// vector_add.cu -- z = x + y: one thread an element, neighbours side by side.
//
// How       12 bytes an element, 8 read and 4 written, for one addition: 1/12 FLOP/byte. Every sector that a warp
//           touches is used whole, so that L1, L2 and DRAM move what lanes ask for, once.
// Leaves    nothing to gain from caches: no element is used twice.
//
// /// stream
// title       = "Vector add"
// kernel      = "vector_add"
// params      = { NUM_THREADS = 256 }
// grid        = ["n / NUM_THREADS"]
// elements    = { x = "n", y = "n", z = "n" }
// computes    = { z = "x + y" }
// flop        = "n"
// asked_bytes = "12 * n"
// ///

template <int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS)
vector_add(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ z, unsigned n) {
  const unsigned i = blockIdx.x * NUM_THREADS + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
}
