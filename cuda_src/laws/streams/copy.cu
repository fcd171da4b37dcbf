// copy.cu -- y = x: one thread an element.
//
// How       8 bytes an element and no arithmetic: 0 FLOP/byte. It has no place on a roofline, and its rate in bytes is
//           what the slope of one is made of. The probe that measures the roof keeps more loads in flight than this.
// Leaves    concurrency: one load of 4 bytes a thread.
//
// /// stream
// title       = "Copy"
// kernel      = "copy"
// params      = { NUM_THREADS = 256 }
// grid        = ["n / NUM_THREADS"]
// elements    = { x = "n", y = "n" }
// computes    = { y = "x" }
// flop        = "0"
// asked_bytes = "8 * n"
// ///

template <int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS)
copy(const float* __restrict__ x, float* __restrict__ y, unsigned n) {
  const unsigned i = blockIdx.x * NUM_THREADS + threadIdx.x;
  if (i < n) y[i] = x[i];
}
