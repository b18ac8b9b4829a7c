// Draws heat maps over pictures.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "fovea/heat.hpp"

namespace fovea::search {

/// The colour, sRGB, of a share from 0 to 1: from dark violet to light yellow, through red. The
/// lightness grows evenly, so that the order is seen without colours, too.
[[nodiscard]] std::array<std::uint8_t, 3> heat_colour(double share);

/// Replaces `pixels`, uint8 [height, width, 3], by a grey picture under the colours of the map,
/// which is stretched over it smoothly; its least value is 0, its greatest 1. Throws fovea::Error
/// when the map has no values, or not as many as rows times columns.
void draw_heat(const HeatMap& map, int width, int height, std::span<std::uint8_t> pixels);

}  // namespace fovea::search
