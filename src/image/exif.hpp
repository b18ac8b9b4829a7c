// What a file's metadata says: the orientation that it asks for, and when the photo was taken.
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

/// The EXIF tag, or else the XMP property `tiff:Orientation`, as in Pillow's getexif, or else
/// `otherwise`. Unreadable metadata is ignored.
[[nodiscard]] Orientation orientation_of(const Metadata& metadata, Orientation otherwise = {});

/// The value of `tiff:Orientation="N"` or `tiff:Orientation>N`.
[[nodiscard]] std::optional<int> xmp_orientation(std::span<const std::byte> xmp);

/// The value of tag 0x0112 of the first directory, whatever its type, as Pillow takes it: the first
/// number of the first such entry; 1 for a value that is none of 1 to 8, for text and bytes, and
/// for what does not begin as EXIF. None when there is no such tag, or no EXIF.
[[nodiscard]] std::optional<int> exif_orientation(std::span<const std::byte> exif);

/// The same of a TIFF or BigTIFF, and where it has no such tag, of its XMP.
[[nodiscard]] std::optional<int> tiff_orientation(std::span<const std::byte> file);

/// The same tag of a camera's raw image: of the file itself when it is built like a TIFF, or else
/// of the first TIFF within its first mebibyte, which describes the photo (RAF, CR3, MRW).
[[nodiscard]] std::optional<int> camera_orientation(std::span<const std::byte> file);

/// The EXIF tag DateTimeOriginal, by the camera's clock, as "2024-05-01 12:30:00"; "" when
/// these bytes of an image file hold none. JPEG, PNG, TIFF, WebP, HEIC, AVIF.
[[nodiscard]] std::string capture_date(std::span<const std::byte> part);

}  // namespace fovea::image
