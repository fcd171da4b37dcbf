// tensor_map.cuh -- what a kernel with `tma` in its declaration takes by value, one for each entry.

#pragma once

// The driver's CUtensorMap, opaque. An argument is declared `const __grid_constant__ TensorMap map_a`: the TMA unit reads
// it at its address in constant memory, so that no thread may copy it.
struct alignas(64) TensorMap {
  unsigned char bytes[128];
};
