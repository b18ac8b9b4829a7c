// Encodes images as PNG.
#pragma once

#include <cstddef>
#include <vector>

#include "image/image.hpp"

namespace fovea::image {

/// The bytes of a PNG file. Throws fovea::Error when there is not enough memory.
[[nodiscard]] std::vector<std::byte> encode_png(const ImageView& image);

}  // namespace fovea::image
