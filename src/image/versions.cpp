// Asks each image library for its version.
#include "image/versions.hpp"

#include <cstddef>
#include <cstdio>
#include <string_view>

#include <fmt/format.h>
#include <gif_lib.h>
#include <jpeglib.h>
#include <libdeflate.h>
#include <png.h>
#include <tiffio.h>
#include <webp/decode.h>
#include <zlib.h>

namespace fovea::image {
namespace {

#define FOVEA_TEXT_OF(number) #number
#define FOVEA_TEXT(number) FOVEA_TEXT_OF(number)
#ifdef LIBJPEG_TURBO_VERSION
constexpr const char* kJpeg = FOVEA_TEXT(LIBJPEG_TURBO_VERSION);
#else
constexpr const char* kJpeg = FOVEA_TEXT(JPEG_LIB_VERSION);
#endif
#undef FOVEA_TEXT
#undef FOVEA_TEXT_OF

std::string webp_version() {
  const int version = WebPGetDecoderVersion();
  return fmt::format("{}.{}.{}", version >> 16, (version >> 8) & 0xff, version & 0xff);
}

// Returns libtiff's version, from text such as "LIBTIFF, Version 4.5.0" and a copyright line.
std::string tiff_version() {
  const std::string_view text = TIFFGetVersion();
  const std::string_view line = text.substr(0, text.find('\n'));
  return std::string(line.substr(line.rfind(' ') + 1));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> library_versions() {
  return {{"libjpeg", kJpeg},
          {"libpng", png_get_libpng_ver(nullptr)},
          {"libtiff", tiff_version()},
          {"libwebp", webp_version()},
          {"giflib", fmt::format("{}.{}.{}", GIFLIB_MAJOR, GIFLIB_MINOR, GIFLIB_RELEASE)},
          {"libdeflate", LIBDEFLATE_VERSION_STRING},
          {"zlib", zlibVersion()}};
}

}  // namespace fovea::image
