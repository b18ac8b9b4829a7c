// A tile of rows of one head in shared memory, as cp.async brings it: units of 16 bytes, permuted
// within each row by exclusive-or, so that the eight rows of an 8x8 matrix meet no bank twice.
#pragma once

#include <cstdint>

#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/mma.cuh"

namespace fovea::attention {

/// (kRowCount, kColumnCount) 16-bit elements; columns beyond the head are zero.
template <int kRowCount, int kColumnCount>
struct RowTile {
  static constexpr int kRows = kRowCount;
  static constexpr int kUnits = kColumnCount / 8;
  static_assert(kColumnCount % 16 == 0 && kRowCount % 8 == 0);
  /// 8 rows begin at 8 / kSpread different places of the 128 bytes of all banks; among the rows
  /// that begin at the same, units trade places.
  static constexpr int kSpread = kUnits % 8 == 0 ? 8 : kUnits % 4 == 0 ? 4 : 2;

  static constexpr int kSpreadShift = kSpread == 8 ? 0 : kSpread == 4 ? 1 : 2;

  alignas(128) unsigned char bytes[kRowCount * kColumnCount * 2];

  __device__ __forceinline__ std::uint32_t place(int row, int unit) const {
    return ptx::shared_address(bytes) +
           (row * kUnits + (unit ^ (row >> kSpreadShift & (kSpread - 1)))) * 16;
  }

  /// Thread `thread` of kThreads starts its part of the copy of rows `first` on; rows from `end` on
  /// become zero.
  template <int kThreads>
  __device__ __forceinline__ void load(const std::uint8_t* head, std::int64_t row_stride, int first,
                                       int end, int head_dim, std::uint32_t thread) const {
    if constexpr (kThreads % kUnits == 0) {
      // A thread copies one unit of every kStep-th row.
      constexpr int kStep = kThreads / kUnits;
      static_assert(kRows % kStep == 0 && (kStep % 8 == 0 || 8 % kStep == 0));
      const int row = static_cast<int>(thread / kUnits);
      const int unit = static_cast<int>(thread % kUnits);
      const bool in_head = unit * 8 < head_dim;
      const std::uint8_t* from = head + ((first + row) * row_stride + unit * 8) * 2;
#pragma unroll
      for (int i = 0; i < kRows / kStep; ++i) {
        const bool inside = in_head && first + row + i * kStep < end;
        ptx::cp_async_16(place(row + i * kStep, unit), inside ? from : head, inside ? 16 : 0);
        from += kStep * row_stride * 2;
      }
    } else {
#pragma unroll 1
      for (int at = static_cast<int>(thread); at < kRows * kUnits; at += kThreads) {
        const int row = at / kUnits;
        const int unit = at % kUnits;
        const bool inside = unit * 8 < head_dim && first + row < end;
        const std::int64_t offset = inside ? (first + row) * row_stride + unit * 8 : 0;
        ptx::cp_async_16(place(row, unit), head + offset * 2, inside ? 16 : 0);
      }
    }
  }
};

}  // namespace fovea::attention
