// Bulk copies of tensor boxes between global and shared memory (PTX ISA 9.7.9.25, 9.7.9.27).
// Coordinates are in elements, innermost first; elements outside the tensor are read as zero and
// are not written. A single thread issues a copy.
#pragma once

#include <cstdint>

#include "kernels/ptx/mbarrier.cuh"

namespace fovea::ptx {

/// L2 eviction priorities, in the encoding of createpolicy.fractional for the whole access.
enum class CacheHint : std::uint64_t {
  kEvictNormal = 0x1000000000000000,
  kEvictFirst = 0x12F0000000000000,
  kEvictLast = 0x14F0000000000000,
};

__device__ __forceinline__ void prefetch_tensormap(const void* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/// Loads a box of 3 dimensions; its bytes count towards `barrier`.
__device__ __forceinline__ void tma_load_3d(void* to, const void* map, std::uint64_t* barrier,
                                            std::int32_t c0, std::int32_t c1, std::int32_t c2,
                                            CacheHint hint = CacheHint::kEvictNormal) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(barrier)), "l"(static_cast<std::uint64_t>(hint)), "r"(c0),
      "r"(c1), "r"(c2)
      : "memory");
}

/// Stores a box of 3 dimensions, in this thread's open group.
__device__ __forceinline__ void tma_store_3d(const void* map, const void* from, std::int32_t c0,
                                             std::int32_t c1, std::int32_t c2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(
          map),
      "r"(shared_address(from)), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}

/// Loads a box of 4 dimensions; its bytes count towards `barrier`.
__device__ __forceinline__ void tma_load_4d(void* to, const void* map, std::uint64_t* barrier,
                                            std::int32_t c0, std::int32_t c1, std::int32_t c2,
                                            std::int32_t c3,
                                            CacheHint hint = CacheHint::kEvictNormal) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%4, %5, %6, %7}], [%2], %3;" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(barrier)), "l"(static_cast<std::uint64_t>(hint)), "r"(c0),
      "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}

/// Stores a box of 4 dimensions, in this thread's open group.
__device__ __forceinline__ void tma_store_4d(const void* map, const void* from, std::int32_t c0,
                                             std::int32_t c1, std::int32_t c2, std::int32_t c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::
          "l"(map),
      "r"(shared_address(from)), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}

/// Loads a box of 5 dimensions; its bytes count towards `barrier`.
__device__ __forceinline__ void tma_load_5d(void* to, const void* map, std::uint64_t* barrier,
                                            std::int32_t c0, std::int32_t c1, std::int32_t c2,
                                            std::int32_t c3, std::int32_t c4,
                                            CacheHint hint = CacheHint::kEvictNormal) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%4, %5, %6, %7, %8}], [%2], %3;" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(barrier)), "l"(static_cast<std::uint64_t>(hint)), "r"(c0),
      "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}

/// Loads a box of 5 dimensions to the same offset in each block of the cluster in the mask
/// `blocks`.
__device__ __forceinline__ void tma_load_5d_multicast(void* to, const void* map,
                                                      std::uint64_t* barrier, std::uint16_t blocks,
                                                      std::int32_t c0, std::int32_t c1,
                                                      std::int32_t c2, std::int32_t c3,
                                                      std::int32_t c4,
                                                      CacheHint hint = CacheHint::kEvictNormal) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%5, %6, %7, %8, %9}], [%2], %3, %4;" ::"r"(
          shared_address(to)),
      "l"(map), "r"(shared_address(barrier)), "h"(blocks), "l"(static_cast<std::uint64_t>(hint)),
      "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}

/// Loads a box of 3 dimensions to this CTA; its bytes count towards `barrier`, a cluster address in
/// either CTA of a pair.
__device__ __forceinline__ void tma_load_3d_pair(void* to, const void* map, std::uint32_t barrier,
                                                 std::int32_t c0, std::int32_t c1, std::int32_t c2,
                                                 CacheHint hint = CacheHint::kEvictNormal) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".cta_group::2.L2::cache_hint [%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(shared_address(to)),
      "l"(map), "r"(barrier), "l"(static_cast<std::uint64_t>(hint)), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}

/// Closes this thread's group of stores.
__device__ __forceinline__ void bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// Waits until all but the newest `kPending` groups have read their shared memory.
template <int kPending>
__device__ __forceinline__ void bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

}  // namespace fovea::ptx
