// Encodes images as PNG.
#pragma once

#include <cstddef>
#include <vector>

#include "image/image.hpp"

namespace fovea::image {

/// Returns the image as a PNG file. Throws fovea::Error if there is not enough memory.
[[nodiscard]] std::vector<std::byte> encode_png(const ImageView& image);

}  // namespace fovea::image
