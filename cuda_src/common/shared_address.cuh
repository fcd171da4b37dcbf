// shared_address.cuh -- an address in shared memory as PTX wants it: 32 bits, counted from where that memory begins.

#pragma once

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}
