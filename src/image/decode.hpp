// Encoded image bytes to RGB, equal byte for byte to Pillow's open + exif_transpose +
// convert("RGB"). docs/images.md describes this per format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/memory_pool.hpp"
#include "core/stop.hpp"
#include "fovea/preprocessing.hpp"
#include "image/image.hpp"
#include "image/target_size.hpp"

namespace fovea::image {

/// Pillow's own limit for an error.
inline constexpr std::int64_t kPillowsMaxPixels = 178'956'970;

/// What a caller may ask for as the limit; beyond it, memory is what bounds an image.
inline constexpr std::int64_t kMaxPixelLimit = std::int64_t{1} << 40;

/// The limit on pixels that was asked for, of which 0 stands for Pillow's. Throws for others.
[[nodiscard]] std::int64_t checked_max_pixels(std::int64_t asked);

struct DecodeOptions {
  /// Apply the EXIF orientation, as transformers' load_image does.
  bool apply_orientation = true;
  /// Larger images are refused before memory is taken.
  std::int64_t max_pixels = kPillowsMaxPixels;
  /// When it is set, decoding ends with Interrupted.
  StopFlag stop = {};
  /// Decoding takes its memory (pixels, coefficients, buffers of the format's library; not `bytes`)
  /// from this pool before it allocates, and decode() leaves it with the Image. An image that needs
  /// more than the whole pool is refused.
  MemoryPool* memory = nullptr;
};

/// The size of an image in pixels, after orientation.
struct Size {
  int width = 0;
  int height = 0;
  bool lost_range = false;  // see Image

  friend bool operator==(const Size&, const Size&) = default;
};

/// The format is recognised by content, never by name: JPEG, PNG, WebP, GIF (first frame), BMP,
/// TIFF (first page), HEIC and AVIF (primary image), camera RAW (preview). Throws fovea::Error with
/// the format and the reason. Thread-safe.
[[nodiscard]] Image decode(std::span<const std::byte> bytes, const DecodeOptions& options = {});

/// What decode_resized() has made.
struct Resized {
  Size original;      // that decode() would have given
  TargetSize pixels;  // in the output
};

/// The same pixels as decode() then resize() to target_size(), without ever holding a whole JPEG
/// decoded: rows go to the resize while they are in cache. `out` holds most_target_pixels() * 3
/// bytes, of which the pixels take the first; its content is undefined after an error. Thread-safe;
/// it keeps buffers per thread, so call it from few long-lived threads.
Resized decode_resized(std::span<const std::byte> bytes, const Preprocessing& preprocessing,
                       const DecodeOptions& options, std::span<std::uint8_t> out);

/// The same to `height` x `width`. Returns the original size.
Size decode_resized(std::span<const std::byte> bytes, int height, int width, Resample filter,
                    const DecodeOptions& options, std::span<std::uint8_t> out);

}  // namespace fovea::image
