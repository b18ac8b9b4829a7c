// Programmatic dependent launch, on the architectures that have it: elsewhere a grid starts when
// the one before it has ended, and there is nothing to wait for.
#pragma once

#include "kernels/ptx/warp.cuh"

namespace fovea::pipe {

/// Before the first access to memory that an earlier grid writes or reads.
__device__ __forceinline__ void wait_for_previous_grids() {
#if __CUDA_ARCH__ >= 900
  ptx::griddepcontrol_wait();
#endif
}

/// The next grid may be brought in from now on; it waits for this one's end by itself.
__device__ __forceinline__ void let_next_grid_start() {
#if __CUDA_ARCH__ >= 900
  ptx::griddepcontrol_launch_dependents();
#endif
}

}  // namespace fovea::pipe
