// Checks a TIFF's directories before libtiff reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fovea::image {

struct TiffDirectory {
  /// The lengths of the arrays with the offsets and the sizes of strips or tiles; 0 when there is
  /// no such array.
  std::uint64_t offsets = 0;
  std::uint64_t sizes = 0;
  /// Whether the pixels are indices of a palette. libtiff interprets them as gray if the palette
  /// has another number of colours.
  bool has_palette = false;
};

/// Throws when the first directory has so many entries, or so much data, that reading it would take
/// minutes or gigabytes: libtiff sorts its list of tags for every unknown tag, and keeps the data
/// of each. All other checks are left to libtiff.
TiffDirectory check_tiff_directory(std::span<const std::byte> bytes);

/// Whether a TIFF is a camera's raw image (CR2, DNG, NEF, ARW, PEF, SRW and others): it has such a
/// signature or the tag DNGVersion, or one of its directories has the samples of a sensor.
[[nodiscard]] bool is_camera_raw(std::span<const std::byte> bytes);

/// Returns the sorted offsets of strips and tiles in a camera's raw file that are no complete
/// pictures: the sensor's samples, masks, depth maps, and parts of pictures. A DNG may store them
/// as ordinary JPEGs. Empty for other files.
[[nodiscard]] std::vector<std::uint64_t> sample_offsets(std::span<const std::byte> bytes);

}  // namespace fovea::image
