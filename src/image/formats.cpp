// The signatures of supported formats, and of other kinds of files that users give by mistake.
#include "image/formats.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/text.hpp"
#include "image/tiff_directory.hpp"

namespace fovea::image {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kSupportedFormats =
    "JPEG, PNG, WebP, GIF, BMP, TIFF, HEIC, AVIF, camera RAW";

struct Signature {
  std::string_view start;
  std::string_view from_8;  // the bytes at offset 8
  Format format;
};
// The signatures of supported formats. The first match counts.
constexpr Signature kFormats[] = {
    {"\xff\xd8\xff"sv, "", Format::kJpeg},
    {"\x89PNG\r\n\x1a\n"sv, "", Format::kPng},
    {"RIFF"sv, "WEBP", Format::kWebp},
    {"GIF87a"sv, "", Format::kGif},
    {"GIF89a"sv, "", Format::kGif},
    {"BM"sv, "", Format::kBmp},
    {"II*\0"sv, "", Format::kTiff},  // or camera RAW
    {"MM\0*"sv, "", Format::kTiff},
    {"II+\0"sv, "", Format::kTiff},
    {"MM\0+"sv, "", Format::kTiff},
    {"FUJIFILM"sv, "CCD-RAW", Format::kRaw},       // RAF
    {"IIU\0"sv, "", Format::kRaw},                 // RW2, RWL
    {"IIRO"sv, "", Format::kRaw},                  // ORF
    {"IIRS"sv, "", Format::kRaw},                  // ORF
    {"MMOR"sv, "", Format::kRaw},                  // ORF
    {"II\x1a\0\0\0HE"sv, "APCCDR", Format::kRaw},  // CRW
    {"FOVb"sv, "", Format::kRaw},                  // X3F
    {"\0MRM"sv, "", Format::kRaw},                 // MRW
};

/// Advice for messages about unsupported files.
constexpr std::string_view kConvert = "convert it to JPEG or PNG";
constexpr std::string_view kUnpack = "unpack it and give the folder of its images";
constexpr std::string_view kExport = "export its images";

struct UnsupportedFormat {
  std::size_t offset;
  std::string_view bytes;
  std::string_view what;
  std::string_view advice;
};
constexpr UnsupportedFormat kUnsupportedFormats[] = {
    {0, "%PDF-"sv, "a PDF document", kExport},
    {0, "8BPS"sv, "a Photoshop document (PSD)", kConvert},
    {4, "jP  \r\n\x87\n"sv, "an image in JPEG 2000", kConvert},
    {0, "\xff\x4f\xff\x51"sv, "an image in JPEG 2000", kConvert},
    {0, "\xff\x0a"sv, "an image in JPEG XL", kConvert},
    {4, "JXL \r\n\x87\n"sv, "an image in JPEG XL", kConvert},
    {0, "II\xbc\x01"sv, "an image in JPEG XR", kConvert},
    {0, "\x76\x2f\x31\x01"sv, "an image in OpenEXR", kConvert},
    {0, "#?RADIANCE"sv, "an image in Radiance HDR", kConvert},
    {0, "qoif"sv, "an image in QOI", kConvert},
    {0, "DDS "sv, "an image in DDS", kConvert},
    {0, "\0\0\1\0"sv, "an icon (ICO)", kConvert},
    {128, "DICM"sv, "a DICOM file", kExport},
    {0, "gimp xcf"sv, "a GIMP document (XCF)", kConvert},
    {0, "PK\3\4"sv, "a ZIP archive, or a document that is one", kUnpack},
    {0, "PK\5\6"sv, "an empty ZIP archive", kUnpack},
    {0, "\x1f\x8b"sv, "data compressed with gzip", kUnpack},
    {0, "BZh"sv, "data compressed with bzip2", kUnpack},
    {0,
     "\xfd"
     "7zXZ\0"sv,
     "data compressed with xz", kUnpack},
    {0, "\x28\xb5\x2f\xfd"sv, "data compressed with zstd", kUnpack},
    {0, "7z\xbc\xaf\x27\x1c"sv, "a 7-Zip archive", kUnpack},
    {0, "Rar!\x1a\7"sv, "a RAR archive", kUnpack},
    {257, "ustar"sv, "a tar archive", "give it a name that ends in .tar"},
    {0, "PAR1"sv, "a Parquet file", "write its images to files"},
    {0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file", "write its images to files"},
    {0, "\x93NUMPY"sv, "a NumPy array", "write its images to files"},
    {0, "SQLite format 3\0"sv, "an SQLite database", "write its images to files"},
    {0, "\x1a\x45\xdf\xa3"sv, "a video (Matroska or WebM)", kExport},
    {8, "AVI "sv, "a video (AVI)", kExport},
    {0, "\0\0\1\xba"sv, "a video (MPEG)", kExport},
    {0, "FLV\1"sv, "a video (Flash)", kExport},
    {0, "\x30\x26\xb2\x75\x8e\x66\xcf\x11"sv, "a video (WMV)", kExport},
    {4, "moov"sv, "a video (QuickTime)", kExport},
    {4, "mdat"sv, "a video (QuickTime)", kExport},
    {4, "wide"sv, "a video (QuickTime)", kExport},
    {8, "WAVE"sv, "sound (WAV)", "leave it out"},
    {0, "ID3"sv, "sound (MP3)", "leave it out"},
    {0, "OggS"sv, "sound or video (Ogg)", "leave it out"},
    {0, "fLaC"sv, "sound (FLAC)", "leave it out"},
    {0,
     "\x7f"
     "ELF"sv,
     "a program (ELF)", "leave it out"},
};

bool starts_at(std::string_view file, std::size_t offset, std::string_view bytes) {
  return offset <= file.size() && file.substr(offset).starts_with(bytes);
}

/// Recognises the format of an ISO base media file by its major brand, or else by a compatible one.
std::optional<Format> recognise_brands(std::string_view file) {
  if (!starts_at(file, 4, "ftyp")) {
    return std::nullopt;
  }
  constexpr std::string_view kImages[] = {"heic", "heix", "heim", "heis", "hevc", "hevx", "hevm",
                                          "hevs", "mif1", "mif2", "msf1", "miaf", "avif", "avis"};
  const auto is_image = [&](std::string_view brand) {
    return std::ranges::find(kImages, brand) != std::end(kImages);
  };
  const std::string_view major = file.substr(std::min<std::size_t>(file.size(), 8), 4);
  if (is_image(major)) {
    return Format::kHeif;
  }
  if (major == "crx ") {
    return Format::kRaw;  // CR3
  }
  if (major == "jxl ") {
    fail("an image in JPEG XL, which is not supported; {}", kConvert);
  }
  constexpr std::size_t kBrands = 16;  // offset of the compatible brands
  const std::size_t end = std::min<std::size_t>(
      file.size(), static_cast<std::uint8_t>(file[3]));  // boxes of up to 255 bytes
  for (std::size_t offset = kBrands; offset + 4 <= end; offset += 4) {
    if (is_image(file.substr(offset, 4))) {
      return Format::kHeif;
    }
  }
  fail("a video or sound ({}), which is not supported; {}",
       major == "qt  " ? "MOV" : (major.starts_with("M4A") ? "M4A" : "MP4"), kExport);
}

/// Throws if the file begins with text: without control characters other than white space, and
/// mostly ASCII.
void refuse_text(std::string_view file) {
  constexpr std::size_t kSearchedBytes = 1024;
  const std::string_view start = file.substr(0, kSearchedBytes);
  const auto is_ascii = [](char letter) {
    return (letter >= ' ' && letter <= '~') || "\t\n\r\f"sv.find(letter) != std::string_view::npos;
  };
  const auto is_text_byte = [&](char letter) {
    return is_ascii(letter) || static_cast<unsigned char>(letter) >= 128;
  };
  if (!std::ranges::all_of(start, is_text_byte) ||
      static_cast<std::size_t>(std::ranges::count_if(start, is_ascii)) * 2 <= start.size()) {
    return;
  }
  const std::string words = lower_case(start);
  if (words.find("<svg") != std::string::npos) {
    fail("a drawing (SVG), which is not supported; {}", kConvert);
  }
  if (words.find("<html") != std::string::npos || words.find("<!doctype html") != words.npos) {
    fail("a web page (HTML), not an image; a download may have been answered with it");
  }
  fail("a text file, not an image; to read it as a list of names, write @ before its name: @FILE");
}

}  // namespace

Format recognise(std::span<const std::byte> bytes) {
  if (bytes.empty()) {
    fail("empty: 0 bytes, not an image");
  }
  const std::string_view file = as_text(bytes);
  for (const Signature& signature : kFormats) {
    if (file.starts_with(signature.start) && starts_at(file, 8, signature.from_8)) {
      return signature.format == Format::kTiff && is_camera_raw(bytes) ? Format::kRaw
                                                                       : signature.format;
    }
  }
  if (const auto format = recognise_brands(file)) {
    return *format;
  }
  for (const UnsupportedFormat& unsupported : kUnsupportedFormats) {
    if (starts_at(file, unsupported.offset, unsupported.bytes)) {
      fail("{}, which is not supported; {}", unsupported.what, unsupported.advice);
    }
  }
  if (std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; })) {
    fail("not an image: {} bytes, all zero", bytes.size());
  }
  refuse_text(file);
  fail("not an image of a known format ({}): starts with {:02x}", kSupportedFormats,
       fmt::join(std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                           std::min<std::size_t>(bytes.size(), 8)),
                 " "));
}

}  // namespace fovea::image
