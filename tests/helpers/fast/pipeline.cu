// pipeline.cu -- cp.async keeps STAGES - 1 k-tiles of 64 x 64 x 16 under way; 4 x 4 elements of C a thread.
//
// WAIT = 0 leaves out the wait for a tile's copies, BARRIER = 0 the barrier that shows them to the other threads.
//
// /// rung
// title      = "cp.async pipeline"
// kernel     = "pipeline"
// params     = { STAGES = 3, WAIT = 1, BARRIER = 1 }
// tile       = [64, 64]
// block      = [256]
// smem_bytes = 24576
// multiple   = { M = 64, N = 64, K = 16 }
// min_cc     = 80
// ///

__device__ void copy16(unsigned to, const float* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

template <int STAGES, int WAIT, int BARRIER>
__global__ void __launch_bounds__(256)
pipeline(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
  extern __shared__ float4 stages[];  // STAGES times (64 rows of A, 16 k), then (16 k, 64 columns of B)
  constexpr int TILE = 64 * 16, STAGE = 2 * TILE;
  float* smem = reinterpret_cast<float*>(stages);
  const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(smem));
  const int t = threadIdx.x, row0 = blockIdx.y * 64, col0 = blockIdx.x * 64;
  const int tx = t % 16 * 4, ty = t / 16 * 4;
  const int tiles = K / 16;

  auto fetch = [&](int tile) {
    if (tile < tiles) {
      const unsigned to = base + tile % STAGES * STAGE * 4 + t * 16;
      copy16(to, A + size_t(row0 + t / 4) * K + tile * 16 + t % 4 * 4);
      copy16(to + TILE * 4, B + size_t(tile * 16 + t / 16) * N + col0 + t % 16 * 4);
    }
    // An empty group keeps the count of groups that wait_group relies on.
    asm volatile("cp.async.commit_group;" ::: "memory");
  };

  for (int stage = 0; stage < STAGES - 1; ++stage) fetch(stage);
  float acc[4][4] = {};
  for (int tile = 0; tile < tiles; ++tile) {
    if (WAIT) asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
    if (BARRIER) __syncthreads();
    fetch(tile + STAGES - 1);
    const float* As = smem + tile % STAGES * STAGE;
    const float* Bs = As + TILE;
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      const float4 b = *reinterpret_cast<const float4*>(Bs + k * 64 + tx);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float a = As[(ty + i) * 16 + k];
        acc[i][0] = fmaf(a, b.x, acc[i][0]);
        acc[i][1] = fmaf(a, b.y, acc[i][1]);
        acc[i][2] = fmaf(a, b.z, acc[i][2]);
        acc[i][3] = fmaf(a, b.w, acc[i][3]);
      }
    }
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) C[size_t(row0 + ty + i) * N + col0 + tx + j] = acc[i][j];
}
