// Small JPEGs of photos, as data: URIs for a page.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace fovea::search {

/// A photo made small, or why it could not be.
struct Thumbnail {
  std::string data_uri;  // "data:image/jpeg;base64,..."
  int width = 0;
  int height = 0;
  std::string error;  // not empty: there is no picture
};

/// Longest side of a thumbnail in pixels; smaller photos stay as they are.
inline constexpr int kThumbnailSide = 288;

/// Decodes an encoded image, shrinks it, encodes it again. Errors are in the result.
[[nodiscard]] Thumbnail make_thumbnail(std::span<const std::byte> image);

/// RFC 4648 base64 with padding.
[[nodiscard]] std::string base64(std::span<const unsigned char> bytes);

}  // namespace fovea::search
