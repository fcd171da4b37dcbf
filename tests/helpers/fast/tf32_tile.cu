// tf32_tile.cu -- tensor cores on .tf32: one warp a 16 x 8 tile of C, mma.m16n8k8 on fragments loaded from global memory.
//
// /// rung
// title    = "TF32 tile"
// kernel   = "tf32_tile"
// tile     = [16, 8]
// block    = [32]
// multiple = { M = 16, N = 8, K = 8 }
// min_cc   = 80
// ordered  = false
// ///

__device__ unsigned tf32(float x) {
  unsigned out;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(out) : "f"(x));
  return out;
}

__global__ void tf32_tile(const float* A, const float* B, float* C, int M, int N, int K) {
  const int lane = threadIdx.x, group = lane / 4, member = lane % 4;
  A += size_t(blockIdx.y * 16 + group) * K + member;
  B += blockIdx.x * 8 + group;
  float c[4] = {};
  for (int k = 0; k < K; k += 8) {
    const unsigned a0 = tf32(A[k]), a1 = tf32(A[8 * size_t(K) + k]), a2 = tf32(A[k + 4]), a3 = tf32(A[8 * size_t(K) + k + 4]);
    const unsigned b0 = tf32(B[size_t(k + member) * N]), b1 = tf32(B[size_t(k + member + 4) * N]);
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
  for (int i = 0; i < 4; ++i)
    C[size_t(blockIdx.y * 16 + group + i / 2 * 8) * N + blockIdx.x * 8 + member * 2 + i % 2] = c[i];
}
