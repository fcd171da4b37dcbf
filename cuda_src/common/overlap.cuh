// overlap.cuh -- for a kernel whose declaration says `pack = { ..., overlap = true }`, and the one that packs (sm_90).

#pragma once

// In the kernel that packs: once every block has come here, or is done, the next kernel's blocks may start where there is
// room for them.
__device__ __forceinline__ void let_the_next_kernel_start() { asm volatile("griddepcontrol.launch_dependents;"); }

// In the rung's kernel, before a thread reads what was packed: waits until the kernel before is done, and sees all that
// it wrote. Returns at once where the kernels do not overlap.
__device__ __forceinline__ void wait_for_the_kernel_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
