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
  static constexpr int kRowBytes = kColumnCount * 2;
  static constexpr int kLanes = kUnits <= 4 ? 4 : kUnits <= 8 ? 8 : 16;  // that copy a row
  static_assert(kUnits <= kLanes);
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
  /// become zero. With kSpare whole tiles are copied without a look at each row, which is faster
  /// and takes registers.
  template <int kThreads, bool kSpare = true>
  __device__ __forceinline__ void load(const std::uint8_t* head, std::int64_t row_stride, int first,
                                       int end, int head_dim, std::uint32_t thread) const {
    // A thread copies one unit of every kStep-th row. Where the units of a row are no power of two,
    // some threads have none: that is cheaper than to divide.
    constexpr int kStep = kThreads / kLanes;
    static_assert(kThreads % kLanes == 0 && kRows % kStep == 0);
    static_assert(kStep % 8 == 0 || 8 % kStep == 0);
    const int row = static_cast<int>(thread / kLanes);
    const int unit = static_cast<int>(thread % kLanes);
    if (kLanes != kUnits && unit >= kUnits) {
      return;
    }
    const std::uint8_t* from = head + ((first + row) * row_stride + unit * 8) * 2;
    const std::int64_t step = kStep * row_stride * 2;
    const bool whole = kSpare && first + kRows <= end && head_dim == kColumnCount;
    const bool in_head = unit * 8 < head_dim;
    const std::uint32_t to = place(row, unit);
#pragma unroll
    for (int i = 0; i < kRows / kStep; ++i) {
      // Rows 8 apart have their units in the same order.
      const std::uint32_t target =
          kStep % 8 == 0 ? to + i * kStep * kRowBytes : place(row + i * kStep, unit);
      if (whole) {
        ptx::cp_async_16(target, from, 16);
      } else {
        const bool inside = in_head && first + row + i * kStep < end;
        ptx::cp_async_16(target, inside ? from : head, inside ? 16 : 0);
      }
      from += step;
    }
  }
};

/// Where one lane finds its eight elements of each 16x16 block of a tile: rows `row` + 16 i, units
/// 2 j + `half`. Few addresses, and constants beside them.
template <typename Tile>
class BlockPlaces {
 public:
  __device__ __forceinline__ BlockPlaces(const Tile& tile, int row, int half) {
#pragma unroll
    for (int i = 0; i < kPeriod; ++i) {
      // Rows of whole 128 bytes begin at multiples of them.
      address_[i] = i == 0 || Tile::kUnits % 8 != 0
                        ? tile.place(row, 2 * i + half)
                        : address_[0] ^ static_cast<std::uint32_t>(i * 32);
    }
  }
  __device__ __forceinline__ std::uint32_t at(int i, int j) const {
    return address_[j % kPeriod] +
           static_cast<std::uint32_t>(i * 16 * Tile::kRowBytes + j / kPeriod * kPeriod * 32);
  }

 private:
  static constexpr int kPeriod = Tile::kSpread / 2;  // blocks after which units are in order again

  std::uint32_t address_[kPeriod];
};

}  // namespace fovea::attention
