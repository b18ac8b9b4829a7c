// Rotates decoded pixels upright.
#include "image/orientation.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

namespace fovea::image {

Orientation to_orientation(int exif_value) {
  constexpr std::array<Orientation, 7> kFrom2{{
      {.mirror_x = true},                                       // 2: FLIP_LEFT_RIGHT
      {.mirror_x = true, .mirror_y = true},                     // 3: ROTATE_180
      {.mirror_y = true},                                       // 4: FLIP_TOP_BOTTOM
      {.transpose = true},                                      // 5: TRANSPOSE
      {.transpose = true, .mirror_x = true},                    // 6: ROTATE_270
      {.transpose = true, .mirror_x = true, .mirror_y = true},  // 7: TRANSVERSE
      {.transpose = true, .mirror_y = true},                    // 8: ROTATE_90
  }};
  return exif_value >= 2 && exif_value <= 8 ? kFrom2[static_cast<std::size_t>(exif_value - 2)]
                                            : Orientation{};
}

Image oriented(Image image, Orientation orientation, StopFlag stop) {
  if (orientation.upright()) {
    return image;
  }
  const auto width = static_cast<std::ptrdiff_t>(image.width);
  const auto height = static_cast<std::ptrdiff_t>(image.height);
  Image turned =
      orientation.transpose ? Image(image.height, image.width) : Image(image.width, image.height);
  turned.lost_range = image.lost_range;
  // Byte strides in the stored image for one pixel right and one pixel down in the upright image.
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
  // Square tiles keep the rows of both images in cache during a transpose.
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
