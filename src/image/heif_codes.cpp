// Reads sequence parameter sets of HEVC (ITU-T H.265, 7.3.2.2) and sequence headers of AV1 (5.5.1).
#include "image/heif_codes.hpp"

#include <algorithm>
#include <vector>

namespace fovea::image {
namespace {

/// Reads a stream of bits, in which bits past the end are zeros.
class CodeReader {
 public:
  explicit CodeReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint64_t bits(std::size_t count) {
    std::uint64_t value = 0;
    for (; count > 0; --count, ++position_) {
      const bool is_inside = position_ / 8 < bytes_.size();
      const unsigned byte = is_inside ? std::to_integer<unsigned>(bytes_[position_ / 8]) : 0U;
      value = value << 1 | (byte >> (7 - position_ % 8) & 1U);
    }
    return value;
  }
  bool bit() { return bits(1) != 0; }
  void skip(std::size_t count) { position_ += count; }

  /// Reads an unsigned Exp-Golomb code: ue(v) in H.265, 9.2.
  std::uint64_t golomb() {
    std::size_t zeros = 0;
    while (zeros < 32 && !bit()) {
      ++zeros;
    }
    return (std::uint64_t{1} << zeros) - 1 + bits(zeros);
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
};

/// Returns the unit without its emulation prevention bytes.
std::vector<std::byte> without_emulation(std::span<const std::byte> unit) {
  constexpr std::byte kZero{0};
  std::vector<std::byte> plain;
  for (std::size_t index = 0; index < unit.size(); ++index) {
    const bool is_extra = index >= 2 && unit[index] == std::byte{3} && unit[index - 1] == kZero &&
                          unit[index - 2] == kZero;
    if (!is_extra) {
      plain.push_back(unit[index]);
    }
  }
  return plain;
}

std::uint64_t area(std::uint64_t width, std::uint64_t height) {
  constexpr std::uint64_t kMaxExtent = std::uint64_t{1} << 31;
  return std::min(width, kMaxExtent) * std::min(height, kMaxExtent);
}

std::uint64_t parameter_set_pixels(std::span<const std::byte> unit) {
  // The size follows the profiles of sub-layers, which take at most 700 bits.
  constexpr std::size_t kMaxBytes = 256;
  const std::vector<std::byte> plain =
      without_emulation(unit.first(std::min(kMaxBytes, unit.size())));
  CodeReader reader(plain);
  reader.skip(4);
  const std::uint64_t sub_layers = reader.bits(3);  // number minus one
  reader.skip(1 + 96);                              // the general profile and level
  std::uint64_t profiles = 0;
  std::uint64_t levels = 0;
  for (std::uint64_t layer = 0; layer < (sub_layers > 0 ? 8 : 0); ++layer) {
    const bool has_profile = reader.bit();
    const bool has_level = reader.bit();
    profiles += layer < sub_layers && has_profile ? 1 : 0;
    levels += layer < sub_layers && has_level ? 1 : 0;
  }
  reader.skip(static_cast<std::size_t>(profiles * 88 + levels * 8));
  reader.golomb();  // the set's number
  constexpr std::uint64_t kChroma444 = 3;
  if (reader.golomb() == kChroma444) {
    reader.skip(1);
  }
  const std::uint64_t width = reader.golomb();
  return area(width, reader.golomb());
}

std::uint64_t sequence_header_pixels(std::span<const std::byte> unit) {
  CodeReader reader(unit);
  reader.skip(4);  // the profile, and whether it is a still picture
  const bool is_reduced = reader.bit();
  if (is_reduced) {
    reader.skip(5);
  } else {
    std::size_t delay_bits = 0;
    bool has_model = false;
    if (reader.bit()) {  // timing
      reader.skip(64);
      if (reader.bit()) {
        reader.golomb();
      }
      has_model = reader.bit();
      if (has_model) {
        delay_bits = static_cast<std::size_t>(reader.bits(5)) + 1;
        reader.skip(32 + 5 + 5);
      }
    }
    const bool has_delay = reader.bit();
    const std::uint64_t points = reader.bits(5) + 1;
    for (std::uint64_t point = 0; point < points; ++point) {
      reader.skip(12);
      constexpr std::uint64_t kLevelsWithoutTier = 7;
      if (reader.bits(5) > kLevelsWithoutTier) {
        reader.skip(1);
      }
      if (has_model && reader.bit()) {
        reader.skip(2 * delay_bits + 1);
      }
      if (has_delay && reader.bit()) {
        reader.skip(4);
      }
    }
  }
  const auto width_bits = static_cast<std::size_t>(reader.bits(4)) + 1;
  const auto height_bits = static_cast<std::size_t>(reader.bits(4)) + 1;
  const std::uint64_t width = reader.bits(width_bits) + 1;
  return width * (reader.bits(height_bits) + 1);
}

}  // namespace

CodedImage examine_hevc(std::span<const std::byte> units, std::size_t length_bytes, StopFlag stop) {
  constexpr unsigned kParameterSet = 33;
  constexpr unsigned kSlices = 32;  // types below are slices
  constexpr std::byte kFirstSlice{128};
  constexpr std::size_t kHeader = 2;
  CodedImage image;
  while (units.size() >= length_bytes + kHeader) {
    stop.poll();
    std::size_t length = 0;
    for (std::size_t byte = 0; byte < length_bytes; ++byte) {
      length = length << 8 | std::to_integer<std::size_t>(units[byte]);
    }
    units = units.subspan(length_bytes);
    const auto unit = units.first(std::min(length, units.size()));
    units = units.subspan(unit.size());
    if (unit.size() <= kHeader) {
      continue;
    }
    const unsigned type = std::to_integer<unsigned>(unit[0]) >> 1 & 63U;
    if (type == kParameterSet) {
      image.pixels = std::max(image.pixels, parameter_set_pixels(unit.subspan(kHeader)));
    } else if (type < kSlices && (unit[kHeader] & kFirstSlice) != std::byte{0}) {
      ++image.pictures;
    }
  }
  return image;
}

CodedImage examine_av1(std::span<const std::byte> units, StopFlag stop) {
  constexpr std::uint64_t kSequenceHeader = 1;
  constexpr std::uint64_t kFrameHeader = 3;
  constexpr std::uint64_t kFrame = 6;
  CodedImage image;
  while (!units.empty()) {
    stop.poll();
    CodeReader reader(units);
    reader.skip(1);
    const std::uint64_t type = reader.bits(4);
    const bool is_extended = reader.bit();
    const bool has_size = reader.bit();
    std::size_t position = is_extended ? 2 : 1;
    std::uint64_t size = units.size();
    if (has_size) {
      size = 0;
      for (unsigned shift = 0; shift < 56 && position < units.size(); shift += 7) {
        const auto byte = std::to_integer<std::uint64_t>(units[position++]);
        size |= (byte & 127U) << shift;
        if (byte < 128) {
          break;
        }
      }
    }
    units = units.subspan(std::min(position, units.size()));
    const auto unit =
        units.first(static_cast<std::size_t>(std::min<std::uint64_t>(size, units.size())));
    units = units.subspan(unit.size());
    if (type == kSequenceHeader) {
      image.pixels = std::max(image.pixels, sequence_header_pixels(unit));
    } else if (type == kFrameHeader || type == kFrame) {
      ++image.pictures;
    }
  }
  return image;
}

}  // namespace fovea::image
