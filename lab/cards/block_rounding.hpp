// Results in MXFP8 as a kernel stores them: rounded in blocks, rightly or with a mistake that the
// gates have to notice.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "ops/reference/judge.hpp"

namespace fovea::lab {

enum class ScaleMistake : std::uint8_t {
  kNone,
  kNeighbour,  // numbers meet the scale of the block beside theirs
  kPower,      // scales are twice what numbers were divided by
  kRowByRow,   // scales are written row by row, and not in atoms
  kHalfBlock,  // the scale is that of the first 16 numbers
};
inline constexpr std::array kScaleMistakes = {
    std::pair{std::string_view("scale of the neighbouring block"), ScaleMistake::kNeighbour},
    std::pair{std::string_view("scale off by one power"), ScaleMistake::kPower},
    std::pair{std::string_view("scales row by row, not in atoms"), ScaleMistake::kRowByRow},
    std::pair{std::string_view("scales of blocks of 16"), ScaleMistake::kHalfBlock}};

/// Rounds a tile of values, row by row, to what is read of them in MXFP8. The tile begins with a
/// block and ends with one.
void round_in_blocks(const ops::reference::Tile& tile, std::span<double> values,
                     ScaleMistake mistake = ScaleMistake::kNone);

}  // namespace fovea::lab
