// The chunks of a PNG that are not pixels, read by Pillow's rules.
#pragma once

#include <cstddef>
#include <span>

#include "core/stop.hpp"
#include "image/orientation.hpp"

namespace fovea::image {

/// Walks the chunks before the pixels and after them. Throws where Pillow raises: text that
/// decompresses to more than 1 MiB per chunk or 64 MiB in all, chunks that are cut short, wrong
/// checksums before the pixels, frames of an animation out of order. Returns the orientation in
/// the metadata. libpng reports errors in the header and the pixels.
[[nodiscard]] Orientation read_png_chunks(std::span<const std::byte> bytes, StopFlag stop);

}  // namespace fovea::image
