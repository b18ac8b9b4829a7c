// The column scales and biases of an epilogue: loaded into registers before the products, and
// written to shared memory after them.
#pragma once

#include <cstdint>

#include "kernels/epilogue/fragment.cuh"
#include "kernels/pipe/group_barrier.cuh"
#include "kernels/pipe/roles.cuh"

namespace fovea::gemm {

/// Scales (or sums) and biases of a tile's columns, distributed over the threads of a warpgroup.
template <typename Cfg>
struct ColumnValues {
  static constexpr int kWarpgroup = pipe::kWarpgroup;
  static constexpr int kPasses = (Cfg::kColumns + kWarpgroup - 1) / kWarpgroup;
  using Table = float[2][Cfg::kColumns];  // rows: scale or sum, bias
  static constexpr bool kHasScale = Cfg::kScaled || Cfg::kNormed;
  static constexpr bool kHasBias = epilogue::Fragment<Cfg>::kHasBias;

  float scale[kPasses];
  float bias[kPasses];

  /// Loads the values of the columns from `first` on; zeros for columns beyond the matrix.
  static __device__ __forceinline__ ColumnValues load(const epilogue::Params& out,
                                                      std::int32_t first) {
    ColumnValues values{};
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      const std::int32_t place = pass * kWarpgroup + threadIdx.x % kWarpgroup;
      if (place < Cfg::kColumns && first + place < out.columns) {
        if constexpr (Cfg::kScaled) {
          values.scale[pass] = __ldg(out.column_scale + first + place);
        } else if constexpr (Cfg::kNormed) {
          values.scale[pass] = __ldg(out.column_sum + first + place);
        }
        if constexpr (kHasBias) {
          values.bias[pass] = __ldg(out.bias + first + place);
        }
      }
    }
    return values;
  }

  /// Writes the values to `table`, once all threads of warpgroup `group` have finished with the
  /// previous tile.
  __device__ __forceinline__ void store(Table& table, std::uint32_t group) const {
    if constexpr (!kHasScale && !kHasBias) {
      return;
    }
    const pipe::GroupBarrier<kWarpgroup> barrier(group);
    barrier.sync();
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      const std::int32_t place = pass * kWarpgroup + threadIdx.x % kWarpgroup;
      if (place < Cfg::kColumns) {
        if constexpr (kHasScale) {
          table[0][place] = scale[pass];
        }
        if constexpr (kHasBias) {
          table[1][place] = bias[pass];
        }
      }
    }
    barrier.sync();
  }
};

}  // namespace fovea::gemm
