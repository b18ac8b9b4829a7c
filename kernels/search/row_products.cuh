// Products of query and row codes by mma.sync, and the bounds computed from them.
//
// A warp multiplies panels of 16 lines of queries by 8 * kHeight rows. Rows are loaded directly
// from global memory into the fragments: a lane's 16 bytes of a block of kBlockBytes are the
// operand words of two products, in an order of the elements that is the same for both operands. So
// every load is as wide as possible, and rows do not pass through shared memory. Panels are packed
// in that order.
//
// In a product, lane l has lines l / 4 and l / 4 + 8 of the panel, and the rows l % 4 * 2 and l % 4
// * 2 + 1 of eight.
#pragma once

#include <cstdint>

#include "kernels/ptx/mma.cuh"
#include "kernels/search/search_params.hpp"

namespace fovea::row_search {

constexpr unsigned kAllLanes = 0xffffffffU;

__device__ __forceinline__ int lane_index() {
  return static_cast<int>(threadIdx.x) % 32;
}

/// Returns the address of the lane's bytes in the first block of eight rows from `first` on.
__device__ __forceinline__ const std::uint8_t* lane_bytes(const Rows& rows, std::int64_t first) {
  return rows.codes + (first + lane_index() / 4) * rows.stride + lane_index() % 4 * 16;
}

/// The lane's bytes of one block of 8 * kHeight rows.
template <int kHeight>
struct RowBlock {
  uint4 part[kHeight];

  __device__ __forceinline__ void load(const std::uint8_t* from, int stride) {
#pragma unroll
    for (int r = 0; r < kHeight; ++r) {
      part[r] = *reinterpret_cast<const uint4*>(from + r * 8 * stride);
    }
  }
};

/// Adds the products of one block of a panel, at `panel`, and of rows.
template <int kHeight>
__device__ __forceinline__ void multiply(int (&sums)[kHeight][4], const std::int8_t* panel,
                                         const RowBlock<kHeight>& rows) {
  const auto* const lines = reinterpret_cast<const uint4*>(panel) + lane_index();
  const uint4 low = lines[0];
  const uint4 high = lines[32];
#pragma unroll
  for (int r = 0; r < kHeight; ++r) {
    ptx::mma_m16n8k32_s8u8(sums[r], low.x, low.y, low.z, low.w, rows.part[r].x, rows.part[r].y);
  }
#pragma unroll
  for (int r = 0; r < kHeight; ++r) {
    ptx::mma_m16n8k32_s8u8(sums[r], high.x, high.y, high.z, high.w, rows.part[r].z, rows.part[r].w);
  }
}

/// Combines the sums of the two parts of a split code. Arithmetic wraps: the result fits, but
/// intermediate values may not.
__device__ __forceinline__ int fine_sum(int high, int low) {
  return static_cast<int>(static_cast<unsigned>(high) * static_cast<unsigned>(kHigh) +
                          static_cast<unsigned>(low));
}

/// Returns bounds of the score of a row. A bound that is NaN is replaced by an infinite one.
__device__ __forceinline__ Bounds bounds_of(int sum, const RowTerms& row, const QueryTerms& query) {
  const float middle =
      static_cast<float>(sum - query.offset) * row.scale * query.scale + row.along * query.along;
  const float error = row.length * query.length + row.error;
  const Bounds bounds{middle - error, middle + error};
  return {bounds.lower == bounds.lower ? bounds.lower : -INFINITY,
          bounds.upper == bounds.upper ? bounds.upper : INFINITY};
}

}  // namespace fovea::row_search
