// fusion_snippets.cu -- neighbouring words of shared memory, loaded and stored in all the ways that ptxas treats
// differently: which words of a window of four there are, how far the base is aligned, what stands in between, types.
//
// One kernel a line. The tests compare what the emulator makes of a kernel's PTX with the kernel's machine code.

#pragma nv_diag_suppress 177, 186, 550  // unused variables

#define KERNEL(name) \
  extern "C" __global__ void name(const float* A, const float* B, float* C, int M, int N, int K)
#define FILL(array, n) \
  for (int i = threadIdx.x; i < n; i += blockDim.x) array[i] = A[i]; \
  __syncthreads();
#define S __shared__ float s[1024]; FILL(s, 1024)
#define S_T __shared__ float s[1024], t[1024]; FILL(s, 1024) FILL(t, 1024)
#define ODD_S __shared__ float r[33], s[1024]; FILL(r, 33) FILL(s, 1024)  // s begins 132 bytes in
#define AT(index) float* p = s + (index); float x = 0;
#define P AT(threadIdx.x * 16) float* q = s + 512 + M * 4; float* g = M > 3 ? q : C;
#define LD(i) x = fmaf(p[i], x, 1.f);
#define LD4(i) LD(i) LD(i + 1) LD(i + 2) LD(i + 3)
#define ST(i) p[i] = A[(i) & 15];
#define ST4(i) ST(i) ST(i + 1) ST(i + 2) ST(i + 3)
#define OUT C[threadIdx.x] = x;
#define BACK __syncthreads(); C[threadIdx.x] = x + s[threadIdx.x * 5];

// Which words there are, and in which order.
KERNEL(ld_0) { S P LD(0) OUT }
KERNEL(ld_01) { S P LD(0) LD(1) OUT }
KERNEL(ld_02) { S P LD(0) LD(2) OUT }
KERNEL(ld_12) { S P LD(1) LD(2) OUT }
KERNEL(ld_012) { S P LD(0) LD(1) LD(2) OUT }
KERNEL(ld_03) { S P LD(0) LD(3) OUT }
KERNEL(ld_13) { S P LD(1) LD(3) OUT }
KERNEL(ld_013) { S P LD(0) LD(1) LD(3) OUT }
KERNEL(ld_23) { S P LD(2) LD(3) OUT }
KERNEL(ld_023) { S P LD(0) LD(2) LD(3) OUT }
KERNEL(ld_123) { S P LD(1) LD(2) LD(3) OUT }
KERNEL(ld_0123) { S P LD(0) LD(1) LD(2) LD(3) OUT }
KERNEL(ld_01234) { S P LD(0) LD(1) LD(2) LD(3) LD(4) OUT }
KERNEL(ld_12345) { S P LD(1) LD(2) LD(3) LD(4) LD(5) OUT }
KERNEL(ld_012345) { S P LD(0) LD(1) LD(2) LD(3) LD(4) LD(5) OUT }
KERNEL(ld_3456) { S P LD(3) LD(4) LD(5) LD(6) OUT }
KERNEL(ld_0123456) { S P LD(0) LD(1) LD(2) LD(3) LD(4) LD(5) LD(6) OUT }
KERNEL(ld_1234567) { S P LD(1) LD(2) LD(3) LD(4) LD(5) LD(6) LD(7) OUT }
KERNEL(ld_01234567) { S P LD(0) LD(1) LD(2) LD(3) LD(4) LD(5) LD(6) LD(7) OUT }
KERNEL(ld_0257) { S P LD(0) LD(2) LD(5) LD(7) OUT }
KERNEL(ld_013467) { S P LD(0) LD(1) LD(3) LD(4) LD(6) LD(7) OUT }
KERNEL(ld_3210) { S P LD(3) LD(2) LD(1) LD(0) OUT }
KERNEL(ld_2031) { S P LD(2) LD(0) LD(3) LD(1) OUT }
KERNEL(ld_40516273) { S P LD(4) LD(0) LD(5) LD(1) LD(6) LD(2) LD(7) LD(3) OUT }
KERNEL(st_0) { S P ST(0) BACK }
KERNEL(st_01) { S P ST(0) ST(1) BACK }
KERNEL(st_02) { S P ST(0) ST(2) BACK }
KERNEL(st_12) { S P ST(1) ST(2) BACK }
KERNEL(st_012) { S P ST(0) ST(1) ST(2) BACK }
KERNEL(st_03) { S P ST(0) ST(3) BACK }
KERNEL(st_013) { S P ST(0) ST(1) ST(3) BACK }
KERNEL(st_23) { S P ST(2) ST(3) BACK }
KERNEL(st_023) { S P ST(0) ST(2) ST(3) BACK }
KERNEL(st_123) { S P ST(1) ST(2) ST(3) BACK }
KERNEL(st_0123) { S P ST(0) ST(1) ST(2) ST(3) BACK }
KERNEL(st_1234) { S P ST(1) ST(2) ST(3) ST(4) BACK }
KERNEL(st_2345) { S P ST(2) ST(3) ST(4) ST(5) BACK }
KERNEL(st_012345) { S P ST(0) ST(1) ST(2) ST(3) ST(4) ST(5) BACK }
KERNEL(st_0123456) { S P ST(0) ST(1) ST(2) ST(3) ST(4) ST(5) ST(6) BACK }
KERNEL(st_01234567) { S P ST(0) ST(1) ST(2) ST(3) ST(4) ST(5) ST(6) ST(7) BACK }
KERNEL(st_3210) { S P ST(3) ST(2) ST(1) ST(0) BACK }
KERNEL(st_0213) { S P ST(0) ST(2) ST(1) ST(3) BACK }
KERNEL(st_1230) { S P ST(1) ST(2) ST(3) ST(0) BACK }
KERNEL(st_76543210) { S P ST(7) ST(6) ST(5) ST(4) ST(3) ST(2) ST(1) ST(0) BACK }

// A store elsewhere ends the run, even to the next window of the same array.
KERNEL(st_01452367) { S P ST(0) ST(1) ST(4) ST(5) ST(2) ST(3) ST(6) ST(7) BACK }
KERNEL(st_04152637) { S P ST(0) ST(4) ST(1) ST(5) ST(2) ST(6) ST(3) ST(7) BACK }
KERNEL(st_01923) { S P ST(0) ST(1) ST(9) ST(2) ST(3) BACK }
KERNEL(st_230145) { S P ST(2) ST(3) ST(0) ST(1) ST(4) ST(5) BACK }

// How far the base is known to be aligned.
KERNEL(ld_pitch1) { S AT(threadIdx.x * 1) LD4(0) OUT }
KERNEL(ld_pitch2) { S AT(threadIdx.x * 2) LD4(0) OUT }
KERNEL(ld_pitch3) { S AT(threadIdx.x * 3) LD4(0) OUT }
KERNEL(ld_pitch4) { S AT(threadIdx.x * 4) LD4(0) OUT }
KERNEL(ld_pitch6) { S AT(threadIdx.x * 6) LD4(0) OUT }
KERNEL(ld_pitch12) { S AT(threadIdx.x * 12) LD4(0) OUT }
KERNEL(ld_pitch33) { S AT(threadIdx.x * 33) LD4(0) OUT }
KERNEL(ld_pitch36) { S AT(threadIdx.x * 36) LD4(0) OUT }
KERNEL(st_pitch1) { S AT(threadIdx.x * 1) ST4(0) BACK }
KERNEL(st_pitch2) { S AT(threadIdx.x * 2) ST4(0) BACK }
KERNEL(st_pitch4) { S AT(threadIdx.x * 4) ST4(0) BACK }
KERNEL(st_pitch6) { S AT(threadIdx.x * 6) ST4(0) BACK }
KERNEL(ld_unknown1) { S AT(M * 1) LD4(0) OUT }
KERNEL(ld_unknown2) { S AT(M * 2) LD4(0) OUT }
KERNEL(ld_unknown4) { S AT(M * 4) LD4(0) OUT }
KERNEL(ld_odd_start) { S AT(threadIdx.x * 2 + 1) LD4(0) LD(4) LD(5) LD(6) OUT }
KERNEL(ld_masked_base) { S AT(M & ~3) LD4(0) OUT }
KERNEL(ld_swizzled) { S AT((threadIdx.x * 16) ^ 4) LD4(0) OUT }
KERNEL(ld_swizzled_at_run_time) { S AT((threadIdx.x * 16) ^ (M & 4)) LD4(0) OUT }
KERNEL(ld_selected) { S AT(M > 3 ? threadIdx.x * 8 : N * 4) LD4(0) OUT }
KERNEL(ld_divided) { S AT(threadIdx.x / 8 * 4) LD4(0) OUT }
KERNEL(ld_below_the_base) { S AT(threadIdx.x * 16 + 64) LD4(-4) OUT }
KERNEL(ld_fixed_place) { S AT(0) LD4(4) LD(9) LD(10) OUT }
KERNEL(ld_two_bases) { S P x = p[0] + p[1] * q[2] - q[3]; OUT }
KERNEL(ld_two_bases_in_turn) { S P x = p[0] * q[0]; x += p[1] * q[1]; x += p[2] * q[2]; x += p[3] * q[3]; OUT }
KERNEL(ld_rows) { S P for (int k = 0; k < 4; ++k) x = fmaf(p[k], s[32 * k + (threadIdx.x & 31)], x); OUT }
KERNEL(ld_double_buffer) { S AT((M & 1) * 512 + threadIdx.x * 16) LD4(0) OUT }
KERNEL(ld_two_arrays) { S_T P for (int k = 0; k < 8; ++k) x = fmaf(p[k], t[threadIdx.x * 16 + k], x); OUT }
KERNEL(st_two_arrays_in_turn) { S_T P for (int k = 0; k < 4; ++k) p[k] = A[k], t[threadIdx.x * 16 + k] = B[k]; BACK }
KERNEL(copy) { S_T P for (int k = 0; k < 4; ++k) p[k] = t[threadIdx.x * 16 + k] + 1; BACK }
KERNEL(swap) { S P float a = p[0], b = p[1]; p[0] = b; p[1] = a; a = p[2]; b = p[3]; p[2] = b; p[3] = a; BACK }

// A pointer that a loop moves on.
#define LOOP(step) \
  float x = 0; \
  _Pragma("unroll 1") for (int i = 0; i < M; ++i) { \
    float* p = s + threadIdx.x * 32 + i * (step); \
    LD4(0) \
  }
KERNEL(loop_step_4) { S LOOP(4) OUT }
KERNEL(loop_step_2) { S LOOP(2) OUT }
KERNEL(loop_step_1) { S LOOP(1) OUT }
KERNEL(loop_step_n) { S LOOP(N * 4) OUT }
KERNEL(loop_step_half) { S LOOP((N & 1) * 512) OUT }

// Arrays that do not begin on a multiple of 16.
KERNEL(odd_thread_0) { ODD_S AT(threadIdx.x * 4) x = r[threadIdx.x]; LD4(0) OUT }
KERNEL(odd_thread_1) { ODD_S AT(threadIdx.x * 4) x = r[threadIdx.x]; LD4(1) OUT }
KERNEL(odd_thread_3) { ODD_S AT(threadIdx.x * 4) x = r[threadIdx.x]; LD4(3) OUT }
KERNEL(odd_pair_0) { ODD_S AT(threadIdx.x * 2) x = r[threadIdx.x]; LD4(0) OUT }
KERNEL(odd_pair_1) { ODD_S AT(threadIdx.x * 2) x = r[threadIdx.x]; LD4(1) OUT }
KERNEL(odd_pair_3) { ODD_S AT(threadIdx.x * 2) x = r[threadIdx.x]; LD4(3) OUT }
KERNEL(odd_product_0) { ODD_S AT(threadIdx.x * N * 4) x = r[threadIdx.x]; LD4(0) OUT }
KERNEL(odd_product_1) { ODD_S AT(threadIdx.x * N * 4) x = r[threadIdx.x]; LD4(1) OUT }
KERNEL(odd_product_3) { ODD_S AT(threadIdx.x * N * 4) x = r[threadIdx.x]; LD4(3) OUT }
KERNEL(odd_sum_0) { ODD_S AT(threadIdx.x * 8 + M * 4) x = r[threadIdx.x]; LD4(0) OUT }
KERNEL(odd_sum_1) { ODD_S AT(threadIdx.x * 8 + M * 4) x = r[threadIdx.x]; LD4(1) OUT }
KERNEL(odd_sum_3) { ODD_S AT(threadIdx.x * 8 + M * 4) x = r[threadIdx.x]; LD4(3) OUT }
KERNEL(odd_nothing_0) { ODD_S AT(0) x = r[threadIdx.x]; LD4(0) OUT }
KERNEL(odd_nothing_1) { ODD_S AT(0) x = r[threadIdx.x]; LD4(1) OUT }
KERNEL(odd_nothing_3) { ODD_S AT(0) x = r[threadIdx.x]; LD4(3) OUT }
KERNEL(odd_store) { ODD_S AT(threadIdx.x * 32 + 3) x = r[threadIdx.x]; ST4(0) BACK }
KERNEL(odd_or) { ODD_S AT((threadIdx.x * 16) | 3) x = r[threadIdx.x]; LD4(0) OUT }
KERNEL(odd_loop) { ODD_S LOOP(4) x += r[threadIdx.x]; OUT }
#define ALL_THREE FILL(r, 33) FILL(s, 33) FILL(t, 33) x = 0; EACH(r) EACH(s) EACH(t) OUT
#define EACH(array) { float* p = array + 4 * (threadIdx.x & 3); LD4(0) }
KERNEL(layout_second_odd) { __shared__ float r[33], s[35], t[37]; float x; ALL_THREE }
KERNEL(layout_second_even) { __shared__ float r[34], s[34], t[34]; float x; ALL_THREE }
KERNEL(layout_one_three) { __shared__ float r[35], s[34], t[36]; float x; ALL_THREE }
KERNEL(layout_padded_rows) { __shared__ float r[32 * 36], s[32 * 33], t[32 * 34]; float x; ALL_THREE }
KERNEL(layout_aligned) { __shared__ float r[33]; __shared__ __align__(16) float s[33]; __shared__ float t[36]; float x; ALL_THREE }
KERNEL(layout_bytes) { __shared__ char b[7]; __shared__ float r[33], s[34], t[36]; float x; b[threadIdx.x & 3] = M; ALL_THREE C[99] = b[N & 3]; }
KERNEL(dynamic) { extern __shared__ float s[]; FILL(s, 1024) AT(threadIdx.x * 16) LD4(0) OUT }
KERNEL(dynamic_after_static) { extern __shared__ float s[]; __shared__ float r[33]; FILL(r, 33) FILL(s, 1024) AT(threadIdx.x * 16) LD4(0) C[99] = r[M]; OUT }

// Types.
KERNEL(ints) { S int* p = (int*)s + threadIdx.x * 16; int x = p[0] * 3 + p[1]; x = x * 3 + p[2]; x = x * 3 + p[3]; OUT }
KERNEL(int_and_float) { S P int* i = (int*)p; x = p[0] * i[1] + p[2] * i[3]; OUT }
KERNEL(float2_loads) { S float2* p = (float2*)s + threadIdx.x * 8; float x = p[0].x * p[1].x + p[0].y - p[1].y; OUT }
KERNEL(float2_aligned_to_8) { S float2* p = (float2*)s + threadIdx.x; float x = p[0].x * p[1].x + p[0].y - p[1].y; OUT }
KERNEL(float2_and_float) { S P float2 v = *(float2*)p; x = fmaf(v.x, x, v.y); LD(2) OUT }
KERNEL(float2_and_last) { S P float2 v = *(float2*)p; x = fmaf(v.x, x, v.y); LD(3) OUT }
KERNEL(float2_stores) { S P float2* v = (float2*)p; v[0] = make_float2(A[0], A[1]); v[1] = make_float2(A[2], A[3]); BACK }
KERNEL(float4_loads) { S P float4 v = *(float4*)p, w = *(float4*)(p + 4); x = v.x + v.y * v.z - v.w * w.x + w.y - w.z * w.w; OUT }
KERNEL(long_longs) { S long long* p = (long long*)s + threadIdx.x * 8; long long x = p[0] * p[1] + p[2]; OUT }
KERNEL(long_long_and_float) { S P long long* l = (long long*)p; x = l[0] * p[2]; OUT }
KERNEL(long_long_stores) { S P long long* l = (long long*)p; l[0] = M; l[1] = N; l[2] = K; BACK }
KERNEL(ushort4_loads) { S P ushort4 v = *(ushort4*)p, w = *(ushort4*)(p + 2); x = v.x + w.y * v.z - w.w + v.y * w.x + v.w + w.z; OUT }
#define H __shared__ unsigned short h[1024]; unsigned short* p = h + threadIdx.x * 16; int x = 0;
#define H_BACK __syncthreads(); C[threadIdx.x] = h[threadIdx.x * 3];
KERNEL(short_loads) { H h[threadIdx.x] = M; __syncthreads(); for (int i = 0; i < 8; ++i) x = x * 3 + p[i]; OUT }
KERNEL(short_st_01) { H ST(0) ST(1) H_BACK }
KERNEL(short_st_012) { H ST(0) ST(1) ST(2) H_BACK }
KERNEL(short_st_0123) { H ST(0) ST(1) ST(2) ST(3) H_BACK }
KERNEL(short_st_1234) { H ST(1) ST(2) ST(3) ST(4) H_BACK }
KERNEL(short_st_01234567) { H ST(0) ST(1) ST(2) ST(3) ST(4) ST(5) ST(6) ST(7) H_BACK }
KERNEL(short_st_2301) { H ST(2) ST(3) ST(0) ST(1) H_BACK }
KERNEL(byte_st) { __shared__ unsigned char h[1024]; unsigned char* p = h + threadIdx.x * 16; ST4(0) H_BACK }

// What stands in between.
KERNEL(ld_volatile) { S P volatile float* v = p; x = v[0]; x *= v[1]; x *= v[2]; x *= v[3]; OUT }
KERNEL(st_volatile) { S P volatile float* v = p; v[0] = A[0]; v[1] = A[1]; v[2] = A[2]; v[3] = A[3]; BACK }
KERNEL(ld_across_store) { S P LD(0) LD(1) s[512 + threadIdx.x] = x; LD(2) LD(3) OUT }
KERNEL(ld_across_store_same_base) { S P LD(0) LD(1) p[8] = x; LD(2) LD(3) OUT }
KERNEL(ld_across_volatile_load) { S P LD(0) LD(1) x += *(volatile float*)(s + N); LD(2) LD(3) OUT }
KERNEL(ld_across_load) { S P LD(0) LD(1) x += s[N]; LD(2) LD(3) OUT }
KERNEL(ld_across_global_load) { S P LD(0) LD(1) x += C[N]; LD(2) LD(3) OUT }
KERNEL(ld_across_global_store) { S P LD(0) LD(1) C[512 + threadIdx.x] = x; LD(2) LD(3) OUT }
KERNEL(ld_across_generic_store) { S P LD(0) LD(1) g[0] = x; LD(2) LD(3) OUT }
KERNEL(ld_across_generic_load) { S P LD(0) LD(1) x += g[N]; LD(2) LD(3) OUT }
KERNEL(ld_across_global_atomic) { S P LD(0) LD(1) atomicAdd(&C[500], x); LD(2) LD(3) OUT }
KERNEL(ld_across_barrier) { S P LD(0) LD(1) __syncthreads(); LD(2) LD(3) OUT }
KERNEL(ld_across_barrier_or) { S P LD(0) LD(1) x += __syncthreads_or(x > 0); LD(2) LD(3) OUT }
KERNEL(ld_across_warp_barrier) { S P LD(0) LD(1) __syncwarp(); LD(2) LD(3) OUT }
KERNEL(ld_across_block_fence) { S P LD(0) LD(1) __threadfence_block(); LD(2) LD(3) OUT }
KERNEL(ld_across_fence) { S P LD(0) LD(1) __threadfence(); LD(2) LD(3) OUT }
KERNEL(ld_across_sleep) { S P LD(0) LD(1) __nanosleep(10); LD(2) LD(3) OUT }
KERNEL(ld_across_asm_memory) { S P LD(0) LD(1) asm volatile("" ::: "memory"); LD(2) LD(3) OUT }
KERNEL(ld_across_shuffle) { S P LD(0) LD(1) x += __shfl_xor_sync(~0u, x, 1); LD(2) LD(3) OUT }
KERNEL(ld_across_division) { S P LD(0) LD(1) x = x / B[3]; LD(2) LD(3) OUT }
KERNEL(ld_across_square_root) { S P LD(0) LD(1) x = sqrtf(x); LD(2) LD(3) OUT }
KERNEL(ld_across_integer_division) { S P LD(0) LD(1) x += (int)x / M; LD(2) LD(3) OUT }
KERNEL(ld_across_long_division) { S P LD(0) LD(1) x += (long long)x / M; LD(2) LD(3) OUT }
KERNEL(ld_across_conversion) { S P LD(0) LD(1) x = (long long)x; LD(2) LD(3) OUT }
KERNEL(ld_across_branch) { S P LD(0) LD(1) if (M > 3) for (int i = 0; i < M; ++i) x = x * B[i]; LD(2) LD(3) OUT }
KERNEL(ld_across_distance) { S P LD(0) LD(1) for (int i = 0; i < 40; ++i) x = fmaf(x, x, B[i]); LD(2) LD(3) OUT }
KERNEL(st_across_store) { S P ST(0) ST(1) s[512 + threadIdx.x] = 3; ST(2) ST(3) BACK }
KERNEL(st_across_load) { S P ST(0) ST(1) x = s[N]; ST(2) ST(3) BACK }
KERNEL(st_across_volatile_store) { S P ST(0) ST(1) *(volatile float*)(s + N) = 1; ST(2) ST(3) BACK }
KERNEL(st_across_global_load) { S P ST(0) ST(1) x = C[N]; ST(2) ST(3) BACK }
KERNEL(st_across_global_store) { S P ST(0) ST(1) C[8] = 3; ST(2) ST(3) BACK }
KERNEL(st_across_generic_load) { S P ST(0) ST(1) x = *g; ST(2) ST(3) BACK }
KERNEL(st_across_generic_store) { S P ST(0) ST(1) *g = 3; ST(2) ST(3) BACK }
KERNEL(st_across_global_atomic) { S P ST(0) ST(1) atomicAdd(&C[5], 1.f); ST(2) ST(3) BACK }
KERNEL(st_across_barrier) { S P ST(0) ST(1) __syncthreads(); ST(2) ST(3) BACK }
KERNEL(st_across_warp_barrier) { S P ST(0) ST(1) __syncwarp(); ST(2) ST(3) BACK }
KERNEL(st_across_fence) { S P ST(0) ST(1) __threadfence_block(); ST(2) ST(3) BACK }
KERNEL(st_across_shuffle) { S P ST(0) ST(1) x += __shfl_xor_sync(~0u, A[9], 1); ST(2) ST(3) BACK }
KERNEL(st_across_division) { S P ST(0) ST(1) x = A[7] / A[8]; ST(2) ST(3) BACK }
KERNEL(st_constants) { S P p[3] = 1; p[2] = 2; p[1] = 3; p[0] = M; BACK }
KERNEL(st_guarded) { S P for (int i = 0; i < 4; ++i) p[i] = M > 3 + i ? A[i] : 0; BACK }

#if __CUDA_ARCH__ >= 800
#define COMMIT asm volatile("cp.async.commit_group;" ::: "memory");
#define WAIT asm volatile("cp.async.wait_group 0;" ::: "memory");
KERNEL(ld_across_commit) { S_T P LD(0) LD(1) COMMIT LD(2) LD(3) OUT }
KERNEL(ld_across_wait) { S_T P LD(0) LD(1) WAIT LD(2) LD(3) OUT }
KERNEL(st_across_commit) { S_T P ST(0) ST(1) COMMIT ST(2) ST(3) BACK }
KERNEL(st_across_wait) { S_T P ST(0) ST(1) WAIT ST(2) ST(3) BACK }
#endif
