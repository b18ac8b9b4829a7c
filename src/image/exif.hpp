// Reads the orientation and the capture date from an image's metadata.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "image/orientation.hpp"

namespace fovea::image {

/// The metadata that a decoder found, as bytes; empty when there is none.
struct Metadata {
  std::span<const std::byte> exif;  // a TIFF file, with or without "Exif\0\0" before it
  std::span<const std::byte> xmp;   // XML
};

/// Returns the orientation in EXIF, or else in the XMP property `tiff:Orientation`, as in Pillow's
/// getexif, or else `default_orientation`. Unreadable metadata is ignored.
[[nodiscard]] Orientation to_orientation(const Metadata& metadata,
                                         Orientation default_orientation = {});

/// Returns N in `tiff:Orientation="N"` or `tiff:Orientation>N`.
[[nodiscard]] std::optional<int> xmp_orientation(std::span<const std::byte> xmp);

/// Returns the value of tag 0x0112 in the first directory, read as by Pillow: the first number of
/// the first such entry, of any numeric type; 1 for values outside of 1 to 8, for text and bytes,
/// and for data that does not begin like EXIF. None without the tag or without EXIF.
[[nodiscard]] std::optional<int> exif_orientation(std::span<const std::byte> exif);

/// Returns the orientation of a TIFF or BigTIFF, from its tag or else from its XMP.
[[nodiscard]] std::optional<int> tiff_orientation(std::span<const std::byte> file);

/// Returns the orientation of a camera's raw file: from the file itself when it has the structure
/// of a TIFF, or else from the first TIFF header within its first MiB (RAF, CR3, MRW).
[[nodiscard]] std::optional<int> camera_orientation(std::span<const std::byte> file);

/// Returns the EXIF tag DateTimeOriginal, in the camera's local time, as "2024-05-01 12:30:00"; ""
/// when this part of an image file has none. Reads JPEG, PNG, TIFF, WebP, HEIC, AVIF.
[[nodiscard]] std::string capture_date(std::span<const std::byte> part);

}  // namespace fovea::image
