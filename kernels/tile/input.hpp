// The types of a product's operands; shared by host and device.
#pragma once

#include <cstdint>

namespace fovea::tile {

enum class Input : std::uint8_t { kBF16, kE4M3, kU8S8, kS8S8 };

}  // namespace fovea::tile
