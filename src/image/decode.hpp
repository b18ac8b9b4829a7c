// Encoded image bytes to RGB, equal byte for byte to Pillow's open + exif_transpose +
// convert("RGB").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "image/image.hpp"

namespace fovea::image {

struct DecodeOptions {
  /// Apply the EXIF orientation, as transformers' load_image does.
  bool apply_orientation = true;
  /// Larger images are refused before memory is taken. Pillow's own limit for an error.
  std::int64_t max_pixels = 178'956'970;
};

/// The format is recognised by content, never by name: JPEG, PNG, WebP, GIF (first frame), BMP,
/// TIFF (first page). Throws fovea::Error saying the format and what is wrong. Thread-safe.
[[nodiscard]] Image decode(std::span<const std::byte> bytes, const DecodeOptions& options = {});

}  // namespace fovea::image
