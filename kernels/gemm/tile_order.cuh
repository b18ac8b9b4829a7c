// An order of a matrix's tiles other than row by row, with which CTAs that run at the same time
// share more of both operands in L2.
#pragma once

#include <cstdint>

namespace fovea::gemm {

/// The row and the column of a tile in the grid of tiles.
struct TilePlace {
  std::int32_t row;
  std::int32_t column;
};

/// Returns the place of tile `index` of (rows, columns) tiles: bands of kRaster rows of tiles,
/// column by column within a band.
template <int kRaster>
__device__ __forceinline__ TilePlace raster_place(std::int32_t index, std::int32_t rows,
                                                  std::int32_t columns) {
  const std::int32_t first = index / (kRaster * columns) * kRaster;
  const std::int32_t together = rows - first < kRaster ? rows - first : kRaster;
  const std::int32_t rest = index - first * columns;
  return {first + rest % together, rest / together};
}

}  // namespace fovea::gemm
