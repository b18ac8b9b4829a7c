// Rotates decoded pixels upright.
#include "image/orientation.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace fovea::image {

Orientation orientation_of(int exif_value) {
  switch (exif_value) {
    case 2:  // FLIP_LEFT_RIGHT
      return {.transpose = false, .mirror_x = true, .mirror_y = false};
    case 3:  // ROTATE_180
      return {.transpose = false, .mirror_x = true, .mirror_y = true};
    case 4:  // FLIP_TOP_BOTTOM
      return {.transpose = false, .mirror_x = false, .mirror_y = true};
    case 5:  // TRANSPOSE
      return {.transpose = true, .mirror_x = false, .mirror_y = false};
    case 6:  // ROTATE_270
      return {.transpose = true, .mirror_x = true, .mirror_y = false};
    case 7:  // TRANSVERSE
      return {.transpose = true, .mirror_x = true, .mirror_y = true};
    case 8:  // ROTATE_90
      return {.transpose = true, .mirror_x = false, .mirror_y = true};
    default:
      return {};
  }
}

Image oriented(Image image, Orientation orientation, StopFlag stop) {
  if (orientation.upright()) {
    return image;
  }
  const auto width = static_cast<std::ptrdiff_t>(image.width);
  const auto height = static_cast<std::ptrdiff_t>(image.height);
  Image turned =
      orientation.transpose ? Image(image.height, image.width) : Image(image.width, image.height);
  // The steps in the stored image, in bytes, for one step right and one step down in the upright
  // one.
  std::ptrdiff_t right = orientation.transpose ? width * kChannels : kChannels;
  std::ptrdiff_t down = orientation.transpose ? kChannels : width * kChannels;
  const std::uint8_t* start = image.pixels.data();
  if (orientation.mirror_x) {
    start += right * ((orientation.transpose ? height : width) - 1);
    right = -right;
  }
  if (orientation.mirror_y) {
    start += down * ((orientation.transpose ? width : height) - 1);
    down = -down;
  }
  // Square tiles keep both images' rows in cache when the axes are exchanged.
  constexpr int kTile = 32;
  for (int top = 0; top < turned.height; top += kTile) {
    for (int left = 0; left < turned.width; left += kTile) {
      stop.poll();
      const int bottom = std::min(turned.height, top + kTile);
      const int end = std::min(turned.width, left + kTile);
      for (int y = top; y < bottom; ++y) {
        const std::uint8_t* from = start + y * down + left * right;
        std::uint8_t* to =
            turned.pixels.data() +
            (static_cast<std::ptrdiff_t>(y) * turned.width + left) * std::ptrdiff_t{kChannels};
        for (int x = left; x < end; ++x) {
          std::memcpy(to, from, kChannels);
          from += right;
          to += kChannels;
        }
      }
    }
  }
  return turned;
}

}  // namespace fovea::image
