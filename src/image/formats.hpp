// Recognises the format of an image file by its content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace fovea::image {

enum class Format : std::uint8_t { kJpeg, kPng, kWebp, kGif, kBmp, kTiff, kHeif, kRaw };

/// Returns the format of a file. Throws fovea::Error for an unsupported file, with the file's
/// format if it is known.
[[nodiscard]] Format recognise(std::span<const std::byte> bytes);

}  // namespace fovea::image
