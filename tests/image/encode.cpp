// Encoders for the tests, through the libraries whose decoders are tested, or by hand.
#include "image/encode.hpp"

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include <jpeglib.h>
#include <png.h>
#include <webp/encode.h>

namespace fovea::image::test {

Data jpeg(const Image& image, int exif_orientation) {
  jpeg_compress_struct codec{};
  jpeg_error_mgr errors{};
  codec.err = jpeg_std_error(&errors);
  jpeg_create_compress(&codec);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&codec, &buffer, &size);
  codec.image_width = static_cast<JDIMENSION>(image.width);
  codec.image_height = static_cast<JDIMENSION>(image.height);
  codec.input_components = 3;
  codec.in_color_space = JCS_RGB;
  jpeg_set_defaults(&codec);
  jpeg_start_compress(&codec, TRUE);
  if (exif_orientation != 0) {
    const Data segment = exif(exif_orientation);
    jpeg_write_marker(&codec, JPEG_APP0 + 1, segment.data(), static_cast<unsigned>(segment.size()));
  }
  for (int row = 0; row < image.height; ++row) {
    auto* pixels = const_cast<std::uint8_t*>(image.pixels.data()) +
                   static_cast<std::ptrdiff_t>(row) * image.width * 3;
    jpeg_write_scanlines(&codec, &pixels, 1);
  }
  jpeg_finish_compress(&codec);
  jpeg_destroy_compress(&codec);
  Data data(buffer, buffer + size);
  std::free(buffer);
  return data;
}

Data png(const Image& image) {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.width);
  header.height = static_cast<png_uint_32>(image.height);
  header.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&header, nullptr, &size, 0, image.pixels.data(), 0, nullptr);
  Data data(size);
  if (png_image_write_to_memory(&header, data.data(), &size, 0, image.pixels.data(), 0, nullptr) ==
      0) {
    throw std::runtime_error(header.message);
  }
  data.resize(size);
  return data;
}

Data webp(const Image& image) {
  std::uint8_t* buffer = nullptr;
  const std::size_t size = WebPEncodeLosslessRGB(image.pixels.data(), image.width, image.height,
                                                 image.width * 3, &buffer);
  Data data(buffer, buffer + size);
  WebPFree(buffer);
  return data;
}

Data tiff(const Image& image) {
  Data data{'I', 'I', 42, 0};
  constexpr std::uint32_t kEntries = 9;
  constexpr std::uint32_t kPixels = 8 + 2 + kEntries * 12 + 4;
  append(data, 8, 4);
  append(data, kEntries, 2);
  const auto entry = [&](std::uint16_t tag, std::uint16_t type, std::uint32_t value) {
    append(data, tag, 2);
    append(data, type, 2);
    append(data, 1, 4);
    append(data, value, 4);
  };
  constexpr std::uint16_t kShort = 3;
  constexpr std::uint16_t kLong = 4;
  entry(256, kLong, static_cast<std::uint32_t>(image.width));
  entry(257, kLong, static_cast<std::uint32_t>(image.height));
  entry(258, kShort, 8);  // one value: presumed of all samples
  entry(259, kShort, 1);
  entry(262, kShort, 2);
  entry(273, kLong, kPixels);
  entry(277, kShort, 3);
  entry(278, kLong, static_cast<std::uint32_t>(image.height));
  entry(279, kLong, static_cast<std::uint32_t>(image.pixels.size()));
  append(data, 0, 4);
  data.insert(data.end(), image.pixels.data(), image.pixels.data() + image.pixels.size());
  return data;
}

Data gif(int width, int height) {
  Data data{'G', 'I', 'F', '8', '9', 'a'};
  append(data, static_cast<std::uint64_t>(width), 2);
  append(data, static_cast<std::uint64_t>(height), 2);
  data.insert(data.end(), {0x80, 0, 0, 9, 9, 9, 70, 80, 90, ','});  // two colours
  append(data, 0, 4);
  append(data, static_cast<std::uint64_t>(width), 2);
  append(data, static_cast<std::uint64_t>(height), 2);
  data.insert(data.end(), {0, 2});  // codes of 3 bits: 0..3, clear 4, end 5
  // Clear before every two pixels, so that codes stay three bits wide.
  std::vector<bool> bits;
  const auto code = [&bits](unsigned value) {
    for (unsigned bit = 0; bit < 3; ++bit) {
      bits.push_back(((value >> bit) & 1) != 0);
    }
  };
  for (int pixel = 0; pixel < width * height; ++pixel) {
    if (pixel % 2 == 0) {
      code(4);
    }
    code(1);
  }
  code(5);
  Data packed((bits.size() + 7) / 8);
  for (std::size_t at = 0; at < bits.size(); ++at) {
    packed[at / 8] = static_cast<std::uint8_t>(packed[at / 8] | (bits[at] ? 1U << (at % 8) : 0U));
  }
  for (std::size_t at = 0; at < packed.size(); at += 255) {
    const std::size_t size = std::min<std::size_t>(255, packed.size() - at);
    data.push_back(static_cast<std::uint8_t>(size));
    data.insert(data.end(), packed.begin() + static_cast<std::ptrdiff_t>(at),
                packed.begin() + static_cast<std::ptrdiff_t>(at + size));
  }
  data.insert(data.end(), {0, ';'});
  return data;
}

Data exif(int orientation, bool big_endian) {
  const auto value = static_cast<std::uint8_t>(orientation);
  if (big_endian) {
    return {'E',  'x',  'i', 'f', 0, 0, 'M', 'M', 0, 42,    0, 0, 0, 8, 0, 1,
            0x01, 0x12, 0,   3,   0, 0, 0,   1,   0, value, 0, 0, 0, 0, 0, 0};
  }
  return {'E',  'x',  'i', 'f', 0, 0, 'I', 'I', 42,    0, 8, 0, 0, 0, 1, 0,
          0x12, 0x01, 3,   0,   1, 0, 0,   0,   value, 0, 0, 0, 0, 0, 0, 0};
}

}  // namespace fovea::image::test
