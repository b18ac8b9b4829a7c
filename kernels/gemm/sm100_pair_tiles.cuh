// Assignment of tiles to pairs of CTAs, and the place of a tile in the output (sm100_pair.cuh).
#pragma once

#include <cstdint>

#include "kernels/gemm/gemm_params.hpp"
#include "kernels/gemm/tile_order.cuh"

namespace fovea::gemm {

/// The beginning of a CTA's part of a tile, or of a warp's part of that.
struct Part {
  std::int32_t token;
  std::int32_t image;
  std::int32_t column;
};

/// The tiles `first`, `first` + `step`, ... that are less than `end`.
struct TileRange {
  std::int32_t first;
  std::int32_t end;
  std::int32_t step;
};

template <typename Cfg>
struct PairTiles {
  const Params& p;
  std::uint32_t rank;  // of this CTA in the pair

  __device__ __forceinline__ std::int32_t rows() const { return (p.row_tiles + 1) / 2; }

  /// The tiles of this block's pair; there are no more pairs than tiles. With a panel they are
  /// consecutive, and the numbers of tiles differ by at most one; else they are strided by the
  /// number of pairs.
  __device__ __forceinline__ TileRange range() const {
    const std::int32_t pair = static_cast<std::int32_t>(blockIdx.x) / 2;
    const std::int32_t pairs = static_cast<std::int32_t>(gridDim.x) / 2;
    const std::int32_t count = rows() * p.column_tiles;
    if constexpr (Cfg::kPanel) {
      const std::int32_t each = count / pairs;
      const std::int32_t more = count % pairs;
      const std::int32_t first = pair * each + min(pair, more);
      return {first, first + each + (pair < more ? 1 : 0), 1};
    } else {
      return {pair, count, pairs};
    }
  }

  /// The first later tile with other rows of A, when tiles are consecutive.
  __device__ __forceinline__ std::int32_t next_row(std::int32_t index) const {
    return (index / p.column_tiles + 1) * p.column_tiles;
  }

  /// This CTA's part of a tile.
  __device__ __forceinline__ Part at(std::int32_t index) const {
    TilePlace place{index / p.column_tiles, index % p.column_tiles};
    if constexpr (Cfg::kRaster != 0) {
      place = raster_place<Cfg::kRaster>(index, rows(), p.column_tiles);
    }
    const std::int32_t row = place.row * 2 + static_cast<std::int32_t>(rank);
    return {row / p.image_tiles * p.epilogue.box_tokens,
            row % p.image_tiles * p.epilogue.box_images, place.column * Cfg::kColumns};
  }

  /// The part of an epilogue warp in this CTA's part of a tile.
  __device__ __forceinline__ Part of_warp(const Part& tile, std::int32_t warp) const {
    const std::int32_t row = warp % 4 * kPairWarpRows;
    const std::int32_t in_box = row / p.epilogue.box_tokens;
    return {tile.token + row - in_box * p.epilogue.box_tokens, tile.image + in_box,
            tile.column + warp / 4 * Cfg::kShare};
  }
};

}  // namespace fovea::gemm
