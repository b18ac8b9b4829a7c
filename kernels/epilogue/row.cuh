// The place of a tile's row in the output and in the position table.
#pragma once

#include <cstdint>

#include "kernels/epilogue/epilogue_params.hpp"

namespace fovea::epilogue {

/// A row of a tile.
struct Row {
  std::int32_t index;  // row of the output
  std::int32_t token;  // row of the position table
  bool valid;
};

/// Finds row `row` of the tile that begins at this token and image.
__device__ __forceinline__ Row find_row(const Params& p, std::int32_t token, std::int32_t image,
                                        std::int32_t row) {
  const std::int32_t in_box = row / p.box_tokens;
  const std::int32_t t = token + row - in_box * p.box_tokens;
  const std::int32_t i = image + in_box;
  return {i * p.tokens + t, t % p.position_rows, t < p.tokens && i < p.images};
}

}  // namespace fovea::epilogue
