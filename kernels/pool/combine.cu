// Puts together the splits of attend: a block an image and head.
//
//   mean = sum_s exp(largest_s - largest) partial_s / sum_s exp(largest_s - largest) sum_s
#include <cmath>
#include <cstdint>

#include "kernels/pipe/grid.cuh"
#include "kernels/pool/pool_params.hpp"
#include "kernels/ptx/math.cuh"

namespace fovea::pool {

extern "C" __global__ void __launch_bounds__(kThreads)
    FOVEA_ENTRY(const __grid_constant__ CombineParams params) {
  const int head = static_cast<int>(blockIdx.x);
  const std::int64_t image = blockIdx.y;
  const float* const statistics = params.statistics + image * params.splits * 2 * kMaxHeads + head;
  const float* const partial =
      params.partial + (image * params.splits * kMaxHeads + head) * params.hidden;
  pipe::let_next_grid_start();
  pipe::wait_for_previous_grids();

  float largest = -INFINITY;
  for (int s = 0; s < params.splits; ++s) {
    largest = fmaxf(largest, statistics[s * 2 * kMaxHeads]);
  }
  float sum = 0;
  for (int s = 0; s < params.splits; ++s) {
    sum += expf(statistics[s * 2 * kMaxHeads] - largest) * statistics[(s * 2 + 1) * kMaxHeads];
  }
  const float inverse = 1.0F / sum;
  for (int column = static_cast<int>(threadIdx.x) * 2; column < params.hidden;
       column += kThreads * 2) {
    float2 total{0, 0};
    for (int s = 0; s < params.splits; ++s) {
      const float weight = expf(statistics[s * 2 * kMaxHeads] - largest) * inverse;
      const float2 part = *reinterpret_cast<const float2*>(
          partial + static_cast<std::int64_t>(s) * kMaxHeads * params.hidden + column);
      total.x += weight * part.x;
      total.y += weight * part.y;
    }
    *reinterpret_cast<std::uint32_t*>(params.mean + (image * params.heads + head) * params.hidden +
                                      column) = ptx::cvt_bf16x2(total.x, total.y);
  }
}

}  // namespace fovea::pool
