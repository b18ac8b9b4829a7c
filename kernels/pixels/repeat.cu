// Writes the position table to each image's rows in the output of a matrix product that adds to it.
#include <cstdint>

#include "kernels/pipe/grid.cuh"
#include "kernels/pixels/pixels_params.hpp"

namespace fovea::pixels {

extern "C" __global__ void __launch_bounds__(kThreads)
    FOVEA_ENTRY(const __grid_constant__ RepeatParams params) {
  const std::int64_t units = params.size / kUnit;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * kThreads;
  const auto* const source = reinterpret_cast<const uint4*>(params.source);
  auto* const output = reinterpret_cast<uint4*>(params.output);
  pipe::let_next_grid_start();
  pipe::wait_for_previous_grids();
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < units * params.copies; i += threads) {
    output[i] = source[i % units];
  }
}

}  // namespace fovea::pixels
