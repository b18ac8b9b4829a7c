// The preview in a camera's raw image.
#pragma once

#include <cstddef>

#include "core/stop.hpp"
#include "image/codecs.hpp"

namespace fovea::image {

struct RawPreview {
  Bytes jpeg;               // the preview, a part of the file
  Orientation orientation;  // from the raw file; applies if the preview has none
  std::size_t work = 0;     // number of markers examined in the search
};

/// Returns the JPEG with the most pixels in a camera's raw file, the first of several. Throws when
/// there is none.
[[nodiscard]] RawPreview find_raw_preview(Bytes file, StopFlag stop);

}  // namespace fovea::image
