// The orientation that a file's metadata asks for.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "image/orientation.hpp"

namespace fovea::image {

/// What a decoder found of metadata, as bytes; empty where there is none.
struct Metadata {
  std::span<const std::byte> exif;  // a TIFF file, perhaps after "Exif\0\0"
  std::span<const std::byte> xmp;   // XML
};

/// The EXIF tag, or else the XMP property `tiff:Orientation`, as Pillow's getexif does. Metadata
/// that cannot be read asks for nothing.
[[nodiscard]] Orientation orientation_of(const Metadata& metadata);

/// The value of `tiff:Orientation="N"` or `tiff:Orientation>N`.
[[nodiscard]] std::optional<int> xmp_orientation(std::span<const std::byte> xmp);

/// The value of tag 0x0112 of the first directory.
[[nodiscard]] std::optional<int> exif_orientation(std::span<const std::byte> exif);

}  // namespace fovea::image
