// Roles of the warpgroups in a Hopper block: consumers, which multiply, and last a producer, which
// loads operands.
#pragma once

#include <cstdint>

#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/warp.cuh"

namespace fovea::pipe {

inline constexpr int kWarpgroup = 128;  // threads per warpgroup
inline constexpr int kWarpgroupWarps = kWarpgroup / 32;

/// Registers per thread of the producer, which needs few.
inline constexpr int kProducerRegisters = 24;
/// Registers per thread at the start of a block: an even share of an SM's 64 Ki, rounded down to a
/// multiple of 8.
template <int kConsumers>
inline constexpr int kStartRegisters = 65536 / ((kConsumers + 1) * kWarpgroup) / 8 * 8;
/// Registers per thread of a consumer after the producer has released its own, rounded down to a
/// multiple of 8.
template <int kConsumers>
inline constexpr int kConsumerRegisters =
    (kStartRegisters<kConsumers> * (kConsumers + 1) - kProducerRegisters) / kConsumers / 8 * 8;
static_assert(kConsumerRegisters<2> == 240 && kConsumerRegisters<3> == 160 &&
              kConsumerRegisters<4> == 112);

/// Returns the index of this thread's warpgroup, in a form that the compiler knows to be uniform in
/// a warp.
__device__ __forceinline__ std::uint32_t warpgroup() {
  return __shfl_sync(0xffffffff, threadIdx.x / kWarpgroup, 0);
}

/// Initialises a block's barriers: one thread calls `init`, and all threads call `sync`, which
/// synchronises the block or the cluster.
template <typename Init, typename Sync>
__device__ __forceinline__ void make_barriers(const Init& init, const Sync& sync) {
  if (threadIdx.x == 0) {
    init();
    ptx::fence_mbarrier_init();
  }
  sync();
}

/// Splits the block into roles: threads of the last warpgroup call `produce`, those of the others
/// `consume(group)`. With more than one consumer, the consumers take over registers of the
/// producer.
template <int kConsumers, typename Produce, typename Consume>
__device__ __forceinline__ void run_roles(std::uint32_t group, const Produce& produce,
                                          const Consume& consume) {
  constexpr bool kReallocate = kConsumers > 1;
  if (group == kConsumers) {
    if constexpr (kReallocate) {
      ptx::setmaxnreg_dec<kProducerRegisters>();
    }
    produce();
  } else {
    if constexpr (kReallocate) {
      ptx::setmaxnreg_inc<kConsumerRegisters<kConsumers>>();
    }
    consume(kConsumers == 1 ? 0 : static_cast<std::int32_t>(group));
  }
}

}  // namespace fovea::pipe
