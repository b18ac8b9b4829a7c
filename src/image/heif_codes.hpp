// Reads the picture size and the number of pictures from HEVC and AV1 data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/stop.hpp"

namespace fovea::image {

/// The size of a coded image, which determines a decoder's memory and time.
struct CodedImage {
  std::uint64_t pixels = 0;    // in the largest declared picture; 0 if there is none
  std::uint64_t pictures = 0;  // 1 for an image, more for a sequence
};

/// Examines a sequence of HEVC NAL units, each preceded by its length in `length_bytes` bytes.
[[nodiscard]] CodedImage examine_hevc(std::span<const std::byte> units, std::size_t length_bytes,
                                      StopFlag stop);

/// Examines a sequence of AV1 open bitstream units (OBUs).
[[nodiscard]] CodedImage examine_av1(std::span<const std::byte> units, StopFlag stop);

}  // namespace fovea::image
