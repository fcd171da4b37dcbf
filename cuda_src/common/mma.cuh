// mma.cuh -- the tensor cores' products of fragments that the 32 lanes of a warp hold together (sm_80).
//
// With group = lane / 4 and member = lane % 4, a lane holds of A (16 x 8) a[0] at (group, member), a[1] at (group + 8,
// member), a[2] at (group, member + 4), a[3] at (group + 8, member + 4); of B (8 x 8) b[0] at (member, group), b[1] at
// (member + 4, group); of C (16 x 8) c[0] and c[1] at (group, 2 member) and the next column, c[2] and c[3] eight rows
// below (PTX ISA, "Matrix Fragments for mma.m16n8k8").

#pragma once

// d = a b + c. Of the operands' bits, TF32's first 19 count: the tensor cores ignore the lower 13 of the mantissa.
__device__ __forceinline__ void mma_m16n8k8_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                                                 const float (&c)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

// Four 8 x 4 matrices of words from shared memory: lane 8 j + i gives the address of row i of matrix j, 16 bytes, and
// d[j] becomes word (lane / 4, lane % 4) of matrix j.
__device__ __forceinline__ void ldmatrix_x4(unsigned (&d)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(address)
               : "memory");
}

// To TF32, to nearest, ties away from zero; an infinity and a NaN stay what they are.
__device__ __forceinline__ unsigned to_tf32(float x) {
  unsigned out;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(out) : "f"(x));
  return out;
}
