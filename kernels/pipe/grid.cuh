// Programmatic dependent launch, on architectures that support it. On others a grid starts when the
// previous one has ended, and these functions do nothing.
#pragma once

#include "kernels/ptx/warp.cuh"

namespace fovea::pipe {

/// Must be called before the first access to memory that an earlier grid reads or writes.
__device__ __forceinline__ void wait_for_previous_grids() {
#if __CUDA_ARCH__ >= 900
  ptx::griddepcontrol_wait();
#endif
}

/// Allows the next grid to start; that grid waits for the end of this one before it uses its
/// results.
__device__ __forceinline__ void let_next_grid_start() {
#if __CUDA_ARCH__ >= 900
  ptx::griddepcontrol_launch_dependents();
#endif
}

}  // namespace fovea::pipe
