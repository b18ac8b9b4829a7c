// Another order of the tiles of a matrix than row after row: so that CTAs at work at the same time
// share more of both operands in L2.
#pragma once

#include <cstdint>

namespace fovea::gemm {

/// A tile's place among the rows and the columns of tiles.
struct TilePlace {
  std::int32_t row;
  std::int32_t column;
};

/// Place number `index` of (rows, columns) tiles: down kRaster rows of tiles, column after column.
template <int kRaster>
__device__ __forceinline__ TilePlace raster_place(std::int32_t index, std::int32_t rows,
                                                  std::int32_t columns) {
  const std::int32_t first = index / (kRaster * columns) * kRaster;
  const std::int32_t together = rows - first < kRaster ? rows - first : kRaster;
  const std::int32_t rest = index - first * columns;
  return {first + rest % together, rest / together};
}

}  // namespace fovea::gemm
