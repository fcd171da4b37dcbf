// l2_read.cu -- the L2 ceiling: reads that miss L1 by order and hit L2 by size.
//
// Every block walks over the whole footprint, so every chunk is read from all multiprocessors, from near and from the
// far half of the cache: a block that kept a chunk to itself would overstate what the cache can hold. Each walks with a
// stride of its own: blocks that read one line at one time are answered by one request, and two that walk in step show
// twice the bandwidth there is. ld.global.cg goes past L1, which would otherwise answer for small footprints.

#include "timer.cuh"

template <int WORDS>
__device__ __forceinline__ float load_cg(const float* address);

template <>
__device__ __forceinline__ float load_cg<2>(const float* address) {
  float x, y;
  asm volatile("ld.global.cg.v2.f32 {%0, %1}, [%2];" : "=f"(x), "=f"(y) : "l"(address));
  return x + y;
}

template <>
__device__ __forceinline__ float load_cg<4>(const float* address) {
  float x, y, z, w;
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(x), "=f"(y), "=f"(z), "=f"(w) : "l"(address));
  return (x + y) + (z + w);
}

// A chunk is what a block reads at once: UNROLL loads of WORDS floats a thread. The footprint is `chunks` of them, a
// prime number, so that any stride visits them all, and each block reads `steps` chunks. `share` neighbouring blocks
// walk together; 1 keeps all apart.
template <int NUM_THREADS, int WORDS, int UNROLL>
__global__ void __launch_bounds__(NUM_THREADS)
l2_read(const float* __restrict__ data, unsigned chunks, unsigned steps, unsigned share, float* sink, Span* span) {
  constexpr int ROW = NUM_THREADS * WORDS;  // floats that the block reads with one load a thread
  Span clock;
  clock.begin();
  const unsigned walkers = (gridDim.x + share - 1) / share;
  const unsigned walker = blockIdx.x / share;
  unsigned chunk = (unsigned long long)walker * chunks / walkers;
  const unsigned stride = 1 + (unsigned long long)walker * 7919 % (chunks - 1);
  const float* mine = data + threadIdx.x * WORDS;
  float sum = 0;
  for (unsigned step = 0; step < steps; ++step) {
    const float* first = mine + size_t(chunk) * (UNROLL * ROW);
    float part[UNROLL];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) part[i] = load_cg<WORDS>(first + i * ROW);
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) sum += part[i];
    chunk += stride;
    if (chunk >= chunks) chunk -= chunks;
  }
  if (sum == -1.0f) *sink = sum;  // never: the data are positive, but the compiler cannot know
  clock.end(span);
}
