// timer.cuh -- the clocks that PTX offers.

#pragma once

// Nanoseconds since the GPU's epoch, the same on every multiprocessor; it ticks coarsely (32 ns to 1 us).
__device__ __forceinline__ unsigned long long globaltimer_ns() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// Cycles of this multiprocessor's clock.
__device__ __forceinline__ unsigned long long sm_cycles() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now));
  return now;
}

// How long block 0 ran, by both clocks: cycles over nanoseconds is the SM clock during that very launch.
struct Span {
  unsigned long long cycles;
  unsigned long long nanoseconds;

  __device__ __forceinline__ void begin() { cycles = sm_cycles(), nanoseconds = globaltimer_ns(); }

  __device__ __forceinline__ void end(Span* out) {
    if (blockIdx.x == 0 && threadIdx.x == 0) {
      out->cycles = sm_cycles() - cycles;
      out->nanoseconds = globaltimer_ns() - nanoseconds;
    }
  }
};
