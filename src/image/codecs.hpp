// What decode() dispatches to: one reader a format. All throw fovea::Error, with the format named
// first, and refuse more than `max_pixels` before they take memory for pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "image/image.hpp"
#include "image/orientation.hpp"

namespace fovea::image {

using Bytes = std::span<const std::byte>;

/// Pixels as stored in the file, and how to turn them upright.
struct Decoded {
  Image image;
  Orientation orientation;
};

[[nodiscard]] Decoded decode_png(Bytes bytes, std::int64_t max_pixels);
[[nodiscard]] Decoded decode_webp(Bytes bytes, std::int64_t max_pixels);
[[nodiscard]] Decoded decode_gif(Bytes bytes, std::int64_t max_pixels);
[[nodiscard]] Decoded decode_bmp(Bytes bytes, std::int64_t max_pixels);
[[nodiscard]] Decoded decode_tiff(Bytes bytes, std::int64_t max_pixels);

/// Throws unless 1 <= width * height <= max_pixels and both sides fit an int.
void check_size(std::string_view format, std::int64_t width, std::int64_t height,
                std::int64_t max_pixels);

struct JpegState;

/// A JPEG decoded from its first row to its last. `bytes` must outlive the reader.
class JpegReader {
 public:
  JpegReader(Bytes bytes, std::int64_t max_pixels);
  ~JpegReader();
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  [[nodiscard]] int width() const;
  [[nodiscard]] int height() const;
  [[nodiscard]] Orientation orientation() const;

  /// Decodes the next `count` rows, each to width() RGB pixels.
  void read(std::uint8_t* const* rows, int count);

 private:
  std::unique_ptr<JpegState> state_;
};

}  // namespace fovea::image
