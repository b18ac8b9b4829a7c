// Weight and bias of a LayerNorm in shared memory, in the order of the lanes, and the computation
// of rows with them. Reading them through the L1 cache would cost more than reading the rows.
#pragma once

#include <cstdint>

#include "kernels/norm/norm_params.hpp"
#include "kernels/norm/row.cuh"

namespace fovea::norm {

// The two halves of a chunk are stored apart, so that the lanes of a warp read adjacent float4s.
struct SharedStorage {
  float4 weight[kChunks][2][kWarp];
  float4 bias[kChunks][2][kWarp];
};

__device__ __forceinline__ void load_parameters(const Params& params, SharedStorage& shared) {
  for (int i = static_cast<int>(threadIdx.x); i < params.width / 4; i += kThreads) {
    const int chunk = i / 2 / kWarp;
    shared.weight[chunk][i % 2][i / 2 % kWarp] =
        __ldg(reinterpret_cast<const float4*>(params.weight) + i);
    shared.bias[chunk][i % 2][i / 2 % kWarp] =
        __ldg(reinterpret_cast<const float4*>(params.bias) + i);
  }
}

// One chunk's weights and biases, in registers.
struct Affine {
  float weight[kChunk];
  float bias[kChunk];

  __device__ __forceinline__ Affine(const SharedStorage& shared, int chunk, int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 w = shared.weight[chunk][half][lane];
      const float4 b = shared.bias[chunk][half][lane];
      const float ws[4] = {w.x, w.y, w.z, w.w};
      const float bs[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        weight[half * 4 + i] = ws[i];
        bias[half * 4 + i] = bs[i];
      }
    }
  }
};

// Loads this lane's part of row `index` of the input, normalised, with weight and bias applied;
// elements beyond the row are zero. Returns the reciprocal standard deviation.
__device__ __forceinline__ float load_normalised(const Params& params, const SharedStorage& shared,
                                                 std::int64_t index, int lane, Row& row) {
  PackedRow(params, index, lane).unpack(row);
  (void)centre(params, row, lane);
  const float factor = rsqrtf(variance(params, row));
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if (holds(params, c, lane)) {
      const Affine affine(shared, c, lane);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        row[c][i] = row[c][i] * factor * affine.weight[i] + affine.bias[i];
      }
    }
  }
  return factor;
}

}  // namespace fovea::norm
