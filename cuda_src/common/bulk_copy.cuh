// bulk_copy.cuh -- copies that one thread starts and the copy engine carries out (PTX ISA, cp.async.bulk; sm_90).

#pragma once

#include "mbarrier.cuh"
#include "tensor_map.cuh"

// The box of the matrix behind `map` whose first element is [row][column], to shared memory; its bytes count towards
// `barrier`. Elements outside the matrix arrive as zeros, and count.
__device__ __forceinline__ void copy_box(void* to, const TensorMap& map, int row, int column, BarrierAt barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(shared_address(to)),
      "l"(&map), "r"(column), "r"(row), "r"(barrier.address)
      : "memory");
}

// `bytes` (a multiple of 16) that lie one after the other, from global to shared memory.
__device__ __forceinline__ void copy_bulk(void* to, const void* from, int bytes, BarrierAt barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(barrier.address)
      : "memory");
}

// The same from shared to global memory; returns when it is done. What other threads stored to `from` needs
// publish_to_copies() in each of them, and then a barrier, before.
__device__ __forceinline__ void copy_bulk_back(void* to, const void* from, int bytes) {
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
      "cp.async.bulk.commit_group;\n"
      "cp.async.bulk.wait_group 0;" ::"l"(to),
      "r"(shared_address(from)), "r"(bytes)
      : "memory");
}

// Makes this thread's ordinary stores to shared memory visible to the copy engine and to the tensor cores.
__device__ __forceinline__ void publish_to_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// The calling warpgroup gives registers back to the block, or takes some: `COUNT` a thread from here on.
template <int COUNT>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}
