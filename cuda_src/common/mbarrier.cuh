// mbarrier.cuh -- barriers in shared memory that threads and bulk copies arrive at (PTX ISA, mbarrier; sm_90).

#pragma once

#include "shared_address.cuh"

using Barrier = unsigned long long;  // opaque; 8 bytes of shared memory

// One thread sets a barrier up; a phase is over after `arrivals` of them, and after the bytes that were announced.
__device__ __forceinline__ void init_barrier(Barrier* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// After the thread's last init_barrier: bulk copies see the barriers too. The other threads need __syncthreads() as well.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void arrive(Barrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Arrives, and announces `bytes` that bulk copies will bring in this phase.
__device__ __forceinline__ void arrive_expecting(Barrier* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}

// The thread arrives once all its cp.async so far are there; one of the arrivals that init_barrier counted.
__device__ __forceinline__ void arrive_after_copies(Barrier* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Waits until the phase of this parity is over: the first phase has parity 0.
__device__ __forceinline__ void wait(Barrier* barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred over;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
      "@!over bra again;\n"
      "}" ::"r"(shared_address(barrier)), "r"(parity)
      : "memory");
}
