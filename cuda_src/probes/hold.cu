// hold.cu -- keeps the stream busy for a while, so that what is enqueued meanwhile runs without gaps.
//
// Launched before a timed sequence: the host queues the launches while this spins, and the events around them then see
// the GPU's own pace and not the host's.

__global__ void hold(unsigned long long nanoseconds) {
  unsigned long long begun, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begun));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begun < nanoseconds);
}
