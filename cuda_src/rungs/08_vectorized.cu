// 08_vectorized.cu -- rung 07 with four words an instruction, on every way from global memory to C.
//
// C = A @ B, row-major f32: A (M, K), B (K, N), C (M, N).
//
// Removes   words moved one at a time: per k-tile a thread issues 39 memory instructions, not the 96 of rung 07.
// How       loads of A and B, stores of Bs, loads of As and Bs, and stores of C are 16 bytes a lane. For that As is
//           transposed on its way in, so that a thread's eight rows are two runs of four words; the word-wise stores
//           that this takes are free of bank conflicts, by four words of padding.
// Leaves    the wavefronts: 37 shared requests a warp and k-tile, not 88, but 104 wavefronts as before, 2.46
//           FLOP/byte; 64 of them are for Bs, which each half of a warp fetches for itself. And no load from global
//           memory is in flight during the mainloop. (Rung 09 for both.)
// Source    V. Volkov, J. Demmel, "Benchmarking GPUs to Tune Dense Linear Algebra", SC08; 16-byte access and the
//           transposed tile as in S. Boehm, "How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance", 2022.
//
// /// rung
// title  = "Vectorized 2D register tile"
// kernel = "vectorized"
// params = { BM = 128, BN = 128, BK = 8, TM = 8, TN = 8, NUM_THREADS = 256 }
// law    = "c_stationary"
// ///

// Rows of `matrix` may be read and written 16 bytes at a time. The same for every thread of the grid.
__device__ __forceinline__ bool is_wide(const float* matrix, int row_length) {
  return row_length % 4 == 0 && reinterpret_cast<size_t>(matrix) % sizeof(float4) == 0;
}

// Four words of one row. `wide`: all of them at once, or none if the row or the columns lie outside, in which case the
// quad keeps what it had: it can reach only elements that C does not have. Otherwise word by word, and `fill` for those
// past the first `inside`.
__device__ __forceinline__ void
fetch(float (&quad)[4], const float* src, bool wide, bool exists, int inside, float fill) {
  if (wide) {
    if (exists) *reinterpret_cast<float4*>(quad) = *reinterpret_cast<const float4*>(src);
  } else {
#pragma unroll
    for (int x = 0; x < 4; ++x) quad[x] = exists && x < inside ? src[x] : fill;
  }
}

// And back: the first `inside` of four words.
__device__ __forceinline__ void store(float* dst, const float* quad, bool wide, int inside) {
  if (wide) {
    if (inside > 0) *reinterpret_cast<float4*>(dst) = *reinterpret_cast<const float4*>(quad);
  } else {
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      if (x < inside) dst[x] = quad[x];
    }
  }
}

template <int BM, int BN, int BK, int TM, int TN, int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS, 2)
vectorized(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
  constexpr int ROWS = BM / TM;   // threads along the rows of the C tile
  constexpr int COLS = BN / TN;   // and along its columns
  constexpr int PITCH = BM + 4;   // words from one k of As to the next
  static_assert(BM % TM == 0 && BN % TN == 0 && NUM_THREADS == ROWS * COLS, "one thread per TM x TN tile");
  static_assert(TM % 4 == 0 && TN % 4 == 0, "a thread's rows and columns come in quads");
  static_assert(BM * BK == 4 * NUM_THREADS, "the block must fetch A's tile with one quad per thread");
  static_assert(BK * BN == 4 * NUM_THREADS, "the block must fetch B's tile with one quad per thread");
  static_assert(BK == 8 && PITCH % 8 == 4 && COLS == 16, "the bank arithmetic below relies on these");

  __shared__ __align__(16) float As[BK][PITCH];  // (k, row of C)
  __shared__ __align__(16) float Bs[BK][BN];     // (k, column of C)

  // A thread owns the rows 4 ty ... 4 ty + 3, the same 4 ROWS further on, and so on; likewise its columns.
  const unsigned tx = threadIdx.x % COLS;
  const unsigned ty = threadIdx.x / COLS;
  const unsigned ax = threadIdx.x % (BK / 4) * 4;  // the first of four neighbouring words that this thread fetches
  const unsigned ay = threadIdx.x / (BK / 4);
  const unsigned bx = threadIdx.x % (BN / 4) * 4;
  const unsigned by = threadIdx.x / (BN / 4);
  // Unsigned, because the last tile's coordinates may pass 2^31 - 1 before the guards drop them.
  const unsigned row0 = blockIdx.y * BM;
  const unsigned col0 = blockIdx.x * BN;
  const bool wide_a = is_wide(A, K), wide_b = is_wide(B, N), wide_c = is_wide(C, N);

  float a_quad[4] = {}, b_quad[4] = {};
  float acc[TM][TN] = {};

  for (unsigned k0 = 0; k0 < K; k0 += BK) {
    // Past K the tiles hold -0 and +0: their product -0 is the one addend that changes no sum, not even a sum of -0.
    const bool whole = K - k0 >= BK;  // K does not end inside this k-tile
    const float* const a_src = A + (size_t(row0 + ay) * K + (k0 + ax));
    const float* const b_src = B + (size_t(k0 + by) * N + (col0 + bx));
    fetch(a_quad, a_src, wide_a && whole, row0 + ay < M, int(K - k0 - ax), -0.0f);
    fetch(b_quad, b_src, wide_b && whole, col0 + bx < N, k0 + by < K ? int(N - col0 - bx) : 0, 0.0f);

    // Banks: a warp holds 16 rows, two quads each. Storing word x of them, lane (quad q, row r) hits word
    // (4 q + x) PITCH + r; 4 PITCH = 528 = 16 mod 32, so q moves by 16 banks and r by 0 ... 15: 32 different ones, one
    // wavefront. Without the padding both quads of a row would meet in one bank, and so would any pitch of 8 n words.
#pragma unroll
    for (int x = 0; x < 4; ++x) As[ax + x][ay] = a_quad[x];
    // A warp stores 128 neighbouring words: four wavefronts, the least for 512 bytes.
    *reinterpret_cast<float4*>(&Bs[by][bx]) = *reinterpret_cast<const float4*>(b_quad);
    __syncthreads();  // every thread reads words that other threads have just written

    // A warp is two rows of 16 threads. Of As it reads two quads, each for 16 lanes: neighbours share an address, so
    // that two wavefronts do. Of Bs it reads 16 quads: eight lanes fill a wavefront, and four are needed, though both
    // rows ask for the same.
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      float a[TM], b[TN];
#pragma unroll
      for (int i = 0; i < TM; i += 4) {
        *reinterpret_cast<float4*>(&a[i]) = *reinterpret_cast<const float4*>(&As[k][ty * 4 + i * ROWS]);
      }
#pragma unroll
      for (int j = 0; j < TN; j += 4) {
        *reinterpret_cast<float4*>(&b[j]) = *reinterpret_cast<const float4*>(&Bs[k][tx * 4 + j * COLS]);
      }
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) acc[i][j] = fmaf(a[i], b[j], acc[i][j]);
      }
    }
    __syncthreads();  // the next tiles overwrite what slower threads may still be reading
  }

#pragma unroll
  for (int i = 0; i < TM; ++i) {
    const unsigned row = row0 + ty * 4 + i / 4 * 4 * ROWS + i % 4;
#pragma unroll
    for (int j = 0; j < TN; j += 4) {
      const unsigned col = col0 + tx * 4 + j * COLS;
      store(C + (size_t(row) * N + col), acc[i] + j, wide_c, row < M ? int(N - col) : 0);
    }
  }
}
