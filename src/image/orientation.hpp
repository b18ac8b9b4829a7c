// The eight EXIF orientations.
#pragma once

#include "core/stop.hpp"
#include "image/image.hpp"

namespace fovea::image {

/// Pixel (x, y) of the upright image is pixel (x, y) of the stored one, after mirroring x when
/// `mirror_x`, y when `mirror_y`, and then, when `transpose`, exchanging x and y.
struct Orientation {
  bool transpose = false;  // upright x runs along stored y
  bool mirror_x = false;   // upright x runs from the end
  bool mirror_y = false;   // upright y runs from the end

  [[nodiscard]] bool upright() const { return !transpose && !mirror_x && !mirror_y; }
  friend bool operator==(const Orientation&, const Orientation&) = default;
};

/// Returns the orientation for a value of the EXIF tag. Values outside of 2..8 mean upright, as in
/// Pillow's exif_transpose.
[[nodiscard]] Orientation to_orientation(int exif_value);

/// Returns the image rotated upright. Throws Interrupted when `stop` is set.
[[nodiscard]] Image oriented(Image image, Orientation orientation, StopFlag stop = {});

}  // namespace fovea::image
