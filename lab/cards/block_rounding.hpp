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
  kNeighbour,  // numbers are multiplied by the neighbouring block's scale
  kPower,      // stored scales are twice those that the numbers were divided by
  kRowByRow,   // scales are stored row by row instead of in the layout of atoms
  kHalfBlock,  // the scale is that of the first 16 numbers
};
inline constexpr std::array kScaleMistakes = {
    std::pair{std::string_view("scale of the neighbouring block"), ScaleMistake::kNeighbour},
    std::pair{std::string_view("scale off by one power"), ScaleMistake::kPower},
    std::pair{std::string_view("scales row by row, not in atoms"), ScaleMistake::kRowByRow},
    std::pair{std::string_view("scales of blocks of 16"), ScaleMistake::kHalfBlock}};

/// Rounds a tile of values to MXFP8, row by row, and back. The tile must begin and end at the
/// boundaries of blocks.
void round_in_blocks(const ops::reference::Tile& tile, std::span<double> values,
                     ScaleMistake mistake = ScaleMistake::kNone);

}  // namespace fovea::lab
