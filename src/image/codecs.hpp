// The readers to which decode() dispatches, one per format. All throw fovea::Error, whose message
// names the format first. Each checks the size and takes its memory from `decoding` before it
// allocates pixels, and polls it while it works.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "image/decoding.hpp"
#include "image/image.hpp"
#include "image/orientation.hpp"

namespace fovea::image {

using Bytes = std::span<const std::byte>;

/// The pixels as stored in the file, and the orientation to apply to them.
struct Decoded {
  Image image;
  Orientation orientation;
};

[[nodiscard]] Decoded decode_png(Bytes bytes, Decoding& decoding);
[[nodiscard]] Decoded decode_webp(Bytes bytes, Decoding& decoding);
[[nodiscard]] Decoded decode_gif(Bytes bytes, Decoding& decoding);
[[nodiscard]] Decoded decode_bmp(Bytes bytes, Decoding& decoding);
[[nodiscard]] Decoded decode_tiff(Bytes bytes, Decoding& decoding);
[[nodiscard]] Decoded decode_heif(Bytes bytes, Decoding& decoding);

/// Returns the size of an RGB image in bytes.
[[nodiscard]] inline std::uint64_t pixel_bytes(std::int64_t width, std::int64_t height) {
  return static_cast<std::uint64_t>(width) * static_cast<std::uint64_t>(height) * kChannels;
}

struct JpegState;

/// Decodes a JPEG row by row. Its orientation is that of its metadata, or else
/// `default_orientation`. `bytes` and `decoding` must outlive the reader.
class JpegReader {
 public:
  JpegReader(Bytes bytes, Decoding& decoding, Orientation default_orientation);
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
