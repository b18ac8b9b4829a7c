// Reads one TIFF tag from hostile input: every access is checked, and nothing is allocated.
#include "image/exif.hpp"

#include <cstdint>
#include <iterator>
#include <string_view>

namespace fovea::image {
namespace {

constexpr std::uint16_t kOrientationTag = 0x0112;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class TagReader {
 public:
  TagReader(std::string_view bytes, bool little) : bytes_(bytes), little_(little) {}

  [[nodiscard]] std::optional<std::uint32_t> number(std::size_t offset, std::size_t size) const {
    if (size == 0 || offset > bytes_.size() || bytes_.size() - offset < size) {
      return std::nullopt;
    }
    std::uint32_t value = 0;
    for (std::size_t index = 0; index < size; ++index) {
      const std::size_t at = offset + (little_ ? size - 1 - index : index);
      value = (value << 8) | static_cast<std::uint8_t>(bytes_[at]);
    }
    return value;
  }

 private:
  std::string_view bytes_;
  bool little_;
};

/// Bytes of one value, by the type's number, of those that can hold an orientation: BYTE, SHORT and
/// LONG (1, 3, 4) and the same with a sign (6, 8, 9).
constexpr std::uint8_t kIntegerSizes[] = {0, 1, 0, 2, 4, 0, 1, 0, 2, 4};

std::size_t integer_size(std::uint32_t type) {
  return type < std::size(kIntegerSizes) ? kIntegerSizes[type] : 0;
}

}  // namespace

std::optional<int> exif_orientation(std::span<const std::byte> exif) {
  using std::string_view_literals::operator""sv;
  std::string_view bytes = text_of(exif);
  for (int prefix = 0; prefix < 2 && bytes.starts_with("Exif\0\0"sv); ++prefix) {
    bytes.remove_prefix(6);
  }
  const bool little = bytes.starts_with("II\x2a\0"sv);
  if (!little && !bytes.starts_with("MM\0\x2a"sv)) {
    return std::nullopt;
  }
  const TagReader reader(bytes, little);
  const auto directory = reader.number(4, 4);
  const auto entries = directory ? reader.number(*directory, 2) : std::nullopt;
  if (!entries) {
    return std::nullopt;
  }
  std::optional<int> orientation;
  for (std::size_t index = 0; index < *entries; ++index) {
    const std::size_t entry = std::size_t{*directory} + 2 + 12 * index;
    const auto tag = reader.number(entry, 2);
    const auto type = reader.number(entry + 2, 2);
    const auto count = reader.number(entry + 4, 4);
    if (!tag || !type || !count || !reader.number(entry + 8, 4)) {
      break;
    }
    const auto value = reader.number(entry + 8, integer_size(*type));
    if (*tag == kOrientationTag && *count == 1 && value) {
      orientation = static_cast<int>(*value);
    }
  }
  return orientation;
}

std::optional<int> xmp_orientation(std::span<const std::byte> xmp) {
  constexpr std::string_view kName = "tiff:Orientation";
  const std::string_view text = text_of(xmp);
  for (std::size_t at = text.find(kName); at != std::string_view::npos;
       at = text.find(kName, at + 1)) {
    std::string_view rest = text.substr(at + kName.size());
    if (rest.starts_with("=\"")) {
      rest.remove_prefix(2);
    } else if (rest.starts_with(">")) {
      rest.remove_prefix(1);
    } else {
      continue;
    }
    if (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') {
      return rest[0] - '0';
    }
  }
  return std::nullopt;
}

Orientation orientation_of(const Metadata& metadata) {
  if (const auto value = exif_orientation(metadata.exif)) {
    return orientation_of(*value);
  }
  return orientation_of(xmp_orientation(metadata.xmp).value_or(1));
}

}  // namespace fovea::image
