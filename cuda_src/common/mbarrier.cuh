// mbarrier.cuh -- barriers in shared memory that threads and bulk copies arrive at (PTX ISA, mbarrier; sm_90).

#pragma once

#include "shared_address.cuh"

using Barrier = unsigned long long;  // opaque; 8 bytes of shared memory

// Where a barrier is. Of a __shared__ variable ptxas works the address out anew at every use, from a special register
// that is slow to read; one that was kept is in a register of its own.
struct BarrierAt {
  unsigned address;
  __device__ __forceinline__ BarrierAt(Barrier* barrier) : address(shared_address(barrier)) {}
  __device__ __forceinline__ void keep() { asm volatile("" : "+r"(address)); }
  __device__ __forceinline__ BarrierAt operator[](int i) const {
    BarrierAt other(*this);
    other.address += int(sizeof(Barrier)) * i;
    return other;
  }
};

// One thread sets a barrier up; a phase is over after `arrivals` of them, and after the bytes that were announced.
__device__ __forceinline__ void init_barrier(Barrier* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// After the thread's last init_barrier: bulk copies see the barriers too. The other threads need __syncthreads() as well.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void arrive(BarrierAt barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier.address) : "memory");
}

// Arrives, and announces `bytes` that bulk copies will bring in this phase.
__device__ __forceinline__ void arrive_expecting(BarrierAt barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier.address), "r"(bytes)
               : "memory");
}

// The thread arrives once all its cp.async so far are there; one of the arrivals that init_barrier counted.
__device__ __forceinline__ void arrive_after_copies(BarrierAt barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier.address) : "memory");
}

// Waits until the phase of this parity is over: the first phase has parity 0.
__device__ __forceinline__ void wait(BarrierAt barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred over;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
      "@!over bra again;\n"
      "}" ::"r"(barrier.address), "r"(parity)
      : "memory");
}
