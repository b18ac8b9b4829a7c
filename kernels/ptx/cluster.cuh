// Clusters of thread blocks: the barrier (PTX ISA 9.7.13.4), addresses in the shared memory of
// other blocks, and ranks.
#pragma once

#include <cstdint>

#include "kernels/ptx/mbarrier.cuh"

namespace fovea::ptx {

/// Called by every thread. It does not order memory accesses: after it, blocks may only rely on
/// each other's mbarriers, if those were published by fence_mbarrier_init().
__device__ __forceinline__ void barrier_cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

__device__ __forceinline__ void barrier_cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// Returns the cluster address, in the shared memory of block `rank`, of the object with the
/// address `here` in this block.
__device__ __forceinline__ std::uint32_t mapa(const void* here, std::uint32_t rank) {
  std::uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(here)), "r"(rank));
  return there;
}

/// Returns the rank of this block in its cluster.
__device__ __forceinline__ std::uint32_t cluster_ctarank() {
  std::uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

}  // namespace fovea::ptx
