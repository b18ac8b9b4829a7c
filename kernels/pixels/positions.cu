// Writes the position table of a NaFlex model, resized to the patches of each image, to the output
// of a matrix product that adds to it.
//
//   output[row] = sum_i sum_j down(y)_i across(x)_j table[i][j],  row = patch (y, x) of an image
//
// The weights are those of torch's F.interpolate(mode="bilinear", align_corners=False,
// antialias=True): a triangle around the patch's position in the table, clipped at the table's
// edges.
//
// Contract: f32 table (side, side, width), width a multiple of kUnit, bf16 output (rows, width). A
// warp computes a row. Deterministic, and an image's rows do not depend on the other images.
#include <cstdint>

#include "kernels/pipe/grid.cuh"
#include "kernels/pixels/pixels_params.hpp"
#include "kernels/ptx/math.cuh"

namespace fovea::pixels {
namespace {

constexpr int kWarps = kThreads / 32;

/// The weights of a position along one axis of the table: rows [first, last], weighted by a
/// triangle.
struct Axis {
  float centre;
  float inverse_support;
  float inverse_sum;
  int first;
  int last;

  __device__ __forceinline__ Axis(int position, int positions, int side) {
    const float scale = static_cast<float>(side) / static_cast<float>(positions);
    const float support = fmaxf(scale, 1.0F);
    centre = (static_cast<float>(position) + 0.5F) * scale - 0.5F;
    inverse_support = 1.0F / support;
    first = max(0, static_cast<int>(floorf(centre - support)));
    last = min(side - 1, static_cast<int>(ceilf(centre + support)));
    float sum = 0;
    for (int row = first; row <= last; ++row) {
      sum += height(row);
    }
    inverse_sum = 1.0F / sum;
  }

  /// Height of the triangle at this row; zero outside its base.
  [[nodiscard]] __device__ __forceinline__ float height(int row) const {
    return fmaxf(0.0F, 1.0F - fabsf(static_cast<float>(row) - centre) * inverse_support);
  }
  [[nodiscard]] __device__ __forceinline__ float weight(int row) const {
    return height(row) * inverse_sum;
  }
};

/// Returns the image that a row belongs to: the last one that begins at or before it.
__device__ __forceinline__ int image_of(const std::int32_t* starts, int images, int row) {
  int low = 0;
  int high = images;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (starts[middle] <= row) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

__device__ __forceinline__ void add(float (&sums)[kUnit], const float* cell, float weight) {
  const float4 low = *reinterpret_cast<const float4*>(cell);
  const float4 high = *reinterpret_cast<const float4*>(cell + 4);
  sums[0] += weight * low.x;
  sums[1] += weight * low.y;
  sums[2] += weight * low.z;
  sums[3] += weight * low.w;
  sums[4] += weight * high.x;
  sums[5] += weight * high.y;
  sums[6] += weight * high.z;
  sums[7] += weight * high.w;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    FOVEA_ENTRY(const __grid_constant__ PositionParams params) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  pipe::let_next_grid_start();
  pipe::wait_for_previous_grids();
  for (int row = static_cast<int>(blockIdx.x) * kWarps + warp; row < params.rows;
       row += static_cast<int>(gridDim.x) * kWarps) {
    const int image = image_of(params.starts, params.images, row);
    const int patch = row - params.starts[image];
    const int columns = params.grids[2 * image + 1];
    const Axis down(patch / columns, params.grids[2 * image], params.side);
    const Axis across(patch % columns, columns, params.side);
    for (int column = lane * kUnit; column < params.width; column += 32 * kUnit) {
      float sums[kUnit] = {};
      for (int i = down.first; i <= down.last; ++i) {
        const float* const cells =
            params.table + static_cast<std::int64_t>(i * params.side) * params.width + column;
        for (int j = across.first; j <= across.last; ++j) {
          add(sums, cells + static_cast<std::int64_t>(j) * params.width,
              down.weight(i) * across.weight(j));
        }
      }
      *reinterpret_cast<uint4*>(params.output + static_cast<std::int64_t>(row) * params.width +
                                column) = {
          ptx::cvt_bf16x2(sums[0], sums[1]), ptx::cvt_bf16x2(sums[2], sums[3]),
          ptx::cvt_bf16x2(sums[4], sums[5]), ptx::cvt_bf16x2(sums[6], sums[7])};
    }
  }
}

}  // namespace fovea::pixels
