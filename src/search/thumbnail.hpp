// Small JPEGs of photos, as data: URIs for a page.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "fovea/heat.hpp"
#include "image/decode.hpp"

namespace fovea::search {

/// A small JPEG of a photo, or the reason why there is none.
struct Thumbnail {
  std::string data_uri;  // "data:image/jpeg;base64,..."
  int width = 0;
  int height = 0;
  std::string error;  // when not empty, there is no picture
};

/// Decodes an encoded image, shrinks it until its longest side has at most `side` pixels, and
/// encodes it again. The result holds errors.
/// `heat` is drawn over it when it is not null.
[[nodiscard]] Thumbnail make_thumbnail(std::span<const std::byte> image, int side,
                                       const image::DecodeOptions& options = {},
                                       const HeatMap* heat = nullptr);

/// RFC 4648 base64 with padding.
[[nodiscard]] std::string base64(std::span<const unsigned char> bytes);

}  // namespace fovea::search
