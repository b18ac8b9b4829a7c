// Heat maps: where in an image a text applies.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "fovea/images.hpp"

namespace [[gnu::visibility("default")]] fovea {

/// A value for each patch of an image, [rows, columns], the top row first. The patches cover the
/// whole image, so for a model of fixed resolution they have the proportions of the image.
struct HeatMap {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<float> values;  ///< cosines; see Encoder::heat
};

/// Draws a map over its image, upright and of the image's size, and writes that as PNG: the image
/// in grey under colours from dark violet, the minimum of the map, to light yellow, the
/// maximum. Throws fovea::Error when the image cannot be read or the file cannot be written.
/// `max_pixels`: as in Encoder::heat.
void write_heat(const ImageInput& image, const HeatMap& map, const std::filesystem::path& png,
                std::int64_t max_pixels = 0);

}  // namespace fovea
