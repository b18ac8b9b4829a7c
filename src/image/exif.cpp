// Reads a few TIFF tags from hostile input: every access is checked, and directories are not
// copied.
#include "image/exif.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

namespace fovea::image {
namespace {

using std::string_view_literals::operator""sv;

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

// A reader of a TIFF file, which EXIF is, if it begins like one.
std::optional<TagReader> open_tiff(std::string_view bytes) {
  const bool little = bytes.starts_with("II\x2a\0"sv);
  if (!little && !bytes.starts_with("MM\0\x2a"sv)) {
    return std::nullopt;
  }
  return TagReader(bytes, little);
}

struct ExifEntry {
  std::size_t value = 0;  // the offset of the value or of its offset
  std::uint32_t tag = 0;
  std::uint32_t type = 0;
  std::uint32_t count = 0;
};

// Calls use(entry) for each entry of a directory that the bytes hold whole.
template <typename Use>
void for_each_entry(const TagReader& reader, std::optional<std::uint32_t> directory,
                    const Use& use) {
  if (!directory) {
    return;
  }
  const std::uint32_t entries = reader.number(*directory, 2).value_or(0);
  for (std::size_t index = 0; index < entries; ++index) {
    const std::size_t entry = std::size_t{*directory} + 2 + 12 * index;
    const auto tag = reader.number(entry, 2);
    const auto type = reader.number(entry + 2, 2);
    const auto count = reader.number(entry + 4, 4);
    if (!tag || !type || !count || !reader.number(entry + 8, 4)) {
      return;
    }
    use(ExifEntry{entry + 8, *tag, *type, *count});
  }
}

std::optional<int> orientation_in(const TagReader& reader) {
  std::optional<int> orientation;
  for_each_entry(reader, reader.number(4, 4), [&](const ExifEntry& entry) {
    const auto value = reader.number(entry.value, integer_size(entry.type));
    if (entry.tag == kOrientationTag && entry.count == 1 && value) {
      orientation = static_cast<int>(*value);
    }
  });
  return orientation;
}

// "2024:05:01 12:30:00" with dashes in its date; "" for anything else, such as blanks and zeros.
std::string date_of(std::string_view text) {
  constexpr std::string_view kForm = "0000:00:00 00:00:00";
  std::string date(text.substr(0, kForm.size()));
  if (date.size() < kForm.size() || date.starts_with("0000")) {
    return "";
  }
  for (std::size_t at = 0; at < kForm.size(); ++at) {
    if (kForm[at] == '0' ? date[at] < '0' || date[at] > '9' : date[at] != kForm[at]) {
      return "";
    }
  }
  date[4] = '-';
  date[7] = '-';
  return date;
}

// DateTimeOriginal of the EXIF directory.
std::string date_in(std::string_view tiff) {
  constexpr std::uint32_t kExifDirectory = 0x8769;
  constexpr std::uint32_t kDateTimeOriginal = 0x9003;
  constexpr std::uint32_t kText = 2;
  std::string date;
  if (const auto reader = open_tiff(tiff)) {
    std::optional<std::uint32_t> directory;
    for_each_entry(*reader, reader->number(4, 4), [&](const ExifEntry& entry) {
      if (entry.tag == kExifDirectory) {
        directory = reader->number(entry.value, 4);
      }
    });
    for_each_entry(*reader, directory, [&](const ExifEntry& entry) {
      const auto at = reader->number(entry.value, 4);
      if (entry.tag == kDateTimeOriginal && entry.type == kText && at && *at < tiff.size()) {
        date = date_of(tiff.substr(*at, entry.count));
      }
    });
  }
  return date;
}

}  // namespace

std::optional<int> exif_orientation(std::span<const std::byte> exif) {
  std::string_view bytes = text_of(exif);
  for (int prefix = 0; prefix < 2 && bytes.starts_with("Exif\0\0"sv); ++prefix) {
    bytes.remove_prefix(6);
  }
  const auto reader = open_tiff(bytes);
  return reader ? orientation_in(*reader) : std::nullopt;
}

std::optional<int> camera_orientation(std::span<const std::byte> file) {
  constexpr std::size_t kLooked = std::size_t{1} << 20;
  const std::string_view bytes = text_of(file);
  if (bytes.starts_with("II") || bytes.starts_with("MM")) {  // ORF and RW2 have other versions
    return orientation_in(TagReader(bytes, bytes[0] == 'I'));
  }
  for (std::size_t at = 0; at < std::min(bytes.size(), kLooked); ++at) {
    if (const auto reader = open_tiff(bytes.substr(at))) {
      return orientation_in(*reader);
    }
  }
  return std::nullopt;
}

std::string capture_date(std::span<const std::byte> part) {
  // No mark before the data is common to all containers: "Exif" names other things in HEIC, too.
  constexpr int kMostTried = 64;
  const std::string_view bytes = text_of(part);
  std::string date;
  int tried = 0;
  for (std::size_t at = 0; at < bytes.size() && tried < kMostTried && date.empty(); ++at) {
    if (open_tiff(bytes.substr(at))) {
      date = date_in(bytes.substr(at));
      ++tried;
    }
  }
  return date;
}

std::optional<int> xmp_orientation(std::span<const std::byte> xmp) {
  constexpr std::string_view kName = "tiff:Orientation";
  const std::string_view text = text_of(xmp);
  for (std::size_t at = text.find(kName); at != std::string_view::npos;
       at = text.find(kName, at + 1)) {
    std::string_view rest = text.substr(at + kName.size());
    if (rest.starts_with("=\"")) {
      rest.remove_prefix(2);
    } else if (rest.starts_with('>')) {
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

Orientation orientation_of(const Metadata& metadata, Orientation otherwise) {
  auto value = exif_orientation(metadata.exif);
  if (!value) {
    value = xmp_orientation(metadata.xmp);
  }
  return value ? orientation_of(*value) : otherwise;
}

}  // namespace fovea::image
