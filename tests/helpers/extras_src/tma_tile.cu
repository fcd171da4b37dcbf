// tma_tile.cu -- each k-step's tiles of A and B arrive by one bulk tensor copy each; two elements of C a thread.
//
// /// rung
// title       = "TMA tile"
// kernel      = "tma_tile"
// params      = { BM = 16, BN = 32, BK = 16, SWIZZLE = 64, NUM_THREADS = 256 }
// min_cc      = 90
// align_bytes = 16
// multiple    = { N = 4, K = 4 }
// tma         = [{ of = "A", box = ["BM", "BK"], swizzle = 64 }, { of = "B", box = ["BK", "BN"] }]
// ///

#include "tensor_map.cuh"

__device__ unsigned shared_address(const void* pointer) { return static_cast<unsigned>(__cvta_generic_to_shared(pointer)); }

__device__ void copy_box(void* to, const TensorMap& map, int column, int row, unsigned long long* full) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          shared_address(to)),
      "l"(&map), "r"(column), "r"(row), "r"(shared_address(full))
      : "memory");
}

__device__ void wait_for(unsigned long long* full, unsigned parity) {
  unsigned done = 0;
  while (!done) {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(shared_address(full)), "r"(parity)
        : "memory");
  }
}

template <int BM, int BN, int BK, int SWIZZLE, int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS)
tma_tile(const float* A, const float* B, float* C, int M, int N, int K, const __grid_constant__ TensorMap map_a,
         const __grid_constant__ TensorMap map_b) {
  static_assert(BM == 16 && BN == 32 && NUM_THREADS == 256, "16 x 16 threads, two columns each");
  static_assert(SWIZZLE == 0 || SWIZZLE == 4 * BK, "a row of As is as long as the swizzle");
  __shared__ alignas(1024) float As[BM * BK];
  __shared__ alignas(1024) float Bs[BK][BN];
  __shared__ alignas(8) unsigned long long full;

  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&full)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();

  float acc[2] = {};
  unsigned parity = 0;
  for (unsigned k0 = 0; k0 < K; k0 += BK, parity ^= 1) {
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&full)),
                   "r"(unsigned(sizeof As + sizeof Bs))
                   : "memory");
      copy_box(As, map_a, k0, row0, &full);
      copy_box(Bs, map_b, col0, k0, &full);
    }
    wait_for(&full, parity);
    for (int k = 0; k < BK; ++k) {
      const unsigned byte = 4 * (ty * BK + k);
      const unsigned moved = SWIZZLE ? (byte >> 7 & SWIZZLE / 16 - 1) << 4 : 0;  // the swizzle moves 16-byte pieces
      const float a = As[(byte ^ moved) / 4];
      for (int j = 0; j < 2; ++j) acc[j] = fmaf(a, Bs[k][tx + 16 * j], acc[j]);
    }
    __syncthreads();  // everyone has read the tiles before the next ones arrive
  }
  for (int j = 0; j < 2; ++j) {
    if (row0 + ty < M && col0 + tx + 16 * j < N) C[size_t(row0 + ty) * N + col0 + tx + 16 * j] = acc[j];
  }
}
