// The preview in a camera's raw image.
#pragma once

#include <cstddef>

#include "core/stop.hpp"
#include "image/codecs.hpp"

namespace fovea::image {

struct RawPreview {
  Bytes jpeg;               // a part of the file
  Orientation orientation;  // what the file asks for where the preview itself asks for nothing
  std::size_t work = 0;     // markers that were looked at to find it
};

/// The JPEG with the most pixels in a camera's file, the first of several. Throws when there is
/// none.
[[nodiscard]] RawPreview find_raw_preview(Bytes file, StopFlag stop);

}  // namespace fovea::image
