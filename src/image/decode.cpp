// Recognises formats by content, and has the one path from bytes to resized pixels.
#include "image/decode.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "core/error.hpp"
#include "image/codecs.hpp"
#include "image/resize.hpp"
#include "image/row_resizer.hpp"

namespace fovea::image {
namespace {

Decoded decode_jpeg(Bytes bytes, Decoding& decoding) {
  JpegReader reader(bytes, decoding);
  Image image(reader.width(), reader.height());
  const std::size_t row_bytes = static_cast<std::size_t>(image.width) * kChannels;
  std::vector<std::uint8_t*> rows(static_cast<std::size_t>(image.height));
  for (std::size_t row = 0; row < rows.size(); ++row) {
    rows[row] = image.pixels.data() + row * row_bytes;
  }
  reader.read(rows.data(), image.height);
  return {std::move(image), reader.orientation()};
}

using Decoder = Decoded (*)(Bytes bytes, Decoding& decoding);

struct Signature {
  std::string_view start;
  std::string_view from_8;  // the bytes from the ninth on
  Decoder decoder;
};
using std::string_view_literals::operator""sv;
constexpr Signature kSignatures[] = {
    {"\xff\xd8\xff"sv, "", decode_jpeg}, {"\x89PNG\r\n\x1a\n"sv, "", decode_png},
    {"RIFF"sv, "WEBP", decode_webp},     {"GIF87a"sv, "", decode_gif},
    {"GIF89a"sv, "", decode_gif},        {"BM"sv, "", decode_bmp},
    {"II*\0"sv, "", decode_tiff},        {"MM\0*"sv, "", decode_tiff},
    {"II+\0"sv, "", decode_tiff},        {"MM\0+"sv, "", decode_tiff},
};

Decoder recognise(Bytes bytes) {
  if (bytes.empty()) {
    fail("empty: 0 bytes, not an image");
  }
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()),
                               std::min<std::size_t>(bytes.size(), 16));
  const std::string_view from_8 = start.substr(std::min<std::size_t>(start.size(), 8));
  for (const Signature& signature : kSignatures) {
    if (start.starts_with(signature.start) && from_8.starts_with(signature.from_8)) {
      return signature.decoder;
    }
  }
  if (std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; })) {
    fail("not an image: {} bytes, all zero", bytes.size());
  }
  fail("not an image of a known format (JPEG, PNG, WebP, GIF, BMP, TIFF): starts with {:02x}",
       fmt::join(std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                           std::min<std::size_t>(bytes.size(), 8)),
                 " "));
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
    Decoded decoded = recognise(bytes)(bytes, decoding);
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
    const Decoder decoder = recognise(bytes);
    if (decoder == decode_jpeg) {
      return stream_jpeg(bytes, decoding, target, out);
    }
    const Decoded decoded = decoder(bytes, decoding);
    const Orientation orientation = decoding.wanted(decoded.orientation);
    resize(decoded.image, orientation, height, width, filter, out, options.stop);
    return upright_size(decoded.image.width, decoded.image.height, orientation);
  });
}

}  // namespace fovea::image
