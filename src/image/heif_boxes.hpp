// Reads the properties of a HEIF file's primary image, to check it before libheif decodes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/stop.hpp"

namespace fovea::image {

enum class HeifCodec : std::uint8_t { kHevc, kAv1 };

/// Returns "HEIC" or "AVIF".
[[nodiscard]] std::string_view heif_name(HeifCodec codec);

struct HeifFacts {
  HeifCodec codec = HeifCodec::kHevc;
  /// Pixels of the largest coded image that is decoded for the primary image: the image itself or
  /// one of its tiles, or an auxiliary image, since alpha is decoded, too.
  std::uint64_t largest = 0;
  /// The maximum number of pictures in one of the coded images; more than one in video clips.
  std::uint64_t pictures = 1;
  /// Pixels of all pictures, at most 2^62; a tile counts as often as it is used.
  std::uint64_t work = 0;
  /// Maximum encoded bytes of a coded image, including the decoder's parameters.
  std::uint64_t largest_bytes = 0;
  /// Whether gray is in limited range, 16..235, which libheif does not expand.
  bool is_limited_gray = false;
  /// Whether a property rotates or mirrors the image.
  bool is_turned = false;
};

/// Examines the primary image. Sizes are read from the coded images instead of the file's
/// properties, since they determine how much memory the decoders allocate. Throws if the boxes are
/// broken or image data is missing, and for derived images other than grids of tiles.
[[nodiscard]] HeifFacts examine_heif(std::span<const std::byte> bytes, StopFlag stop);

}  // namespace fovea::image
