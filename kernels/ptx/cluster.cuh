// Clusters of thread blocks: their barrier (PTX ISA 9.7.13.4), others' shared memory, ranks.
#pragma once

#include <cstdint>

#include "kernels/ptx/mbarrier.cuh"

namespace fovea::ptx {

/// Every thread. Orders nothing: what was written before must not be read across blocks after it
/// but for barriers behind fence_mbarrier_init().
__device__ __forceinline__ void barrier_cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

__device__ __forceinline__ void barrier_cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// Where what lies at `here` in this block's shared memory lies in that of block `rank`, as an
/// address of the cluster's.
__device__ __forceinline__ std::uint32_t mapa(const void* here, std::uint32_t rank) {
  std::uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(here)), "r"(rank));
  return there;
}

/// This block's place in its cluster of one row of blocks.
__device__ __forceinline__ std::uint32_t cluster_ctarank() {
  std::uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

}  // namespace fovea::ptx
