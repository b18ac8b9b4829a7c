// multiply_tile: computes a tile of sums in registers. Each file that includes this is compiled for
// one instruction set and defines its vector type.
#pragma once

#include <cstdint>
#include <cstring>

#include "cpu/tiles/tile_kernel.hpp"

namespace fovea::cpu {
namespace {

/// `V` defines kLanes, the units in a vector; kVectors, the vectors in a row of the tile; the types
/// Vector and Sum; load(units), broadcast(unit), dot(sum, a, b) and store(to, sum, add), which adds
/// to the stored value if `add` is true; and kMaxUnits, after which a sum is stored and restarted,
/// because several short sums of floats have smaller rounding errors than a long one.
template <typename V, int kHeight>
void multiply_tile(const Unit* a, const RowLayout& /*layout*/, const Unit* b, std::int64_t units,
                   Unit* sums) {
  constexpr int kColumns = V::kVectors * V::kLanes;
  constexpr int kLineUnits = 16;
  // Prefetch distance for B in units of the inner dimension: a panel is larger than the L1 cache.
  constexpr int kPrefetchUnits = 16;
  std::int64_t done = 0;
  do {
    typename V::Sum sum[kHeight][V::kVectors] = {};
    const std::int64_t end = units - done < V::kMaxUnits ? units : done + V::kMaxUnits;
    for (std::int64_t unit = done; unit < end; ++unit) {
      typename V::Vector column[V::kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < V::kVectors; ++v) {
        column[v] = V::load(b + v * V::kLanes);
      }
#pragma GCC unroll 16
      for (int row = 0; row < kHeight; ++row) {
        const typename V::Vector x = V::broadcast(a + row);
#pragma GCC unroll 4
        for (int v = 0; v < V::kVectors; ++v) {
          sum[row][v] = V::dot(sum[row][v], x, column[v]);
        }
      }
      for (int i = kPrefetchUnits * kColumns; i < (kPrefetchUnits + 1) * kColumns;
           i += kLineUnits) {
        __builtin_prefetch(b + i);
      }
      a += kHeight;
      b += kColumns;
    }
#pragma GCC unroll 16
    for (int row = 0; row < kHeight; ++row) {
#pragma GCC unroll 4
      for (int v = 0; v < V::kVectors; ++v) {
        V::store(sums + row * kColumns + v * V::kLanes, sum[row][v], done > 0);
      }
    }
    done = end;
  } while (done < units);
}

template <typename V, int... kHeights>
constexpr TileKernel make_tile_kernel(UnitType type) noexcept {
  return {.type = type,
          .columns = V::kVectors * V::kLanes,
          .heights = {kHeights...},
          .functions = {multiply_tile<V, kHeights>...}};
}

}  // namespace
}  // namespace fovea::cpu
