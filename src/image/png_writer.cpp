// Encodes through libpng's simplified API, which returns errors instead of calling longjmp.
#include "image/png_writer.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <png.h>
#include <zlib.h>

#include "core/error.hpp"

namespace fovea::image {
namespace {

void append_big_endian(std::vector<std::byte>& bytes, std::uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<std::byte>(number >> static_cast<unsigned>(shift)));
  }
}

// Returns a tEXt chunk that marks an image as written by this program.
std::vector<std::byte> text_chunk() {
  using namespace std::string_view_literals;
  constexpr std::string_view kNameAndText = "tEXtSoftware\0Fovea"sv;
  std::vector<std::byte> chunk;
  append_big_endian(chunk, kNameAndText.size() - 4);  // the length excludes the chunk's name
  const auto content = std::as_bytes(std::span(kNameAndText));
  chunk.insert(chunk.end(), content.begin(), content.end());
  append_big_endian(chunk, static_cast<std::uint32_t>(
                               crc32(0, reinterpret_cast<const Bytef*>(kNameAndText.data()),
                                     static_cast<uInt>(kNameAndText.size()))));
  return chunk;
}

}  // namespace

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
  // The simplified API writes no text chunks: this one is inserted after the header.
  constexpr std::size_t kHeaderEnd = 33;
  const std::vector<std::byte> text = text_chunk();
  bytes.insert(bytes.begin() + kHeaderEnd, text.begin(), text.end());
  return bytes;
}

}  // namespace fovea::image
