// Recognises formats by content, and has the one path from bytes to resized pixels.
#include "image/decode.hpp"

#include <algorithm>
#include <array>
#include <new>
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
    fail("empty: 0 bytes, not an image");
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
    fail("not an image: {} bytes, all zero", bytes.size());
  }
  fail("not an image of a known format (JPEG, PNG, WebP, GIF, BMP, TIFF): starts with {:02x}",
       fmt::join(reinterpret_cast<const std::uint8_t*>(start.data()),
                 reinterpret_cast<const std::uint8_t*>(start.data()) +
                     std::min<std::size_t>(start.size(), 8),
                 " "));
}

Decoded decode_jpeg(Bytes bytes, Decoding& decoding) {
  JpegReader reader(bytes, decoding);
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

Decoded decode_whole(Bytes bytes, Decoding& decoding) {
  switch (recognise(bytes)) {
    case Format::kJpeg:
      break;
    case Format::kPng:
      return decode_png(bytes, decoding);
    case Format::kWebp:
      return decode_webp(bytes, decoding);
    case Format::kGif:
      return decode_gif(bytes, decoding);
    case Format::kBmp:
      return decode_bmp(bytes, decoding);
    case Format::kTiff:
      return decode_tiff(bytes, decoding);
  }
  return decode_jpeg(bytes, decoding);
}

Size upright_size(int width, int height, Orientation orientation) {
  return orientation.transpose ? Size{height, width} : Size{width, height};
}

/// Rows go from the decoder to the resize.
Size stream_jpeg(Bytes bytes, Decoding& decoding, const Decoding::Target& target,
                 std::span<std::uint8_t> out) {
  JpegReader reader(bytes, decoding);
  const Orientation orientation = decoding.wanted(reader.orientation());
  RowResizer resizer(
      {reader.width(), reader.height(), orientation, target.height, target.width, target.filter},
      out, decoding.stop());
  std::array<std::uint8_t*, kBandRows> rows{};
  for (int row = 0; row < reader.height(); row += kBandRows) {
    const int count = std::min(kBandRows, reader.height() - row);
    for (int index = 0; index < count; ++index) {
      rows[static_cast<std::size_t>(index)] = resizer.slot(index);
    }
    reader.read(rows.data(), count);
    resizer.feed(count);
  }
  return upright_size(reader.width(), reader.height(), orientation);
}

/// Runs `work`. A failed allocation in it is not the fault of the image.
template <typename Work>
auto with_memory(Bytes bytes, Work work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    fail_for_resources("not enough memory to decode an image of {} bytes; use fewer decode threads",
                       bytes.size());
  }
}

}  // namespace

Image decode(std::span<const std::byte> bytes, const DecodeOptions& options) {
  return with_memory(bytes, [&] {
    Decoding decoding(options);
    Decoded decoded = decode_whole(bytes, decoding);
    return oriented(std::move(decoded.image), decoding.wanted(decoded.orientation), options.stop);
  });
}

Size decode_resized(std::span<const std::byte> bytes, int height, int width, Resample filter,
                    const DecodeOptions& options, std::span<std::uint8_t> out) {
  if (height < 1 || width < 1) {
    fail("cannot resize to {}x{}: sides must be at least 1", width, height);
  }
  return with_memory(bytes, [&] {
    const Decoding::Target target{height, width, filter};
    Decoding decoding(options, target);
    if (recognise(bytes) == Format::kJpeg) {
      return stream_jpeg(bytes, decoding, target, out);
    }
    const Decoded decoded = decode_whole(bytes, decoding);
    const Orientation orientation = decoding.wanted(decoded.orientation);
    resize(decoded.image, orientation, height, width, filter, out, options.stop);
    return upright_size(decoded.image.width, decoded.image.height, orientation);
  });
}

}  // namespace fovea::image
