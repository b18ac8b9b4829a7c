// The barrier of a cluster of thread blocks (PTX ISA 9.7.13.4).
#pragma once

namespace fovea::ptx {

/// Every thread. Orders nothing: what was written before must not be read across blocks after it
/// but for barriers behind fence_mbarrier_init().
__device__ __forceinline__ void barrier_cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

__device__ __forceinline__ void barrier_cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

}  // namespace fovea::ptx
