// Recognises the format of a file by its content, and names what is not read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace fovea::image {

enum class Format : std::uint8_t { kJpeg, kPng, kWebp, kGif, kBmp, kTiff, kHeif, kRaw };

/// Throws fovea::Error that says what the file is when it is of no format that is read.
[[nodiscard]] Format recognise(std::span<const std::byte> bytes);

}  // namespace fovea::image
