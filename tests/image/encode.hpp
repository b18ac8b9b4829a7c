// Small encoded images for the tests of the image library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "image/image.hpp"

namespace fovea::image::test {

using Data = std::vector<std::uint8_t>;

/// Random pixels, always the same for one size.
inline Image noise(int width, int height) {
  Image image(width, height);
  std::mt19937 random(static_cast<unsigned>(width * 31 + height));
  for (std::size_t at = 0; at < image.pixels.size(); ++at) {
    image.pixels[at] = static_cast<std::uint8_t>(random());
  }
  return image;
}

inline void append(Data& data, std::uint64_t value, std::size_t size) {
  for (std::size_t index = 0; index < size; ++index) {
    data.push_back(static_cast<std::uint8_t>(value >> (8 * index)));
  }
}

/// A 24-bit BMP, bottom row first. Exact, so that decoding it gives `image` back.
inline Data bmp(const Image& image) {
  const auto width = static_cast<std::size_t>(image.width);
  const auto height = static_cast<std::size_t>(image.height);
  const std::size_t stride = (width * 3 + 3) / 4 * 4;
  Data data{'B', 'M'};
  append(data, 54 + stride * height, 4);
  append(data, 0, 4);
  append(data, 54, 4);
  append(data, 40, 4);
  append(data, width, 4);
  append(data, height, 4);
  append(data, 1, 2);
  append(data, 24, 2);
  data.resize(data.size() + 24);
  for (std::size_t row = height; row-- > 0;) {
    for (std::size_t x = 0; x < width; ++x) {
      for (std::size_t channel = 3; channel-- > 0;) {
        data.push_back(image.pixels[(row * width + x) * 3 + channel]);
      }
    }
    data.resize(data.size() + stride - width * 3);
  }
  return data;
}

Data jpeg(const Image& image, int exif_orientation = 0);
Data png(const Image& image);
Data webp(const Image& image);  // lossless
Data tiff(const Image& image);  // uncompressed, one strip
/// A GIF of one gray palette whose pixels are all index 1.
Data gif(int width, int height);

/// The bytes of an EXIF segment that says only this.
Data exif(int orientation, bool big_endian = false);

}  // namespace fovea::image::test
