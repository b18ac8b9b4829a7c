// The memory that libwebp takes for the Huffman tables of a lossless image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/stop.hpp"

namespace fovea::image {

/// Returns the size in bytes of libwebp's decoding tables for a stream of `width` x `height` pixels
/// that starts after the header of a lossless image (VP8L), or in the chunk of an alpha plane
/// (ALPH). Every set of codes takes about 20 KB, and a file of 300 KB can have 65,536 sets. A
/// broken stream counts as far as it can be read, since libwebp refuses it.
[[nodiscard]] std::uint64_t webp_table_bytes(std::span<const std::byte> stream, std::uint32_t width,
                                             std::uint32_t height, StopFlag stop);

}  // namespace fovea::image
