// The size and the number of pictures in the data of a codec.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/stop.hpp"

namespace fovea::image {

/// What a decoder will allocate and work for.
struct CodedImage {
  std::uint64_t pixels = 0;    // of the largest picture that is declared; 0 when none is
  std::uint64_t pictures = 0;  // of which an image has one, and a sequence more
};

/// A sequence of HEVC's NAL units, each after its length in `length_bytes` bytes.
[[nodiscard]] CodedImage examine_hevc(std::span<const std::byte> units, std::size_t length_bytes,
                                      StopFlag stop);

/// A sequence of AV1's open bitstream units.
[[nodiscard]] CodedImage examine_av1(std::span<const std::byte> units, StopFlag stop);

}  // namespace fovea::image
