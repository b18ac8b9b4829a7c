// What an epilogue multiplies and adds by column: asked for before the products, in shared memory
// after them.
#pragma once

#include <cstdint>

#include "kernels/epilogue/fragment.cuh"
#include "kernels/ptx/warp.cuh"

namespace fovea::gemm {

/// Scales (or sums) and biases of the columns of a tile, spread over a warpgroup.
template <typename Cfg>
struct ColumnValues {
  static constexpr int kWarpgroup = 128;
  static constexpr int kPasses = (Cfg::kColumns + kWarpgroup - 1) / kWarpgroup;
  using Table = float[2][Cfg::kColumns];  // scale or sum, bias
  static constexpr bool kHasScale = Cfg::kScaled || Cfg::kNormed;
  static constexpr bool kHasBias = epilogue::Fragment<Cfg>::kHasBias;

  float scale[kPasses];
  float bias[kPasses];

  /// Of the columns from `first` on; nothing for those outside.
  static __device__ __forceinline__ ColumnValues load(const epilogue::Params& out,
                                                      std::int32_t first) {
    ColumnValues values{};
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      const std::int32_t at = pass * kWarpgroup + threadIdx.x % kWarpgroup;
      if (at < Cfg::kColumns && first + at < out.columns) {
        if constexpr (Cfg::kScaled) {
          values.scale[pass] = __ldg(out.column_scale + first + at);
        } else if constexpr (Cfg::kNormed) {
          values.scale[pass] = __ldg(out.column_sum + first + at);
        }
        if constexpr (kHasBias) {
          values.bias[pass] = __ldg(out.bias + first + at);
        }
      }
    }
    return values;
  }

  /// Once the warpgroup has read the tile before; `barrier` is its own.
  __device__ __forceinline__ void store(Table& table, std::uint32_t barrier) const {
    if constexpr (!kHasScale && !kHasBias) {
      return;
    }
    ptx::bar_sync(barrier, kWarpgroup);
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      const std::int32_t at = pass * kWarpgroup + threadIdx.x % kWarpgroup;
      if (at < Cfg::kColumns) {
        if constexpr (kHasScale) {
          table[0][at] = scale[pass];
        }
        if constexpr (kHasBias) {
          table[1][at] = bias[pass];
        }
      }
    }
    ptx::bar_sync(barrier, kWarpgroup);
  }
};

}  // namespace fovea::gemm
