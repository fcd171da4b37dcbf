// copy.cu -- the DRAM ceiling: read and write of buffers that no cache can hold.
//
// Each thread moves UNROLL float4, all loads before the first store, so that they are in flight together. There is no
// loop: a grid-stride loop starves on this, since a thread waits for its stores before it loads again.

// UNROLL float4 a thread; STREAMING marks them as not to be used again (ld.global.cs, st.global.cs).
template <int UNROLL, int STREAMING>
__global__ void __launch_bounds__(1024) copy(const float4* __restrict__ from, float4* __restrict__ to) {
  const size_t first = size_t(blockIdx.x) * UNROLL * blockDim.x + threadIdx.x;
  float4 held[UNROLL];
#pragma unroll
  for (int i = 0; i < UNROLL; ++i) {
    const float4* source = from + first + size_t(i) * blockDim.x;
    held[i] = STREAMING ? __ldcs(source) : *source;
  }
#pragma unroll
  for (int i = 0; i < UNROLL; ++i) {
    float4* target = to + first + size_t(i) * blockDim.x;
    if (STREAMING) {
      __stcs(target, held[i]);
    } else {
      *target = held[i];
    }
  }
}
