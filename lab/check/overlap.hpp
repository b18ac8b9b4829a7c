// A workload's grids on the emulator behind grids that have not ended yet.
#pragma once

#include "gpu/launch/launch.hpp"
#include "lab/cards/workload.hpp"

namespace fovea::lab {

/// Launches them behind a grid that lets the next one start at once and goes on writing what the
/// workload says is written just before, as it is; then behind themselves; and waits. What they
/// read or write too early is what the emulator finds. Nothing happens where grids do not overlap:
/// on GPUs before sm_90. For emulated devices.
void run_overlapping(gpu::KernelCache& kernels, const Workload& workload, const Operands& operands,
                     const Plan& plan, gpu::Stream& stream);

}  // namespace fovea::lab
