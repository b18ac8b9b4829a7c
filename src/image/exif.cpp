// Reads a few TIFF tags from hostile input: every access is checked, and directories are not
// copied. python-pillow@4e5f09f src/PIL/TiffImagePlugin.py: ImageFileDirectory_v2.
#include "image/exif.hpp"

#include <algorithm>
#include <bit>
#include <bitset>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "core/text.hpp"

namespace fovea::image {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::uint32_t kOrientationTag = 0x0112;
constexpr std::uint32_t kXmpTag = 700;

class TagReader {
 public:
  TagReader(std::string_view bytes, bool little, bool big = false)
      : bytes_(bytes), little_(little), big_(big) {}

  [[nodiscard]] bool has(std::uint64_t offset, std::uint64_t size) const {
    return offset <= bytes_.size() && bytes_.size() - offset >= size;
  }
  [[nodiscard]] std::optional<std::uint64_t> number(std::uint64_t offset, std::size_t size) const {
    if (size == 0 || !has(offset, size)) {
      return std::nullopt;
    }
    std::uint64_t value = 0;
    for (std::size_t index = 0; index < size; ++index) {
      const std::size_t position = offset + (little_ ? size - 1 - index : index);
      value = (value << 8) | static_cast<std::uint8_t>(bytes_[position]);
    }
    return value;
  }

  [[nodiscard]] std::string_view bytes() const { return bytes_; }
  /// The size of an offset or a count in bytes: 8 in a BigTIFF.
  [[nodiscard]] std::size_t word() const { return big_ ? 8 : 4; }
  /// The size in bytes of the field that counts a directory's entries.
  [[nodiscard]] std::size_t count_size() const { return big_ ? 8 : 2; }
  /// The offset of the first directory.
  [[nodiscard]] std::optional<std::uint64_t> first() const { return number(word(), word()); }

 private:
  std::string_view bytes_;
  bool little_;
  bool big_;
};

// Returns a reader for bytes that begin like a TIFF file, as EXIF data does.
std::optional<TagReader> open_tiff(std::string_view bytes) {
  const bool little = bytes.starts_with("II\x2a\0"sv);
  if (!little && !bytes.starts_with("MM\0\x2a"sv)) {
    return std::nullopt;
  }
  return TagReader(bytes, little);
}

enum Type : std::uint32_t {
  kByte = 1,
  kText = 2,
  kShort = 3,
  kLong = 4,
  kRational = 5,
  kSignedByte = 6,
  kUndefined = 7,
  kSignedShort = 8,
  kSignedLong = 9,
  kSignedRational = 10,
  kFloat = 11,
  kDouble = 12,
  kIfd = 13,
  kLong8 = 16,
};

/// The size of one value in bytes, by TIFF type; 0 for types that Pillow skips.
constexpr std::uint8_t kSizes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8};

struct ExifEntry {
  std::uint64_t value = 0;  // the offset of the value or of its offset
  std::uint32_t tag = 0;
  std::uint32_t type = 0;
  std::uint64_t count = 0;
};

// Calls use(entry) for each complete entry of a directory, until it returns false.
template <typename Use>
void for_each_entry(const TagReader& reader, std::optional<std::uint64_t> directory,
                    const Use& use) {
  const std::size_t word = reader.word();
  const std::uint64_t entry_size = 4 + 2 * word;
  const auto entries = directory ? reader.number(*directory, reader.count_size()) : std::nullopt;
  std::uint64_t position = entries ? *directory + reader.count_size() : 0;
  for (std::uint64_t index = 0; index < entries.value_or(0) && reader.has(position, entry_size);
       ++index, position += entry_size) {
    const ExifEntry entry{
        .value = position + 4 + word,
        .tag = static_cast<std::uint32_t>(reader.number(position, 2).value_or(0)),
        .type = static_cast<std::uint32_t>(reader.number(position + 2, 2).value_or(0)),
        .count = reader.number(position + 4, word).value_or(0)};
    if (!use(entry)) {
      return;
    }
  }
}

struct Field {
  std::uint32_t type = 0;
  std::uint64_t offset = 0;  // offset of the first value
  std::uint64_t size = 0;    // size of all values in bytes, at least one
};

/// Finds a tag as Pillow does: the first entry counts. Entries are skipped once their data exceed
/// the file's size in total, and an entry whose data lie past the end of the file ends the
/// directory.
std::optional<Field> find_field(const TagReader& reader, std::uint32_t tag) {
  const std::uint64_t limit = reader.bytes().size();
  std::bitset<65536> kept;
  std::uint64_t total = 0;
  std::optional<Field> found;
  for_each_entry(reader, reader.first(), [&](const ExifEntry& entry) {
    const std::uint64_t unit = entry.type < std::size(kSizes) ? kSizes[entry.type] : 0;
    if (kept[entry.tag] || unit == 0 || entry.count == 0) {
      return true;
    }
    Field field{entry.type, entry.value, 0};
    if (entry.count > reader.word() / unit) {
      field.size = entry.count > limit / unit ? limit + 1 : entry.count * unit;
      total = std::min(limit + 1, total + field.size);
      if (total > limit) {
        return true;
      }
      field.offset = *reader.number(entry.value, reader.word());
    } else {
      field.size = entry.count * unit;
    }
    if (!reader.has(field.offset, field.size)) {
      return false;
    }
    kept.set(entry.tag);
    if (entry.tag == tag) {
      found = field;
    }
    return !found.has_value();
  });
  return found;
}

/// Returns the first value of a field, or 0 when it holds bytes or text, as in Pillow.
double first_number(const TagReader& reader, const Field& field) {
  const auto number = [&](std::uint64_t position, std::size_t size) {
    return reader.number(field.offset + position, size).value_or(0);
  };
  const auto part = [&](std::uint64_t position) {
    return static_cast<std::uint32_t>(number(position, 4));
  };
  switch (field.type) {
    case kShort:
      return static_cast<double>(number(0, 2));
    case kLong:
    case kIfd:
      return part(0);
    case kLong8:
      return static_cast<double>(number(0, 8));
    case kRational:
      return static_cast<double>(part(0)) / static_cast<double>(part(4));
    case kSignedByte:
      return static_cast<std::int8_t>(number(0, 1));
    case kSignedShort:
      return static_cast<std::int16_t>(number(0, 2));
    case kSignedLong:
      return static_cast<std::int32_t>(part(0));
    case kSignedRational:
      return static_cast<double>(static_cast<std::int32_t>(part(0))) /
             static_cast<double>(static_cast<std::int32_t>(part(4)));
    case kFloat:
      return std::bit_cast<float>(part(0));
    case kDouble:
      return std::bit_cast<double>(number(0, 8));
    default:
      return 0;
  }
}

/// Returns the EXIF orientation (1 to 8); other values give 1, upright.
std::optional<int> read_orientation_tag(const TagReader& reader) {
  const auto field = find_field(reader, kOrientationTag);
  if (!field) {
    return std::nullopt;
  }
  const double value = first_number(reader, *field);
  return value >= 1 && value <= 8 && value == std::floor(value) ? static_cast<int>(value) : 1;
}

// Returns an EXIF date such as "2024:05:01 12:30:00" with dashes in its date part, or "" when the
// text has another form (blanks and zeros are common).
std::string parse_date(std::string_view text) {
  constexpr std::string_view kPattern = "0000:00:00 00:00:00";
  std::string date(text.substr(0, kPattern.size()));
  if (date.size() < kPattern.size() || date.starts_with("0000")) {
    return "";
  }
  for (std::size_t index = 0; index < kPattern.size(); ++index) {
    if (kPattern[index] == '0' ? date[index] < '0' || date[index] > '9'
                               : date[index] != kPattern[index]) {
      return "";
    }
  }
  date[4] = '-';
  date[7] = '-';
  return date;
}

// Returns DateTimeOriginal from the EXIF directory.
std::string find_date(std::string_view tiff) {
  constexpr std::uint32_t kExifDirectory = 0x8769;
  constexpr std::uint32_t kDateTimeOriginal = 0x9003;
  std::string date;
  if (const auto reader = open_tiff(tiff)) {
    std::optional<std::uint64_t> directory;
    for_each_entry(*reader, reader->first(), [&](const ExifEntry& entry) {
      if (entry.tag == kExifDirectory) {
        directory = reader->number(entry.value, 4);
      }
      return true;
    });
    for_each_entry(*reader, directory, [&](const ExifEntry& entry) {
      const auto date_offset = reader->number(entry.value, 4);
      if (entry.tag == kDateTimeOriginal && entry.type == kText && date_offset &&
          *date_offset < tiff.size()) {
        date = parse_date(tiff.substr(*date_offset, entry.count));
      }
      return true;
    });
  }
  return date;
}

}  // namespace

std::optional<int> exif_orientation(std::span<const std::byte> exif) {
  std::string_view bytes = as_text(exif);
  for (int prefix = 0; prefix < 2 && bytes.starts_with("Exif\0\0"sv); ++prefix) {
    bytes.remove_prefix(6);
  }
  if (bytes.empty()) {
    return std::nullopt;
  }
  // Byte order marks and versions that Pillow accepts; in two, the bytes of the version are
  // swapped.
  constexpr std::string_view kStarts[] = {"II\x2a\0"sv, "MM\0\x2a"sv, "MM\x2a\0"sv, "II\0\x2a"sv,
                                          "MM\0\x2b"sv};
  const bool is_known = std::ranges::any_of(
      kStarts, [bytes](std::string_view start) { return bytes.starts_with(start); });
  constexpr std::size_t kHeader = 8;
  return is_known && bytes.size() >= kHeader
             ? read_orientation_tag(TagReader(bytes, bytes[0] == 'I'))
             : 1;
}

std::optional<int> tiff_orientation(std::span<const std::byte> file) {
  const std::string_view bytes = as_text(file);
  const bool big = bytes.starts_with("II\x2b\0"sv) || bytes.starts_with("MM\0\x2b"sv);
  const TagReader reader(bytes, bytes.starts_with('I'), big);
  if (const auto value = read_orientation_tag(reader)) {
    return value;
  }
  const auto xmp = find_field(reader, kXmpTag);
  if (!xmp || (xmp->type != kByte && xmp->type != kUndefined)) {
    return std::nullopt;
  }
  return xmp_orientation(file.subspan(xmp->offset, xmp->size));
}

std::optional<int> camera_orientation(std::span<const std::byte> file) {
  constexpr std::size_t kSearchedBytes = std::size_t{1} << 20;
  const std::string_view bytes = as_text(file);
  if (bytes.starts_with("II") ||
      bytes.starts_with("MM")) {  // not open_tiff(): ORF, RW2 have other versions
    return read_orientation_tag(TagReader(bytes, bytes[0] == 'I'));
  }
  for (std::size_t position = 0; position < std::min(bytes.size(), kSearchedBytes); ++position) {
    if (const auto reader = open_tiff(bytes.substr(position))) {
      return read_orientation_tag(*reader);
    }
  }
  return std::nullopt;
}

std::string capture_date(std::span<const std::byte> part) {
  // Tries each TIFF header, since containers have no common marker before EXIF data ("Exif" also
  // names other boxes in HEIC).
  constexpr int kMaxTries = 64;
  const std::string_view bytes = as_text(part);
  std::string date;
  int tried = 0;
  for (std::size_t position = 0; position < bytes.size() && tried < kMaxTries && date.empty();
       ++position) {
    if (open_tiff(bytes.substr(position))) {
      date = find_date(bytes.substr(position));
      ++tried;
    }
  }
  return date;
}

std::optional<int> xmp_orientation(std::span<const std::byte> xmp) {
  constexpr std::string_view kName = "tiff:Orientation";
  const std::string_view text = as_text(xmp);
  for (std::size_t position = text.find(kName); position != std::string_view::npos;
       position = text.find(kName, position + 1)) {
    std::string_view rest = text.substr(position + kName.size());
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

Orientation to_orientation(const Metadata& metadata, Orientation default_orientation) {
  auto value = exif_orientation(metadata.exif);
  if (!value) {
    value = xmp_orientation(metadata.xmp);
  }
  return value ? to_orientation(*value) : default_orientation;
}

}  // namespace fovea::image
