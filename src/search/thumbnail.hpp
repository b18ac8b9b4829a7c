// Thumbnails: small JPEGs of photos as data: URIs for a page.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "fovea/heat.hpp"
#include "image/decode.hpp"

namespace fovea::search {

/// A small JPEG of a photo, or the reason why there is none.
struct Thumbnail {
  std::string data_uri;  // of the form "data:image/jpeg;base64,..."
  int width = 0;
  int height = 0;
  std::string error;  // why there is no picture; empty when there is one
};

/// Decodes an encoded image, shrinks it so that its longest side has at most `side` pixels, and
/// encodes it again. Draws `heat` over it unless that is null. Errors are stored in the result.
[[nodiscard]] Thumbnail make_thumbnail(std::span<const std::byte> image, int side,
                                       const image::DecodeOptions& options = {},
                                       const HeatMap* heat = nullptr);

/// Encodes bytes in base64 (RFC 4648) with padding.
[[nodiscard]] std::string base64(std::span<const unsigned char> bytes);

}  // namespace fovea::search
