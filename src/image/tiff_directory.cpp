// Examines the directories of a TIFF, classic or big, in either byte order.
#include "image/tiff_directory.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <vector>

#include <tiffio.h>

#include "core/error.hpp"

namespace fovea::image {
namespace {

/// The size of one value in bytes, by TIFF type; 0 for unknown types.
constexpr std::uint8_t kTypeSizes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8};

class DirectoryBytes {
 public:
  explicit DirectoryBytes(std::span<const std::byte> bytes)
      : bytes_(bytes), little_(!bytes.empty() && bytes[0] == std::byte{'I'}) {}

  [[nodiscard]] bool has(std::uint64_t offset, std::uint64_t size) const {
    return offset <= bytes_.size() && bytes_.size() - offset >= size;
  }
  /// Returns the number of `size` bytes at `offset`. Requires has(offset, size).
  [[nodiscard]] std::uint64_t number(std::uint64_t offset, std::size_t size) const {
    std::uint64_t value = 0;
    for (std::size_t index = 0; index < size; ++index) {
      value = value << 8 |
              std::to_integer<std::uint64_t>(bytes_[offset + (little_ ? size - 1 - index : index)]);
    }
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  bool little_;
};

struct CameraTiff {
  bool is_raw = false;
  std::vector<std::uint64_t> offsets;  // of strips and tiles that are not complete pictures
};

CameraTiff examine_camera_tiff(std::span<const std::byte> bytes) {
  constexpr std::uint64_t kClassicVersion = 42;
  constexpr std::uint64_t kMaxEntries = 1024;
  constexpr std::uint64_t kMaxChildren = 16;
  constexpr std::uint64_t kMaxOffsets = 65536;
  constexpr std::uint64_t kCanonSignature = 0x5243;  // "CR", little-endian
  constexpr std::uint64_t kLinearRaw = 34892;
  constexpr std::size_t kEntry = 12;
  CameraTiff camera;
  const DirectoryBytes file(bytes);
  if (!file.has(0, 16) || file.number(2, 2) != kClassicVersion) {
    return camera;
  }
  camera.is_raw =
      bytes[0] == std::byte{'I'} && file.number(8, 2) == kCanonSignature && file.number(4, 4) == 16;
  // Appends the numbers of the entry at `position`, whose type is SHORT, LONG or IFD.
  const auto add = [&](std::vector<std::uint64_t>& list, std::uint64_t position,
                       std::uint64_t limit) {
    const std::uint64_t count = file.number(position + 4, 4);
    const std::size_t size = file.number(position + 2, 2) == TIFF_SHORT ? 2 : 4;
    const std::uint64_t first = count <= 4 / size ? position + 8 : file.number(position + 8, 4);
    for (std::uint64_t index = 0; index < std::min(count, limit); ++index) {
      if (file.has(first + index * size, size)) {
        list.push_back(file.number(first + index * size, size));
      }
    }
  };
  std::vector<std::uint64_t> children;
  const auto examine = [&](std::uint64_t position, bool first) {
    if (!file.has(position, 2)) {
      return;
    }
    const std::uint64_t entries = std::min(file.number(position, 2), kMaxEntries);
    position += 2;
    bool is_picture = true;
    std::uint64_t offsets_entry = 0;  // position of the entry for offsets of strips or tiles
    for (std::uint64_t entry = 0; entry < entries && file.has(position, kEntry);
         ++entry, position += kEntry) {
      const std::uint64_t tag = file.number(position, 2);
      const std::uint64_t type = file.number(position + 2, 2);
      const std::uint64_t count = file.number(position + 4, 4);
      const bool is_list = type == TIFF_LONG || type == TIFF_IFD;
      if (tag == TIFFTAG_PHOTOMETRIC && type == TIFF_SHORT) {
        const std::uint64_t photometric = file.number(position + 8, 2);
        is_picture = photometric < PHOTOMETRIC_CFA && photometric != PHOTOMETRIC_MASK;
        camera.is_raw =
            camera.is_raw || photometric == PHOTOMETRIC_CFA || photometric == kLinearRaw;
      } else if (tag == TIFFTAG_STRIPOFFSETS || tag == TIFFTAG_TILEOFFSETS) {
        offsets_entry = is_list || type == TIFF_SHORT ? position : 0;
      } else if (first && tag == TIFFTAG_DNGVERSION && type == TIFF_BYTE && count == 4) {
        camera.is_raw = true;
      } else if (first && tag == TIFFTAG_SUBIFD && is_list) {
        add(children, position, kMaxChildren);
      }
    }
    if (offsets_entry != 0 && (!is_picture || file.number(offsets_entry + 4, 4) > 1)) {
      add(camera.offsets, offsets_entry, kMaxOffsets);
    }
  };
  examine(file.number(4, 4), true);
  children.resize(std::min<std::size_t>(children.size(), kMaxChildren));
  for (const std::uint64_t child : children) {
    examine(child, false);
  }
  return camera;
}

}  // namespace

TiffDirectory check_tiff_directory(std::span<const std::byte> bytes) {
  TiffDirectory directory;
  constexpr std::uint64_t kMaxEntries = 1024;
  constexpr std::uint64_t kExtraData = 65536;
  constexpr std::uint64_t kBigVersion = 43;
  const DirectoryBytes file(bytes);
  if (!file.has(0, 16)) {
    return directory;
  }
  const bool big = file.number(2, 2) == kBigVersion;
  const std::size_t word = big ? 8 : 4;  // size of offsets and counts
  const std::size_t entry_size = 4 + 2 * word;
  const std::size_t count_size = big ? 8 : 2;
  std::uint64_t position = file.number(big ? 8 : 4, word);
  if (!file.has(position, count_size)) {
    return directory;
  }
  const std::uint64_t entries = file.number(position, count_size);
  if (entries > kMaxEntries) {
    fail("TIFF: the directory has {} entries, more than the limit of {}", entries, kMaxEntries);
  }
  position += count_size;
  const std::uint64_t max_data = bytes.size() + kExtraData;
  std::uint64_t data = 0;
  std::set<std::uint64_t> tags;  // only the first entry of each tag counts
  for (std::uint64_t entry = 0; entry < entries && file.has(position, entry_size); ++entry) {
    const std::uint64_t type = file.number(position + 2, 2);
    const std::uint64_t count = file.number(position + 4, word);
    const std::uint64_t value_size = type < std::size(kTypeSizes) ? kTypeSizes[type] : 0;
    const std::uint64_t tag = file.number(position, 2);
    position += entry_size;
    if (!tags.insert(tag).second) {
      continue;
    }
    if (tag == TIFFTAG_STRIPOFFSETS || tag == TIFFTAG_TILEOFFSETS) {
      directory.offsets = count;
    } else if (tag == TIFFTAG_STRIPBYTECOUNTS || tag == TIFFTAG_TILEBYTECOUNTS) {
      directory.sizes = count;
    } else if (tag == TIFFTAG_PHOTOMETRIC && value_size != 0) {
      directory.has_palette =
          file.number(position - word, std::min<std::size_t>(value_size, word)) ==
          PHOTOMETRIC_PALETTE;
    }
    if (value_size == 0 || count <= word / value_size) {
      continue;
    }
    // Entries larger than the file take no memory: libtiff refuses or ignores them.
    if (count <= bytes.size() / value_size) {
      data += count * value_size;
    }
    if (data > max_data) {
      fail("TIFF: the directory's entries together have more data than the file ({} bytes)",
           bytes.size());
    }
  }
  return directory;
}

bool is_camera_raw(std::span<const std::byte> bytes) {
  return examine_camera_tiff(bytes).is_raw;
}

std::vector<std::uint64_t> sample_offsets(std::span<const std::byte> bytes) {
  std::vector<std::uint64_t> offsets = examine_camera_tiff(bytes).offsets;
  std::ranges::sort(offsets);
  return offsets;
}

}  // namespace fovea::image
