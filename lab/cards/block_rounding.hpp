// Rounds results to MXFP8 as a kernel does, either correctly or with a mistake that the check has
// to detect.
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
  kPower,      // the stored scales are twice the scales that the numbers were divided by
  kRowByRow,   // scales are stored row by row instead of atom by atom
  kHalfBlock,  // the scale is computed from the first 16 numbers of the block
};
inline constexpr std::array kScaleMistakes = {
    std::pair{std::string_view("scale of the neighbouring block"), ScaleMistake::kNeighbour},
    std::pair{std::string_view("scale off by a factor of two"), ScaleMistake::kPower},
    std::pair{std::string_view("scales row by row, not in atoms"), ScaleMistake::kRowByRow},
    std::pair{std::string_view("scales from half a block"), ScaleMistake::kHalfBlock}};

/// Rounds a tile of values to MXFP8, row by row, and back. The tile must begin and end at the
/// boundaries of blocks.
void round_in_blocks(const ops::reference::Tile& tile, std::span<double> values,
                     ScaleMistake mistake = ScaleMistake::kNone);

}  // namespace fovea::lab
