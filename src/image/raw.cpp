// Finds the JPEG preview in a camera's raw file. Raw formats differ, and most are undocumented, but
// all store previews as complete JPEGs, so the file is scanned for these. Raw samples are not
// developed, since the result would depend on arbitrary choices.
#include "image/raw.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/text.hpp"
#include "image/exif.hpp"
#include "image/tiff_directory.hpp"

namespace fovea::image {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kStart = "\xff\xd8\xff"sv;  // with the first byte of the next marker
// Limits on the search for the preview, in markers and fill bytes. Cameras write JPEGs with a few
// dozen markers, and random samples look like the start of a JPEG about once in 16 MB.
constexpr std::size_t kMaxMarkers = std::size_t{1} << 22;
constexpr std::size_t kMaxMarkersPerStream = 1024;

enum JpegMarker : std::uint8_t {
  kBaseline = 0xc0,
  kProgressive = 0xc2,
  kHuffmanTables = 0xc4,
  kExtension = 0xc8,
  kArithmeticTables = 0xcc,
  kFirstRestart = 0xd0,
  kLastRestart = 0xd7,
  kEndOfJpeg = 0xd9,
  kScan = 0xda,
  kQuantization = 0xdb,
  kLines = 0xdc,
  kRestartInterval = 0xdd,
  kFirstApplication = 0xe0,
  kLastApplication = 0xef,
  kComment = 0xfe,
};

/// Whether the marker begins a segment of tables or of metadata.
bool is_table_or_metadata(std::uint8_t marker) {
  return marker == kHuffmanTables || marker == kArithmeticTables || marker == kQuantization ||
         marker == kRestartInterval || marker == kComment ||
         (marker >= kFirstApplication && marker <= kLastApplication);
}

bool is_frame(std::uint8_t marker) {
  return marker >= kBaseline && marker < kFirstRestart && marker != kExtension &&
         !is_table_or_metadata(marker);
}

struct JpegHeader {
  std::size_t end = 0;       // end of the frame header
  std::uint64_t pixels = 0;  // 0 if the frame cannot be a preview
};

class JpegSearch {
 public:
  explicit JpegSearch(Bytes file) : file_(as_text(file)) {}

  /// Returns the position of the next start of a JPEG, or npos.
  [[nodiscard]] std::size_t next_start(std::size_t position, StopFlag stop) const {
    constexpr std::size_t kSearchedBytes = std::size_t{8} << 20;
    for (; position < file_.size(); position += kSearchedBytes) {
      stop.poll();
      const std::string_view part = file_.substr(position, kSearchedBytes + kStart.size() - 1);
      // memmem() is faster than string::find, which stops at each 0xff (overexposed samples).
      const void* found = memmem(part.data(), part.size(), kStart.data(), kStart.size());
      if (found != nullptr) {
        return static_cast<std::size_t>(static_cast<const char*>(found) - file_.data());
      }
    }
    return std::string_view::npos;
  }

  /// Returns the header of the JPEG that starts at `start`, if it is one.
  [[nodiscard]] std::optional<JpegHeader> header(std::size_t start) {
    const std::size_t limit = std::min(kMaxMarkers, work_ + kMaxMarkersPerStream);
    for (std::size_t position = start + 2; work_ < limit; ++work_) {
      if (file_.size() - position < 4 || byte(position) != 0xff) {
        return std::nullopt;
      }
      const std::uint8_t marker = byte(position + 1);
      if (marker == 0xff) {  // bytes 0xff may fill the space before a marker
        ++position;
        continue;
      }
      const std::size_t end = end_of_segment(position);
      if ((!is_table_or_metadata(marker) && !is_frame(marker)) || end == 0) {
        return std::nullopt;
      }
      if (is_frame(marker)) {
        return JpegHeader{end, pixels_of_preview(position, end)};
      }
      position = end;
    }
    return std::nullopt;
  }

  /// Returns the end of the JPEG whose header ends at `position`: after its last marker, or before
  /// bytes that cannot belong to it. The decoder checks later whether it is complete.
  [[nodiscard]] std::size_t end_of_jpeg(std::size_t position, StopFlag stop) const {
    for (;;) {
      stop.poll();
      position = file_.find('\xff', position);
      if (position == std::string_view::npos || file_.size() - position < 2) {
        return file_.size();
      }
      const std::uint8_t marker = byte(position + 1);
      if (marker == 0xff) {
        ++position;
      } else if (marker == 0 || (marker >= kFirstRestart && marker <= kLastRestart)) {
        position += 2;
      } else if (marker == kEndOfJpeg) {
        return position + 2;
      } else {
        const bool is_part = is_table_or_metadata(marker) || marker == kScan || marker == kLines;
        const std::size_t end = is_part ? end_of_segment(position) : 0;
        if (end == 0) {
          return position;
        }
        position = end;
      }
    }
  }

  [[nodiscard]] std::size_t work() const { return work_; }
  [[nodiscard]] bool has_budget() const { return work_ < kMaxMarkers; }
  void count_start() { ++work_; }

 private:
  [[nodiscard]] std::uint8_t byte(std::size_t position) const {
    return static_cast<std::uint8_t>(file_[position]);
  }
  [[nodiscard]] std::size_t two_bytes(std::size_t position) const {
    return std::size_t{byte(position)} << 8 | byte(position + 1);
  }

  /// Returns the end of the segment with its marker at `position`; 0 when it is incomplete.
  [[nodiscard]] std::size_t end_of_segment(std::size_t position) const {
    if (file_.size() - position < 4) {
      return 0;
    }
    const std::size_t size = two_bytes(position + 2);  // includes the two bytes of the size
    return size >= 2 && file_.size() - position - 2 >= size ? position + 2 + size : 0;
  }

  /// Returns the number of pixels of a frame in 8 bits, baseline or progressive, gray or colour; 0
  /// for others, such as the lossless frames of sensor data.
  [[nodiscard]] std::uint64_t pixels_of_preview(std::size_t position, std::size_t end) const {
    if (end - position < 10 || byte(position + 1) > kProgressive || byte(position + 4) != 8) {
      return 0;
    }
    const std::size_t components = byte(position + 9);
    if ((components != 1 && components != kChannels) || end - position != 10 + 3 * components) {
      return 0;
    }
    return std::uint64_t{two_bytes(position + 5)} * two_bytes(position + 7);
  }

  std::string_view file_;
  std::size_t work_ = 0;
};

}  // namespace

RawPreview find_raw_preview(Bytes file, StopFlag stop) {
  const std::vector<std::uint64_t> samples = sample_offsets(file);
  JpegSearch search(file);
  JpegHeader best;
  std::size_t best_start = 0;
  for (std::size_t position = 0; search.has_budget(); search.count_start()) {
    const std::size_t start = search.next_start(position, stop);
    if (start == std::string_view::npos) {
      break;
    }
    const auto header = search.header(start);
    if (header && header->pixels > best.pixels && !std::ranges::binary_search(samples, start)) {
      best = *header;
      best_start = start;
    }
    // JPEGs within a header's segments, such as EXIF thumbnails, are skipped.
    position = header ? header->end : start + 2;
  }
  if (best.pixels == 0) {
    fail("RAW: there is no JPEG preview; export it as JPEG or TIFF");
  }
  const std::size_t end = search.end_of_jpeg(best.end, stop);
  return {.jpeg = file.subspan(best_start, end - best_start),
          .orientation = to_orientation(camera_orientation(file).value_or(1)),
          .work = search.work()};
}

}  // namespace fovea::image
