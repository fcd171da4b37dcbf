// saxpy.cu -- y = a x + y.
//
// How       12 bytes an element: x and y are read and y is written. With a multiply and an add that is 2/12 FLOP/byte,
//           fixed by the data and not by the loop.
// Leaves    nothing to gain: the ridge of every GPU lies far to the right.
// Source    C. Lawson, R. Hanson, D. Kincaid, F. Krogh, "Basic Linear Algebra Subprograms for Fortran Usage", ACM TOMS,
//           1979.
//
// /// stream
// title       = "saxpy"
// kernel      = "saxpy"
// params      = { NUM_THREADS = 256 }
// grid        = ["n / NUM_THREADS"]
// elements    = { x = "n", y = "n" }
// scalars     = { a = 2.5 }
// computes    = { y = "a * x + y" }
// flop        = "2 * n"
// asked_bytes = "12 * n"
// ///

template <int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS)
saxpy(float a, const float* __restrict__ x, float* __restrict__ y, unsigned n) {
  const unsigned i = blockIdx.x * NUM_THREADS + threadIdx.x;
  if (i < n) y[i] = fmaf(a, x[i], y[i]);
}
