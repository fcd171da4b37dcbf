// tensor_mma.cu -- the tensor cores' ceiling where a warp multiplies at a time: mma.sync from registers (sm_80).
//
// A warp keeps ROWS fragments of A, COLS of B and the sums of all their pairs, which do not depend on one another. The
// operands are words of `data`: full mantissas make the multipliers toggle, and a tensor core's power decides its clock.

#include "timer.cuh"

// d += a b: 16 x 8, k = 8 words (TF32) or k = 16 halves (BF16) of the same four and two registers a lane.
template <int BF16>
__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  if (BF16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
}

// `data` holds 4 ROWS + 2 COLS words for each thread of a block, a thread's next word NUM_THREADS further on.
template <int NUM_THREADS, int BF16, int ROWS, int COLS>
__global__ void __launch_bounds__(NUM_THREADS)
tensor_mma(int passes, const unsigned* __restrict__ data, float* sink, Span* span) {
  unsigned a[ROWS][4], b[COLS][2];
  const unsigned* mine = data + threadIdx.x;
#pragma unroll
  for (int i = 0; i < 4 * ROWS; ++i) a[i / 4][i % 4] = mine[i * NUM_THREADS];
#pragma unroll
  for (int j = 0; j < 2 * COLS; ++j) b[j / 2][j % 2] = mine[(4 * ROWS + j) * NUM_THREADS];
  float acc[ROWS][COLS][4] = {};

  Span clock;
  clock.begin();
  for (int pass = 0; pass < passes; ++pass) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
      for (int j = 0; j < COLS; ++j) multiply<BF16>(acc[i][j], a[i], b[j]);
    }
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < ROWS * COLS * 4; ++i) sum += acc[i / 4 / COLS][i / 4 % COLS][i % 4];
  if (sum == 1.2345e38f) *sink = sum;  // never, but the compiler cannot know
  clock.end(span);
}
