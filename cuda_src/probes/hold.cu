// hold.cu -- keeps the stream busy for a while, so that what is enqueued meanwhile runs without gaps.
//
// Launched before a timed sequence: the host queues the launches while this spins, and the events around them then see
// the GPU's own pace and not the host's.

#include "timer.cuh"

__global__ void hold(unsigned long long nanoseconds) {
  const unsigned long long begun = globaltimer_ns();
  while (globaltimer_ns() - begun < nanoseconds) {
  }
}
