// The frame of Hopper's attention kernels: barriers, the thread that loads, warpgroups that
// compute.
#pragma once

#include "kernels/pipe/grid.cuh"
#include "kernels/pipe/roles.cuh"
#include "kernels/ptx/warp.cuh"

namespace fovea::attention {

/// Shared memory that a block can have.
inline constexpr std::size_t kBlockSharedBytes = 232448;

/// What one block does: one thread calls `init` for the barriers and one of the last warpgroup
/// `produce`; each of the first kConsumers warpgroups calls `consume(group)`.
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
