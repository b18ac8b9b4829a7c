// The preview in a camera's raw image.
#pragma once

#include <memory>

#include "core/stop.hpp"
#include "image/codecs.hpp"

namespace fovea::image {

/// Finds the largest preview through LibRaw. It is a JPEG in nearly all cameras' files, with the
/// file's orientation in its EXIF data: LibRaw adds these where the camera has left them out.
class RawPreviewReader {
 public:
  RawPreviewReader(Bytes bytes, StopFlag stop);
  ~RawPreviewReader();
  RawPreviewReader(const RawPreviewReader&) = delete;
  RawPreviewReader& operator=(const RawPreviewReader&) = delete;

  [[nodiscard]] bool is_jpeg() const;
  /// The JPEG's bytes; they live as long as the reader.
  [[nodiscard]] Bytes bytes() const;
  /// The pixels of a preview that is no JPEG.
  [[nodiscard]] Decoded bitmap(Decoding& decoding) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fovea::image
