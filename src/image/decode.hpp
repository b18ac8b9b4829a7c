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

/// The number of pixels above which Pillow raises DecompressionBombError.
inline constexpr std::int64_t kPillowsMaxPixels = 178'956'970;

/// The maximum of DecodeOptions::max_pixels.
inline constexpr std::int64_t kMaxPixelLimit = std::int64_t{1} << 40;

/// Returns `max_pixels`, or Pillow's limit if it is 0. Throws fovea::Error if it is out of range.
[[nodiscard]] std::int64_t checked_max_pixels(std::int64_t max_pixels);

struct DecodeOptions {
  /// Apply the EXIF orientation, as transformers' load_image does.
  bool apply_orientation = true;
  /// Images with more pixels are refused before memory is allocated.
  std::int64_t max_pixels = kPillowsMaxPixels;
  /// Decoding throws Interrupted once this flag is set.
  StopFlag stop = {};
  /// Decoding reserves its memory (pixels, coefficients, buffers of the format's library; not
  /// `bytes`) in this pool before it allocates, and decode() passes the lease on with the Image. An
  /// image that needs more than the whole pool is refused.
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

/// The result of decode_resized().
struct Resized {
  Size original;      // the size of the image from decode()
  TargetSize pixels;  // the size of the output
};

/// Computes the same pixels as decode() and then resize() to target_size(), but never keeps a whole
/// decoded JPEG: rows are resized while they are in cache. `out` has max_target_pixels() * 3 bytes;
/// the pixels are written to its start, and its content is undefined after an error. Thread-safe,
/// but keeps buffers for each thread, so that it should be called from few long-lived threads.
Resized decode_resized(std::span<const std::byte> bytes, const Preprocessing& preprocessing,
                       const DecodeOptions& options, std::span<std::uint8_t> out);

/// The same with `height` x `width` as the target size. Returns the original size.
Size decode_resized(std::span<const std::byte> bytes, int height, int width, Resample filter,
                    const DecodeOptions& options, std::span<std::uint8_t> out);

}  // namespace fovea::image
