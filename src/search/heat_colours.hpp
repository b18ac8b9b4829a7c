// Draws heat maps over pictures.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "fovea/heat.hpp"

namespace fovea::search {

/// Returns the sRGB colour of a share from 0 to 1: from dark violet over red to light yellow. The
/// lightness increases evenly, so that the order is visible without colours, too.
[[nodiscard]] std::array<std::uint8_t, 3> heat_colour(double share);

/// Replaces `pixels`, uint8 [height, width, 3], by a grey picture that is blended with the colours
/// of the map. The map is interpolated to the size of the picture, and its values are scaled to the
/// range from 0 to 1. Throws fovea::Error when the map is empty or has the wrong number of values.
void draw_heat(const HeatMap& map, int width, int height, std::span<std::uint8_t> pixels);

}  // namespace fovea::search
