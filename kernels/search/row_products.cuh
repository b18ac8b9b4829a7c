// Products of the codes of queries and rows by mma.sync, and the bounds made of them.
//
// A warp multiplies panels of 16 lines of queries and 8 * kHeight rows. Rows go straight from
// global memory to the fragments: a lane's 16 bytes of a block of kBlockBytes are two products'
// words of its row, in an order of numbers that is the same for both operands, so that every load
// is as wide as it can be and no row passes through shared memory. Panels are packed in that order.
//
// In a product, lane l has lines l / 4 and l / 4 + 8 of the panel, and of its eight rows those of
// number l % 4 * 2 and the next.
#pragma once

#include <cstdint>

#include "kernels/ptx/mma.cuh"
#include "kernels/search/search_params.hpp"

namespace fovea::row_search {

constexpr unsigned kAllLanes = 0xffffffffU;

__device__ __forceinline__ int lane_index() {
  return static_cast<int>(threadIdx.x) % 32;
}

/// Where the lane's bytes of the first block begin, of eight rows from `first` on.
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

/// Adds the products of a block of a panel, at `panel`, and of rows.
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

/// The sum of a code that was split, by wrapping arithmetic: what is added fits, its parts may not.
__device__ __forceinline__ int fine_sum(int high, int low) {
  return static_cast<int>(static_cast<unsigned>(high) * static_cast<unsigned>(kHigh) +
                          static_cast<unsigned>(low));
}

/// What the score of a row is between. A bound that is NaN says nothing: it becomes infinite.
__device__ __forceinline__ Bounds bounds_of(int sum, const RowTerms& row, const QueryTerms& query) {
  const float middle =
      static_cast<float>(sum - query.offset) * row.scale * query.scale + row.along * query.along;
  const float error = row.length * query.length + row.error;
  const Bounds bounds{middle - error, middle + error};
  return {bounds.lower == bounds.lower ? bounds.lower : -INFINITY,
          bounds.upper == bounds.upper ? bounds.upper : INFINITY};
}

}  // namespace fovea::row_search
