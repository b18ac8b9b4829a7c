// A scalar implementation of Pillow's resize, the reference for tests of the SIMD one.
#pragma once

#include <cstdint>
#include <span>

#include "fovea/preprocessing.hpp"
#include "image/image.hpp"

namespace fovea::image {

/// Gives the same result as resize(), computed one value at a time with no shared code.
/// `out`: uint8 [height, width, 3].
void reference_resize(const Image& source, int height, int width, Resample filter,
                      std::span<std::uint8_t> out);

}  // namespace fovea::image
