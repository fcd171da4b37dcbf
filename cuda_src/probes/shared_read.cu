// shared_read.cu -- the ceiling of an SM's data pipe: shared-memory reads without a bank conflict.
//
// A warp reads 512 neighbouring bytes with one 16-byte load a lane: four wavefronts of 128 bytes, the least there can be.
// The loads are volatile (ld.volatile.shared): ptxas moves a plain ld.shared of the same address out of the loop, even
// out of an asm volatile, and the probe then reports what no hardware can do.

#include "timer.cuh"

template <int UNROLL>
__global__ void __launch_bounds__(1024) shared_read(int passes, float* sink, Span* span) {
  __shared__ float4 words[1024];
  words[threadIdx.x] = make_float4(threadIdx.x, 1, 2, 3);
  __syncthreads();  // no thread reads another's word, but the stores must not run beside the timed loads

  Span clock;
  clock.begin();
  const unsigned address = unsigned(__cvta_generic_to_shared(words + threadIdx.x));
  float4 sum = make_float4(0, 0, 0, 0);
  for (int pass = 0; pass < passes; ++pass) {
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
      float4 v;
      asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                   : "r"(address));
      sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
  }
  if (sum.x + sum.y + sum.z + sum.w == -1.0f) *sink = sum.x;  // never: all words are positive
  clock.end(span);
}
