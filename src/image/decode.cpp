// Recognising formats by content, and the one path from bytes to resized pixels.
#include "image/decode.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "image/codecs.hpp"
#include "image/resize.hpp"
#include "image/row_resizer.hpp"

namespace fovea::image {
namespace {

enum class Format { kJpeg, kPng, kWebp, kGif, kBmp, kTiff };

Format recognise(Bytes bytes) {
  using std::string_view_literals::operator""sv;
  if (bytes.empty()) {
    fail("empty: 0 bytes, no image");
  }
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()),
                               std::min<std::size_t>(bytes.size(), 16));
  if (start.starts_with("\xff\xd8\xff"sv)) {
    return Format::kJpeg;
  }
  if (start.starts_with("\x89PNG\r\n\x1a\n"sv)) {
    return Format::kPng;
  }
  if (start.starts_with("RIFF"sv) &&
      start.substr(std::min<std::size_t>(start.size(), 8)).starts_with("WEBP"sv)) {
    return Format::kWebp;
  }
  if (start.starts_with("GIF87a"sv) || start.starts_with("GIF89a"sv)) {
    return Format::kGif;
  }
  if (start.starts_with("BM"sv)) {
    return Format::kBmp;
  }
  if (start.starts_with("II*\0"sv) || start.starts_with("MM\0*"sv) ||
      start.starts_with("II+\0"sv) || start.starts_with("MM\0+"sv)) {
    return Format::kTiff;
  }
  if (std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; })) {
    fail("no image: {} bytes, all zero", bytes.size());
  }
  fail("not an image of a known format (JPEG, PNG, WebP, GIF, BMP, TIFF): starts with {:02x}",
       fmt::join(reinterpret_cast<const std::uint8_t*>(start.data()),
                 reinterpret_cast<const std::uint8_t*>(start.data()) +
                     std::min<std::size_t>(start.size(), 8),
                 " "));
}

Decoded decode_jpeg(Bytes bytes, std::int64_t max_pixels) {
  JpegReader reader(bytes, max_pixels);
  Image image(reader.width(), reader.height());
  std::array<std::uint8_t*, kBandRows> rows{};
  for (int row = 0; row < image.height; row += kBandRows) {
    const int count = std::min(kBandRows, image.height - row);
    for (int index = 0; index < count; ++index) {
      rows[static_cast<std::size_t>(index)] =
          image.pixels.data() +
          static_cast<std::size_t>(row + index) * static_cast<std::size_t>(image.width) * kChannels;
    }
    reader.read(rows.data(), count);
  }
  return {std::move(image), reader.orientation()};
}

Decoded decode_any(Bytes bytes, std::int64_t max_pixels) {
  switch (recognise(bytes)) {
    case Format::kJpeg:
      break;
    case Format::kPng:
      return decode_png(bytes, max_pixels);
    case Format::kWebp:
      return decode_webp(bytes, max_pixels);
    case Format::kGif:
      return decode_gif(bytes, max_pixels);
    case Format::kBmp:
      return decode_bmp(bytes, max_pixels);
    case Format::kTiff:
      return decode_tiff(bytes, max_pixels);
  }
  return decode_jpeg(bytes, max_pixels);
}

}  // namespace

void check_size(std::string_view format, std::int64_t width, std::int64_t height,
                std::int64_t max_pixels) {
  if (width < 1 || height < 1) {
    fail("{}: header says {}x{} pixels: there is no image", format, width, height);
  }
  constexpr std::int64_t kMax = std::numeric_limits<int>::max();
  if (width > kMax || height > kMax || width > max_pixels / height) {
    fail("{}: header says {}x{} pixels, more than the limit of {}", format, width, height,
         max_pixels);
  }
}

Image decode(std::span<const std::byte> bytes, const DecodeOptions& options) {
  Decoded decoded = decode_any(bytes, options.max_pixels);
  if (!options.apply_orientation) {
    return std::move(decoded.image);
  }
  return oriented(std::move(decoded.image), decoded.orientation);
}

Size decode_resized(std::span<const std::byte> bytes, int height, int width, Resample filter,
                    const DecodeOptions& options, std::span<std::uint8_t> out) {
  if (height < 1 || width < 1) {
    fail("cannot resize to {}x{}: sides must be at least 1", width, height);
  }
  if (recognise(bytes) != Format::kJpeg) {
    const Image image = decode(bytes, options);
    resize(image, height, width, filter, out);
    return {image.width, image.height};
  }
  JpegReader reader(bytes, options.max_pixels);
  const Orientation orientation = options.apply_orientation ? reader.orientation() : Orientation{};
  RowResizer resizer(reader.width(), reader.height(), orientation, height, width, filter, out);
  std::array<std::uint8_t*, kBandRows> rows{};
  for (int row = 0; row < reader.height(); row += kBandRows) {
    const int count = std::min(kBandRows, reader.height() - row);
    for (int index = 0; index < count; ++index) {
      rows[static_cast<std::size_t>(index)] = resizer.slot(index);
    }
    reader.read(rows.data(), count);
    resizer.feed(count);
  }
  return orientation.transpose ? Size{reader.height(), reader.width()}
                               : Size{reader.width(), reader.height()};
}

}  // namespace fovea::image
