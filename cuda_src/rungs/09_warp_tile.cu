// 09_warp_tile.cu -- rung 08 with a tile of C for each warp, and the next k-tile on its way during the mainloop.
//
// C = A @ B, row-major f32: A (M, K), B (K, N), C (M, N).
//
// Removes   half of the shared-memory traffic of rung 08, its register-bank conflicts, and the wait for global memory
//           before every mainloop.
// How       a warp owns WM x WN of C, its lanes in 8 x 4, numbered so that every fragment load is served in two
//           wavefronts and not four; with 8 x 16 sums a lane, 12 wavefronts feed 128 fused multiply-adds, where rung 08
//           needs 12 for 64. The next k-tile is fetched into registers before this one is multiplied, and then stored to
//           a second pair of tiles: one barrier a k-tile. Shared intensity rises from 2.46 to 4.74 FLOP/byte.
// Leaves    the way through registers: each load in flight holds four of them all through the mainloop, beside 128 sums
//           and two sets of fragments, so that one k-tile at most is on its way (rung 10).
// Source    A. Kerr et al., "CUTLASS: Fast Linear Algebra in CUDA C++", NVIDIA, 2017 (warp tiles, double buffering);
//           S. Gray, "SGEMM", in the manual of the maxas assembler, 2014 (numbering of lanes, register banks).
//
// /// rung
// title  = "Warp tile, double-buffered"
// kernel = "warp_tile"
// params = { BM = 128, BN = 256, BK = 8, WM = 64, WN = 64, TM = 8, TN = 16, NUM_THREADS = 256 }
// law    = "c_stationary"
// ///

// Rows of `matrix` may be read and written 16 bytes at a time. The same for every thread of the grid.
__device__ __forceinline__ bool is_wide(const float* matrix, int row_length) {
  return row_length % 4 == 0 && reinterpret_cast<size_t>(matrix) % sizeof(float4) == 0;
}

// The first `inside` of four words of one row. `wide`: all of them at once, or none if the row or the columns lie
// outside, in which case the quad keeps what it had: it can reach only elements that C does not have. Otherwise word by
// word, with `fill` for the others.
__device__ __forceinline__ void fetch(float (&quad)[4], const float* src, bool wide, int inside, float fill) {
  if (wide) {
    if (inside > 0) *reinterpret_cast<float4*>(quad) = *reinterpret_cast<const float4*>(src);
  } else {
#pragma unroll
    for (int x = 0; x < 4; ++x) quad[x] = x < inside ? src[x] : fill;
  }
}

// And back.
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

template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS, (TM * TN > 64 ? 256 : 512) / NUM_THREADS)  // 255 or 128 registers
warp_tile(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
  constexpr int LANES_M = WM / TM;                // lanes along the rows of a warp's tile
  constexpr int LANES_N = WN / TN;                // and along its columns
  constexpr int PITCH = BM + 4;                   // words from one k of As to the next
  constexpr int A_QUADS = BK / 4;                 // quads in a row of A's tile
  constexpr int B_QUADS = BN / 4;                 // and of B's
  constexpr int A_ROWS = NUM_THREADS / A_QUADS;   // rows of A's tile that the block fetches in one pass
  constexpr int B_ROWS = NUM_THREADS / B_QUADS;   // and of B's
  constexpr int A_PASSES = BM / A_ROWS;
  constexpr int B_PASSES = BK / B_ROWS;
  static_assert(BM % WM == 0 && BN % WN == 0 && NUM_THREADS == 32 * (BM / WM) * (BN / WN), "a warp per WM x WN tile");
  static_assert(WM % TM == 0 && WN % TN == 0 && LANES_M * LANES_N == 32, "a lane per TM x TN tile");
  static_assert(TM % 4 == 0 && TN % 4 == 0, "a lane's rows and columns come in quads");
  static_assert(LANES_M >= 4 && LANES_N >= 4, "four lanes or more each way, which the bank arithmetic relies on");
  static_assert(BK % 8 == 0 && PITCH % 8 == 4, "rows of A's tile in whole sectors, on a pitch that keeps banks apart");
  static_assert(NUM_THREADS % A_QUADS == 0 && BM % A_ROWS == 0, "the block must fetch A's tile in whole passes");
  static_assert(NUM_THREADS % B_QUADS == 0 && BK % B_ROWS == 0, "the block must fetch B's tile in whole passes");
  static_assert(A_ROWS % 16 == 0, "the permutation of A's rows stays within a pass");

  struct alignas(16) Tiles {
    float As[BK][PITCH];  // (k, row of C)
    float Bs[BK][BN];     // (k, column of C, each odd one before the even one)
  };
  __shared__ Tiles tiles[2];
  constexpr int STAGE = sizeof(Tiles) / sizeof(float);  // words from one pair of tiles to the other

  // Bits of the lane, lowest first: one of tm, all of tn, the rest of tm. So lane ^ 1 reads the same quad of Bs, and
  // lane ^ 2 the same of As. A 16-byte load is served 8 lanes at a time, but 16 when every lane's address is that of
  // lane ^ 1, or every lane's that of lane ^ 2. Here 16 lanes ask for two or four quads of As, and for eight or four
  // neighbouring ones of Bs: 32 banks at most, so a load is two wavefronts. In rung 08 no two of them shared on Bs.
  const unsigned warp = threadIdx.x / 32;
  const unsigned lane = threadIdx.x % 32;
  const unsigned tm = lane % 2 + lane / (2 * LANES_N) * 2;
  const unsigned tn = lane / 2 % LANES_N;
  // A lane owns rows w_row ... w_row + 3, the same 4 LANES_M further on, and so on; likewise its columns.
  const unsigned w_row = warp / (BN / WN) * WM + tm * 4;
  const unsigned w_col = warp % (BN / WN) * WN + tn * 4;
  // Storing word x of A's quads, lane (quad q, row r) hits word (4 q + x) PITCH + r, 16 q + r banks further on.
  // Two quads of 16 rows fill the 32 banks, as in rung 08. With four quads of 8 rows, 2 and 3 would meet 0 and 1, so
  // they are taken from the other 8 rows of 16. Every store is one wavefront, for BK = 8 and 16 alike.
  const unsigned quad = threadIdx.x % A_QUADS;
  const unsigned ax = quad * 4;
  const unsigned ay = threadIdx.x / A_QUADS ^ quad / 2 * (32 / A_QUADS);
  const unsigned bx = threadIdx.x % B_QUADS * 4;
  const unsigned by = threadIdx.x / B_QUADS;
  // Unsigned, because the last tile's coordinates may pass 2^31 - 1 before the guards drop them.
  const unsigned row0 = blockIdx.y * BM;
  const unsigned col0 = blockIdx.x * BN;
  const bool wide_a = is_wide(A, K), wide_b = is_wide(B, N), wide_c = is_wide(C, N);

  const float* a_src = A + (size_t(row0 + ay) * K + ax);
  const float* b_src = B + (size_t(by) * N + (col0 + bx));
  const int b_inside = N - int(col0 + bx);
  int left = K;  // what K has left where the next k-tile begins
  float a_next[A_PASSES][4] = {}, b_next[B_PASSES][4] = {};

  const auto fetch_tiles = [&] {
    // Past K the tiles hold -0 and +0: their product -0 is the one addend that changes no sum, not even a sum of -0.
    const bool whole = left >= BK;  // K does not end inside this k-tile
#pragma unroll
    for (int p = 0; p < A_PASSES; ++p) {
      const int inside = row0 + ay + p * A_ROWS < M ? left - int(ax) : 0;
      fetch(a_next[p], a_src + size_t(p * A_ROWS) * K, wide_a && whole, inside, -0.0f);
    }
#pragma unroll
    for (int p = 0; p < B_PASSES; ++p) {
      const int inside = int(by) + p * B_ROWS < left ? b_inside : 0;
      fetch(b_next[p], b_src + size_t(p * B_ROWS) * N, wide_b && whole, inside, 0.0f);
    }
    a_src += BK;
    b_src += size_t(BK) * N;
  };

  // Where this thread stores, and from where it loads; the two change places after every k-tile.
  float* as_put = &tiles[0].As[ax][ay];
  float* bs_put = &tiles[0].Bs[by][bx];
  const float* as_get = &tiles[0].As[0][w_row];
  const float* bs_get = &tiles[0].Bs[0][w_col];
  const auto store_tiles = [&] {
    // Register banks, one of even and one of odd registers: a fused multiply-add that reads two new operands from one of
    // them takes a cycle more. In the mainloop these are b[j] and acc[i][j]. The sum has the parity of j, since four of
    // them leave in one 16-byte store, and so would b[j], which comes in one 16-byte load. Bs holds each pair of columns
    // swapped, so that the two never meet.
#pragma unroll
    for (int p = 0; p < A_PASSES; ++p) {
#pragma unroll
      for (int x = 0; x < 4; ++x) as_put[x * PITCH + p * A_ROWS] = a_next[p][x];
    }
#pragma unroll
    for (int p = 0; p < B_PASSES; ++p) {
      const float4 swapped = {b_next[p][1], b_next[p][0], b_next[p][3], b_next[p][2]};
      *reinterpret_cast<float4*>(bs_put + p * B_ROWS * BN) = swapped;
    }
  };

  float acc[TM][TN] = {};
  int flip = STAGE;
  fetch_tiles();
  store_tiles();
  as_put += flip;
  bs_put += flip;
  __syncthreads();  // every thread reads words that other threads have just written

  while (left > 0) {
    left -= BK;
    fetch_tiles();  // past K this fetches nothing

#pragma unroll
    for (int k = 0; k < BK; ++k) {
      float a[TM], b[TN];
#pragma unroll
      for (int i = 0; i < TM; i += 4) {
        *reinterpret_cast<float4*>(&a[i]) = *reinterpret_cast<const float4*>(as_get + k * PITCH + i * LANES_M);
      }
#pragma unroll
      for (int j = 0; j < TN; j += 4) {
        *reinterpret_cast<float4*>(&b[j]) = *reinterpret_cast<const float4*>(bs_get + k * BN + j * LANES_N);
      }
      // Along a row, back and forth: of the two factors one is then always in the register file's reuse cache.
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int n = 0; n < TN; ++n) {
          const int j = i % 2 == 0 ? n : TN - 1 - n;
          acc[i][j] = fmaf(a[i], b[j ^ 1], acc[i][j]);
        }
      }
    }

    store_tiles();
    as_get += flip;
    bs_get += flip;
    flip = -flip;
    as_put += flip;
    bs_put += flip;
    // One barrier is enough: it completes the tiles that are read next, and those written next have been read by all.
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < TM; ++i) {
    const unsigned row = row0 + w_row + i / 4 * 4 * LANES_M + i % 4;
#pragma unroll
    for (int j = 0; j < TN; j += 4) {
      const unsigned col = col0 + w_col + j * LANES_N;
      store(C + (size_t(row) * N + col), acc[i] + j, wide_c, row < M ? int(N - col) : 0);
    }
  }
}
