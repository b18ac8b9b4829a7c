// Makes thumbnails: decodes and resizes images as for embeddings, and encodes them with TurboJPEG.
#include "search/thumbnail.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <turbojpeg.h>

#include "core/buffer.hpp"
#include "core/error.hpp"
#include "core/released.hpp"
#include "image/resize.hpp"
#include "search/heat_colours.hpp"

namespace fovea::search {
namespace {

constexpr int kQuality = 75;

// Encodes pixels as a JPEG in a data: URI.
std::string encode(const std::uint8_t* pixels, int width, int height) {
  const Released<void, tjDestroy> compressor(tjInitCompress());
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const int result = tjCompress2(compressor.get(), pixels, width, 0, height, TJPF_RGB, &bytes,
                                 &size, TJSAMP_420, kQuality, TJFLAG_PROGRESSIVE);
  const Released<unsigned char, tjFree> owner(bytes);
  if (result != 0) {
    fail("cannot encode the thumbnail: {}", tjGetErrorStr2(compressor.get()));
  }
  return "data:image/jpeg;base64," + base64({bytes, size});
}

}  // namespace

std::string base64(std::span<const unsigned char> bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t offset = 0; offset < bytes.size(); offset += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - offset);
    std::uint32_t bits = static_cast<std::uint32_t>(bytes[offset]) << 16;
    bits |= count > 1 ? static_cast<std::uint32_t>(bytes[offset + 1]) << 8 : 0;
    bits |= count > 2 ? bytes[offset + 2] : 0U;
    for (std::size_t digit = 0; digit < 4; ++digit) {
      text += digit <= count ? kDigits[bits >> (18 - 6 * digit) & 63U] : '=';
    }
  }
  return text;
}

Thumbnail make_thumbnail(std::span<const std::byte> bytes, int side,
                         const image::DecodeOptions& options, const HeatMap* heat) {
  Thumbnail thumbnail;
  try {
    const image::Image photo = image::decode(bytes, options);
    const int longest_side = std::max(photo.width, photo.height);
    const double scale = std::min(1.0, static_cast<double>(side) / longest_side);
    const auto scaled_length = [&](int length) {
      return std::max(1, static_cast<int>(std::lround(length * scale)));
    };
    thumbnail.width = scaled_length(photo.width);
    thumbnail.height = scaled_length(photo.height);
    AlignedBuffer<std::uint8_t> pixels(static_cast<std::size_t>(thumbnail.width) *
                                       static_cast<std::size_t>(thumbnail.height) *
                                       image::kChannels);
    image::resize(photo, thumbnail.height, thumbnail.width, Resample::kBicubic, pixels.span());
    if (heat != nullptr) {
      draw_heat(*heat, thumbnail.width, thumbnail.height, pixels.span());
    }
    thumbnail.data_uri = encode(pixels.data(), thumbnail.width, thumbnail.height);
  } catch (const Error& error) {
    rethrow_unless_finding(error);
    thumbnail.error = error.what();
  }
  return thumbnail;
}

}  // namespace fovea::search
