// The operand types of matrix products; shared by host and device.
#pragma once

#include <cstdint>

namespace fovea::tile {

/// kMXFP8 is e4m3 with a power-of-two scale for every 32 elements of a row.
enum class Input : std::uint8_t { kBF16, kE4M3, kU8S8, kS8S8, kMXFP8 };

}  // namespace fovea::tile
