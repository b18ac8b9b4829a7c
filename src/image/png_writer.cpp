// Encodes by libpng's simplified interface, which returns errors instead of jumping.
#include "image/png_writer.hpp"

#include <cstdint>

#include <png.h>

#include "core/error.hpp"

namespace fovea::image {

std::vector<std::byte> encode_png(const ImageView& image) {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.width);
  header.height = static_cast<png_uint_32>(image.height);
  header.format = PNG_FORMAT_RGB;
  header.flags = PNG_IMAGE_FLAG_FAST;
  constexpr int kNoConversion = 0;
  constexpr png_int_32 kDense = 0;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(header);
  std::vector<std::byte> bytes(size);
  if (png_image_write_to_memory(&header, bytes.data(), &size, kNoConversion, image.pixels, kDense,
                                nullptr) == 0) {
    fail("PNG: cannot write {}x{} pixels: {}", image.width, image.height,
         static_cast<const char*>(header.message));
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace fovea::image
