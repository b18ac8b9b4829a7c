// What a HEIF file says of its primary image, read before libheif may decode it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/stop.hpp"

namespace fovea::image {

enum class HeifCodec : std::uint8_t { kHevc, kAv1 };

/// "HEIC" or "AVIF".
[[nodiscard]] std::string_view heif_name(HeifCodec codec);

struct HeifFacts {
  HeifCodec codec = HeifCodec::kHevc;
  /// Pixels of the largest coded image among those that are decoded for the primary one: itself or
  /// its tiles, and its auxiliary images, of which alpha is decoded, too.
  std::uint64_t largest = 0;
  /// The most pictures in one of them; more than one in what was cut out of a video.
  std::uint64_t pictures = 1;
  /// Pixels of all pictures, at most 2^62; a tile counts as often as it is used.
  std::uint64_t work = 0;
  /// Bytes of the largest of them in the file, with its decoder's parameters.
  std::uint64_t largest_bytes = 0;
  /// Gray in 16..235, which libheif does not stretch.
  bool is_limited_gray = false;
  /// A property turns or mirrors the image.
  bool is_turned = false;
};

/// The sizes are those in the coded images themselves, which their decoders allocate, not those in
/// the file's properties. Throws when the boxes are broken, when data of the image is missing, and
/// for images that are made of others in another way than as a grid of tiles.
[[nodiscard]] HeifFacts examine_heif(std::span<const std::byte> bytes, StopFlag stop);

}  // namespace fovea::image
