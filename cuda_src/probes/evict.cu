// evict.cu -- leaves nothing in L2 that the next kernel needs: reads a buffer of twice the cache's size.
//
// It reads and does not write. Lines that were written have to go back to memory, and would do so while the next kernel
// runs, in its time and among its bytes. ld.global.cg goes past L1.

__global__ void evict(const float4* data, unsigned long long quads, float* sink) {
  const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
  float sum = 0;
#pragma unroll 4
  for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < quads; i += step) {
    const float4 v = __ldcg(data + i);
    sum += (v.x + v.y) + (v.z + v.w);
  }
  if (sum == -1.0f) *sink = sum;  // never: the data are zeros, but the compiler cannot know
}
