// A tile of rows of one head in shared memory, filled by cp.async: units of 16 bytes, permuted
// within each row by exclusive-or, so that ldmatrix reads the eight rows of an 8x8 matrix without
// bank conflicts.
#pragma once

#include <cstdint>

#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/mma.cuh"

namespace fovea::attention {

/// A tile of (kRowCount, kColumnCount) 16-bit elements; columns beyond the head are zero.
template <int kRowCount, int kColumnCount>
struct RowTile {
  static constexpr int kRows = kRowCount;
  static constexpr int kUnits = kColumnCount / 8;
  static constexpr int kRowBytes = kColumnCount * 2;
  static constexpr int kLanes = kUnits <= 4 ? 4 : kUnits <= 8 ? 8 : 16;  // lanes that copy one row
  static_assert(kUnits <= kLanes);
  static_assert(kColumnCount % 16 == 0 && kRowCount % 8 == 0);
  /// Eight consecutive rows begin at 8 / kSpread different offsets within the 128 bytes of all
  /// banks; the units of rows that begin at the same offset are permuted.
  static constexpr int kSpread = kUnits % 8 == 0 ? 8 : kUnits % 4 == 0 ? 4 : 2;

  static constexpr int kSpreadShift = kSpread == 8 ? 0 : kSpread == 4 ? 1 : 2;

  alignas(128) unsigned char bytes[kRowCount * kColumnCount * 2];

  __device__ __forceinline__ std::uint32_t place(int row, int unit) const {
    return ptx::shared_address(bytes) +
           (row * kUnits + (unit ^ (row >> kSpreadShift & (kSpread - 1)))) * 16;
  }

  /// Starts the part of thread `thread` of kThreads in the copy of rows from `first` on; rows from
  /// `end` on become zero. With kSpare, whole tiles are copied without checking each row, which is
  /// faster but takes more registers.
  template <int kThreads, bool kSpare = true>
  __device__ __forceinline__ void load(const std::uint8_t* head, std::int64_t row_stride, int first,
                                       int end, int head_dim, std::uint32_t thread) const {
    // A thread copies one unit of every kStep-th row. Where the number of units is not a power of
    // two, some threads are idle, which is cheaper than a division.
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

/// Addresses of one lane's eight elements in each 16x16 block of a tile: rows `row` + 16 i, units 2
/// j + `half`. It keeps few addresses in registers; the rest are constant offsets from them.
template <typename Tile>
class BlockPlaces {
 public:
  __device__ __forceinline__ BlockPlaces(const Tile& tile, int row, int half) {
#pragma unroll
    for (int i = 0; i < kPeriod; ++i) {
      // Rows that are a multiple of 128 bytes wide begin at multiples of 128, so that exclusive-or
      // gives the next unit's address.
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
  /// number of blocks after which the permutation repeats
  static constexpr int kPeriod = Tile::kSpread / 2;

  std::uint32_t address_[kPeriod];
};

}  // namespace fovea::attention
