// cp_async.cuh -- copies from global to shared memory that run while the thread goes on (sm_80).

#pragma once

#include "shared_address.cuh"

// BYTES (4, 8 or 16) at `to`, a multiple of BYTES as `from` is. The first `inside` of them are copied and the rest are
// zeros; with inside = 0 nothing is read, and `from` may point anywhere. 16 bytes pass L1 by.
template <int BYTES>
__device__ __forceinline__ void cp_async(unsigned to, const float* from, unsigned inside) {
  static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "what cp.async copies");
  if constexpr (BYTES == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(inside) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES), "r"(inside)
                 : "memory");
  }
}

// What the thread has copied since its last commit becomes a group; an empty group is complete at once.
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until all but the thread's last KEPT groups are there. A barrier then shows them to the other threads.
template <int KEPT>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(KEPT) : "memory");
}
