// fma.cu -- the FP32 ceiling: fused multiply-adds on registers alone.
//
// Each thread keeps CHAINS sums that do not depend on one another, so that a multiply-add never waits for the one before.

#include "timer.cuh"

template <int CHAINS, int UNROLL>
__global__ void __launch_bounds__(1024) fma_chains(int passes, float factor, float addend, float* sink, Span* span) {
  Span clock;
  clock.begin();
  float acc[CHAINS];
#pragma unroll
  for (int i = 0; i < CHAINS; ++i) acc[i] = 1.0f + 0.001f * (threadIdx.x + 31 * i);
  for (int pass = 0; pass < passes; ++pass) {
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
      for (int i = 0; i < CHAINS; ++i) acc[i] = fmaf(acc[i], factor, addend);
    }
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < CHAINS; ++i) sum += acc[i];
  if (sum == -1.0f) *sink = sum;  // never: factor, addend and the starting values are positive
  clock.end(span);
}
