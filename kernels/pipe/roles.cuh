// Roles of a Hopper block: warpgroups that multiply and, behind them, one that brings operands.
#pragma once

#include <cstdint>

#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/warp.cuh"

namespace fovea::pipe {

inline constexpr int kWarpgroup = 128;  // threads
inline constexpr int kWarpgroupWarps = kWarpgroup / 32;

/// Registers that a thread of the producer's warpgroup keeps: it needs few.
inline constexpr int kProducerRegisters = 24;
/// Registers that a block of so many consumers starts a thread with: an even share of a SM's 64 Ki,
/// in eights.
template <int kConsumers>
inline constexpr int kStartRegisters = 65536 / ((kConsumers + 1) * kWarpgroup) / 8 * 8;
/// Registers of a consumer's thread, with what the producer gives back; in eights.
template <int kConsumers>
inline constexpr int kConsumerRegisters =
    (kStartRegisters<kConsumers> * (kConsumers + 1) - kProducerRegisters) / kConsumers / 8 * 8;
static_assert(kConsumerRegisters<2> == 240 && kConsumerRegisters<3> == 160 &&
              kConsumerRegisters<4> == 112);

/// This thread's warpgroup, which the compiler takes to be the same in all lanes of a warp.
__device__ __forceinline__ std::uint32_t warpgroup() {
  return __shfl_sync(0xffffffff, threadIdx.x / kWarpgroup, 0);
}

/// A block's barriers, once: one thread calls `init`, and all meet by `sync`, the block's or the
/// cluster's.
template <typename Init, typename Sync>
__device__ __forceinline__ void make_barriers(const Init& init, const Sync& sync) {
  if (threadIdx.x == 0) {
    init();
    ptx::fence_mbarrier_init();
  }
  sync();
}

/// Splits the block: threads of the last warpgroup call `produce`, those of the others
/// `consume(group)`. Where there is more than one consumer they take the producer's registers.
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
