// Encoded image bytes to RGB, equal byte for byte to Pillow's open + exif_transpose +
// convert("RGB"). docs/images.md says what that means for each format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/memory_pool.hpp"
#include "core/stop.hpp"
#include "fovea/preprocessing.hpp"
#include "image/image.hpp"

namespace fovea::image {

struct DecodeOptions {
  /// Apply the EXIF orientation, as transformers' load_image does.
  bool apply_orientation = true;
  /// Larger images are refused before memory is taken. Pillow's own limit for an error.
  std::int64_t max_pixels = 178'956'970;
  /// Ends the decoding with Interrupted when it is set.
  StopFlag stop = {};
  /// Where the memory of a decoding (pixels, coefficients, a format library's buffers; not `bytes`)
  /// is taken from before it is allocated. An image that needs more than the whole pool is refused.
  MemoryPool* memory = nullptr;
};

/// Pixels of an image, after orientation.
struct Size {
  int width = 0;
  int height = 0;

  friend bool operator==(const Size&, const Size&) = default;
};

/// The format is recognised by content, never by name: JPEG, PNG, WebP, GIF (first frame), BMP,
/// TIFF (first page). Throws fovea::Error saying the format and what is wrong. Thread-safe.
[[nodiscard]] Image decode(std::span<const std::byte> bytes, const DecodeOptions& options = {});

/// The same pixels as decode() then resize(), without ever holding a whole JPEG decoded: rows go
/// to the resize while they are in cache. `out` holds height * width * 3 bytes; its content is
/// undefined after an error. Returns the size that decode() would have given. Thread-safe; keeps
/// its buffers a thread, so call it from few long-lived threads.
Size decode_resized(std::span<const std::byte> bytes, int height, int width, Resample filter,
                    const DecodeOptions& options, std::span<std::uint8_t> out);

}  // namespace fovea::image
