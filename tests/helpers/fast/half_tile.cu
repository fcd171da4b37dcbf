// half_tile.cu -- tensor cores on halves: ldmatrix and mma.m16n8k16 over 64 x 64 x 32 tiles, 32 x 32 of C a warp.
//
// A and B are rounded to .bf16 (F16 = 0) or .f16 (F16 = 1) on their way to shared memory.
//
// /// rung
// title    = "Half-precision tile"
// kernel   = "half_tile"
// params   = { F16 = 0 }
// tile     = [64, 64]
// block    = [128]
// multiple = { M = 64, N = 64, K = 32 }
// min_cc   = 80
// ordered  = false
// ///

template <int F16>
__device__ unsigned pair_of(float low, float high) {
  unsigned out;
  if (F16) {
    unsigned short a, b;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(a) : "f"(low));
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(b) : "f"(high));
    out = a | unsigned(b) << 16;
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  }
  return out;
}

template <int F16>
__device__ void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  if (F16)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <int F16>
__global__ void __launch_bounds__(128)
half_tile(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
  // Eight halves of padding: the rows of a matrix that ldmatrix reads start in different banks.
  __shared__ alignas(16) unsigned short As[64][32 + 8];  // (row, k)
  __shared__ alignas(16) unsigned short Bs[32][64 + 8];  // (k, column)
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  const int row0 = blockIdx.y * 64, col0 = blockIdx.x * 64, wm = warp / 2 * 32, wn = warp % 2 * 32;
  float acc[2][4][4] = {};
  for (int k0 = 0; k0 < K; k0 += 32) {
    for (int i = t; i < 64 * 16; i += 128) {
      const float2 a = *reinterpret_cast<const float2*>(A + size_t(row0 + i / 16) * K + k0 + i % 16 * 2);
      *reinterpret_cast<unsigned*>(&As[i / 16][i % 16 * 2]) = pair_of<F16>(a.x, a.y);
      const float2 b = *reinterpret_cast<const float2*>(B + size_t(k0 + i / 32) * N + col0 + i % 32 * 2);
      *reinterpret_cast<unsigned*>(&Bs[i / 32][i % 32 * 2]) = pair_of<F16>(b.x, b.y);
    }
    __syncthreads();
    for (int k = 0; k < 32; k += 16) {
      unsigned a[2][4], b[2][4];
      for (int m = 0; m < 2; ++m)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(a[m][0]), "=r"(a[m][1]), "=r"(a[m][2]), "=r"(a[m][3])
                     : "r"((unsigned)__cvta_generic_to_shared(&As[wm + m * 16 + lane % 16][k + lane / 16 * 8])));
      for (int n = 0; n < 2; ++n)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(b[n][0]), "=r"(b[n][1]), "=r"(b[n][2]), "=r"(b[n][3])
                     : "r"((unsigned)__cvta_generic_to_shared(&Bs[k + lane % 16][wn + n * 16 + lane / 16 * 8])));
      for (int m = 0; m < 2; ++m)
        for (int n = 0; n < 4; ++n) mma<F16>(acc[m][n], a[m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
    }
    __syncthreads();
  }
  for (int m = 0; m < 2; ++m)
    for (int n = 0; n < 4; ++n)
      for (int i = 0; i < 4; ++i) {
        const int row = row0 + wm + m * 16 + lane / 4 + i / 2 * 8, col = col0 + wn + n * 8 + lane % 4 * 2 + i % 2;
        C[size_t(row) * N + col] = acc[m][n][i];
      }
}
