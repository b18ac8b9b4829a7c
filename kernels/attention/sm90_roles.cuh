// Common frame of the Hopper attention kernels: initialises the barriers, and splits a block into
// one thread that loads and warpgroups that compute.
#pragma once

#include "kernels/pipe/grid.cuh"
#include "kernels/pipe/roles.cuh"
#include "kernels/ptx/warp.cuh"

namespace fovea::attention {

/// Maximum shared memory per block.
inline constexpr std::size_t kBlockSharedBytes = 232448;

/// Runs one block: one thread calls `init` for the barriers, one thread of the last warpgroup calls
/// `produce`, and each of the first kConsumers warpgroups calls `consume(group)`.
template <int kConsumers, typename Init, typename Produce, typename Consume>
__device__ __forceinline__ void run_sm90(const Init& init, const Produce& produce,
                                         const Consume& consume) {
  const std::uint32_t group = pipe::warpgroup();
  const std::uint32_t warp = __shfl_sync(0xffffffffU, threadIdx.x / 32, 0);
  pipe::make_barriers(init, [] { __syncthreads(); });
  pipe::run_roles<kConsumers>(
      group,
      [&] {
        if (warp == kConsumers * pipe::kWarpgroupWarps && ptx::elect_sync()) {
          pipe::wait_for_previous_grids();
          pipe::let_next_grid_start();
          produce();
        }
      },
      consume);
}

}  // namespace fovea::attention
