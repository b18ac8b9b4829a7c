// Pillow's CMYK to RGB: no colour management, ink subtracted from light.
// python-pillow@4e5f09f src/libImaging/Convert.c: cmyk2rgb, and MULDIV255 of ImagingUtils.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fovea::image {

/// Returns one RGB channel: (255 - black) * (255 - ink) / 255, rounded as by Pillow's MULDIV255.
[[nodiscard]] constexpr std::uint8_t ink_to_light(std::uint32_t ink, std::uint32_t black) {
  const std::uint32_t light = 255 - black;
  const std::uint32_t product = ink * light + 128;
  return static_cast<std::uint8_t>(light - (((product >> 8) + product) >> 8));
}

/// Converts `pixels` CMYK pixels to RGB. `inverted`: 255 means no ink.
template <bool inverted = false>
void cmyk_to_rgb(const std::uint8_t* cmyk, int pixels, std::uint8_t* rgb) {
  constexpr std::uint32_t kFlip = inverted ? 255 : 0;
  for (int pixel = 0; pixel < pixels; ++pixel) {
    const std::uint32_t black = cmyk[3] ^ kFlip;
    for (std::size_t channel = 0; channel < 3; ++channel) {
      rgb[channel] = ink_to_light(cmyk[channel] ^ kFlip, black);
    }
    cmyk += 4;
    rgb += 3;
  }
}

inline void inverted_cmyk_to_rgb(const std::uint8_t* cmyk, int pixels, std::uint8_t* rgb) {
  cmyk_to_rgb<true>(cmyk, pixels, rgb);
}

}  // namespace fovea::image
