// Reads HEIC and AVIF through libheif, which is loaded with dlopen() at the first such image: its
// decoders are separate packages, some of them patented, so the program must run without them. Its
// few C functions are declared here, so that the build needs no headers of libheif.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/shared_library.hpp"
#include "image/codecs.hpp"
#include "image/exif.hpp"
#include "image/heif_boxes.hpp"

namespace fovea::image {
namespace {

// Declarations from libheif/heif.h, version 1.15. Later versions append fields to structures; the
// field `version` tells which of them are present.

struct HeifContext;
struct HeifHandle;
struct HeifImage;
struct HeifDecoder;

struct HeifError {
  int code = 0;
  int subcode = 0;
  const char* message = nullptr;
};

struct HeifOptions {
  std::uint8_t version;
  std::uint8_t ignore_transformations;
  void (*start_progress)(int step, int maximum, void* user);
  void (*on_progress)(int step, int progress, void* user);
  void (*end_progress)(int step, void* user);
  void* user;
  std::uint8_t convert_hdr_to_8bit;  // from version 2 on
  std::uint8_t strict;               // 3
  const char* decoder;               // 4
  struct {
    std::uint8_t version;
    int downsampling;
    int upsampling;
    std::uint8_t only_preferred;
  } color_conversion;           // 5
  int (*cancel)(void* user);    // 6
  void* color_conversion_more;  // 7
  int ignore_edit_list;         // 8
  void* output_profile;         // 8
  int library_threads;          // 8
  int codec_threads;            // 8
};

struct HeifLimits {
  std::uint8_t version;
  std::uint64_t max_image_pixels;
};

constexpr int kColorspaceRgb = 1;
constexpr int kChromaRgb = 10;  // interleaved, 8 bits
constexpr int kChannelInterleaved = 10;
constexpr int kFormatHevc = 1;
constexpr int kFormatAv1 = 4;

/// The functions of libheif that are used.
struct Libheif {
  SharedLibrary library;
  HeifError (*init)(void*) = library.function("heif_init");
  HeifContext* (*context_alloc)() = library.function("heif_context_alloc");
  void (*context_free)(HeifContext*) = library.function("heif_context_free");
  HeifError (*read)(HeifContext*, const void*, std::size_t,
                    const void*) = library.function("heif_context_read_from_memory_without_copy");
  HeifError (*primary)(HeifContext*,
                       HeifHandle**) = library.function("heif_context_get_primary_image_handle");
  void (*handle_release)(const HeifHandle*) = library.function("heif_image_handle_release");
  int (*handle_width)(const HeifHandle*) = library.function("heif_image_handle_get_width");
  int (*handle_height)(const HeifHandle*) = library.function("heif_image_handle_get_height");
  int (*handle_bits)(const HeifHandle*) =
      library.function("heif_image_handle_get_luma_bits_per_pixel");
  int (*handle_has_alpha)(const HeifHandle*) =
      library.function("heif_image_handle_has_alpha_channel");
  int (*handle_is_premultiplied)(const HeifHandle*) =
      library.function("heif_image_handle_is_premultiplied_alpha");
  HeifOptions* (*options_alloc)() = library.function("heif_decoding_options_alloc");
  void (*options_free)(HeifOptions*) = library.function("heif_decoding_options_free");
  HeifError (*decode)(const HeifHandle*, HeifImage**, int, int,
                      const HeifOptions*) = library.function("heif_decode_image");
  void (*image_release)(const HeifImage*) = library.function("heif_image_release");
  int (*image_width)(const HeifImage*, int) = library.function("heif_image_get_width");
  int (*image_height)(const HeifImage*, int) = library.function("heif_image_get_height");
  const std::uint8_t* (*plane)(const HeifImage*, int,
                               int*) = library.function("heif_image_get_plane_readonly");
  int (*blocks)(const HeifHandle*, const char*, std::uint32_t*,
                int) = library.function("heif_image_handle_get_list_of_metadata_block_IDs");
  const char* (*block_content)(const HeifHandle*, std::uint32_t) =
      library.function("heif_image_handle_get_metadata_content_type");
  std::size_t (*block_size)(const HeifHandle*, std::uint32_t) =
      library.function("heif_image_handle_get_metadata_size");
  HeifError (*block)(const HeifHandle*, std::uint32_t,
                     void*) = library.function("heif_image_handle_get_metadata");
  int (*have_decoder)(int) = library.function("heif_have_decoder_for_format");
  // Null in versions of libheif without it:
  void (*set_threads)(HeifContext*,
                      int) = library.find_function("heif_context_set_max_decoding_threads");
  HeifLimits* (*limits)(const HeifContext*) =
      library.find_function("heif_context_get_security_limits");
  int (*decoders)(int, const HeifDecoder**,
                  int) = library.find_function("heif_get_decoder_descriptors");
  const char* (*decoder_name)(const HeifDecoder*) =
      library.find_function("heif_decoder_descriptor_get_id_name");
  bool has_aom = false;

  explicit Libheif(const SharedLibrary& opened) : library(opened) {
    // Loads the plugins once for all threads. They stay loaded.
    if (const HeifError error = init(nullptr); error.code != 0) {
      fail("libheif cannot be started: {}", error.message);
    }
    has_aom = finds_decoder(kFormatAv1, "aom");
  }

  [[nodiscard]] bool finds_decoder(int format, std::string_view name) const {
    if (decoders == nullptr || decoder_name == nullptr) {
      return false;
    }
    std::array<const HeifDecoder*, 16> found{};
    const int count = decoders(format, found.data(), static_cast<int>(found.size()));
    return std::any_of(found.begin(), found.begin() + count, [&](const HeifDecoder* decoder) {
      const char* const known = decoder_name(decoder);
      return known != nullptr && known == name;
    });
  }
};

const Libheif& libheif(HeifCodec codec) {
  constexpr const char* kNames[] = {"libheif.so.1"};
  static const SharedLibrary library = SharedLibrary::open("FOVEA_LIBHEIF", kNames);
  const std::string_view name = heif_name(codec);
  if (!library.is_open()) {
    fail("{} needs libheif, which cannot be opened ({}); apt-get install libheif1", name,
         library.reason());
  }
  static const Libheif opened(library);
  const bool is_hevc = codec == HeifCodec::kHevc;
  if (opened.have_decoder(is_hevc ? kFormatHevc : kFormatAv1) == 0) {
    fail("{} needs a decoder for {}, which the installed libheif lacks; apt-get install {}", name,
         is_hevc ? "HEVC" : "AV1", is_hevc ? "libheif-plugin-libde265" : "libheif-plugin-dav1d");
  }
  return opened;
}

/// Owns the objects of libheif for one image.
class HeifDecode {
 public:
  HeifDecode(const Libheif& heif, HeifCodec codec)
      : heif_(heif), codec_(codec), context_(heif.context_alloc()) {
    if (context_ == nullptr) {
      throw std::bad_alloc();
    }
  }
  ~HeifDecode() {
    if (image_ != nullptr) {
      heif_.image_release(image_);
    }
    if (handle_ != nullptr) {
      heif_.handle_release(handle_);
    }
    heif_.context_free(context_);
  }
  HeifDecode(const HeifDecode&) = delete;
  HeifDecode& operator=(const HeifDecode&) = delete;

  void open(Bytes bytes, const Decoding& decoding) {
    if (heif_.set_threads != nullptr) {
      heif_.set_threads(context_, 0);  // decodes tiles in this thread
    }
    if (heif_.limits != nullptr) {
      heif_.limits(context_)->max_image_pixels = static_cast<std::uint64_t>(decoding.max_pixels());
    }
    call([&] { return heif_.read(context_, bytes.data(), bytes.size(), nullptr); });
    call([&] { return heif_.primary(context_, &handle_); });
  }

  [[nodiscard]] const HeifHandle* handle() const { return handle_; }

  /// Decodes to 8-bit RGB. The library rotates the image upright.
  void run(StopFlag stop) {
    const auto release = [this](HeifOptions* options) { heif_.options_free(options); };
    const std::unique_ptr<HeifOptions, decltype(release)> options(heif_.options_alloc(), release);
    if (!options) {
      throw std::bad_alloc();
    }
    options->convert_hdr_to_8bit = 1;
    options->user = &stop;
    if (options->version >= 6) {
      options->cancel = [](void* user) { return static_cast<StopFlag*>(user)->is_set() ? 1 : 0; };
    }
    if (options->version >= 8) {
      options->codec_threads = 1;
    } else if (codec_ == HeifCodec::kAv1 && heif_.has_aom && options->version >= 4) {
      options->decoder = "aom";  // the other decoder starts a thread for each core
    }
    call([&] {
      const HeifError error =
          heif_.decode(handle_, &image_, kColorspaceRgb, kChromaRgb, options.get());
      stop.poll();
      return error;
    });
  }

  /// Returns the first metadata block of a type: "Exif", or "mime" with a content type.
  std::vector<std::byte> metadata(const char* type, std::string_view content) const {
    std::array<std::uint32_t, 16> ids{};
    const int count = heif_.blocks(handle_, type, ids.data(), static_cast<int>(ids.size()));
    for (const std::uint32_t id : std::span(ids).first(static_cast<std::size_t>(count))) {
      const char* const found = heif_.block_content(handle_, id);
      if (content.empty() || (found != nullptr && found == content)) {
        std::vector<std::byte> bytes(heif_.block_size(handle_, id));
        if (!bytes.empty()) {
          call([&] { return heif_.block(handle_, id, bytes.data()); });
        }
        return bytes;
      }
    }
    return {};
  }

  /// Returns the decoded rows, and sets `stride` to the bytes from one row to the next.
  const std::uint8_t* rows(int width, int height, std::size_t& stride) const {
    const int columns = heif_.image_width(image_, kChannelInterleaved);
    const int lines = heif_.image_height(image_, kChannelInterleaved);
    if (columns != width || lines != height) {
      fail("{}: decodes to {}x{} pixels, but its header says {}x{}", heif_name(codec_), columns,
           lines, width, height);
    }
    int bytes = 0;
    const std::uint8_t* const first = heif_.plane(image_, kChannelInterleaved, &bytes);
    if (first == nullptr || bytes < width * kChannels) {
      fail("{}: libheif returned no pixels", heif_name(codec_));
    }
    stride = static_cast<std::size_t>(bytes);
    return first;
  }

 private:
  /// Calls libheif, and reports failed allocations as errors in the image: a damaged file can make
  /// the library request any amount of memory, which must not end the whole job.
  template <typename Call>
  void call(Call work) const {
    HeifError error;
    try {
      error = work();
    } catch (const std::bad_alloc&) {
      fail("{}: libheif cannot allocate enough memory to decode the image", heif_name(codec_));
    }
    if (error.code != 0) {
      fail("{}: {}", heif_name(codec_), error.message == nullptr ? "broken" : error.message);
    }
  }

  const Libheif& heif_;
  HeifCodec codec_;
  HeifContext* context_;
  HeifHandle* handle_ = nullptr;
  HeifImage* image_ = nullptr;
};

/// Returns the bytes that libheif and its decoders allocate, without the resulting RGB pixels.
std::uint64_t codec_memory(const HeifFacts& facts, std::uint64_t pixels, bool is_deep,
                           bool has_alpha) {
  constexpr std::uint64_t kFixedBytes = std::uint64_t{4} << 20;
  constexpr std::uint64_t kMaxPictures = 16;  // maximum that a decoder keeps
  const std::uint64_t deep = is_deep ? 2 : 1;
  // Bytes per pixel of the decoder's picture (up to three samples), its tables, and libheif's copy.
  const std::uint64_t coded = facts.codec == HeifCodec::kHevc ? 4 * deep : (is_deep ? 18 : 14);
  // Bytes per pixel of the RGB planes, and then of the interleaved pixels.
  const std::uint64_t converted = 3 * deep + 3 + (has_alpha ? 2 * deep : 0);
  return kFixedBytes + facts.largest_bytes * 2 + pixels * converted +
         facts.largest * coded * std::min(facts.pictures, kMaxPictures);
}

/// Returns the orientation in XMP. Pillow applies it to an AVIF without an orientation in a
/// property or in EXIF; its HEIC plugin ignores XMP.
Orientation orientation_by_xmp(const HeifDecode& decode, const HeifFacts& facts) {
  if (facts.codec != HeifCodec::kAv1 || facts.is_turned) {
    return {};
  }
  constexpr std::size_t kHeader = 4;  // bytes of the TIFF offset before the EXIF data
  const std::vector<std::byte> exif = decode.metadata("Exif", "");
  const auto exif_value = exif_orientation(std::span(exif).subspan(std::min(exif.size(), kHeader)));
  if (exif_value) {
    return {};
  }
  const std::vector<std::byte> xmp = decode.metadata("mime", "application/rdf+xml");
  return to_orientation(xmp_orientation(xmp).value_or(1));
}

/// Expands limited-range gray, 16..235, to 0..255 as libavif does.
void stretch_gray(Image& image) {
  for (std::uint8_t& value : std::span(image.pixels.data(), image.pixels.size())) {
    const int scaled = ((value - 16) * 255 * 2 + 219) / (219 * 2);
    value = static_cast<std::uint8_t>(std::clamp(scaled, 0, 255));
  }
}

}  // namespace

Decoded decode_heif(Bytes bytes, Decoding& decoding) {
  const HeifFacts facts = examine_heif(bytes, decoding.stop());
  const std::string_view name = heif_name(facts.codec);
  const Libheif& heif = libheif(facts.codec);
  HeifDecode decode(heif, facts.codec);
  decode.open(bytes, decoding);
  const int width = heif.handle_width(decode.handle());
  const int height = heif.handle_height(decode.handle());
  decoding.check_size(name, width, height);
  const std::uint64_t pixels = pixel_bytes(width, height) / kChannels;
  const auto limit = static_cast<std::uint64_t>(decoding.max_pixels());
  constexpr std::uint64_t kExtraWork = std::uint64_t{1} << 22;
  if (facts.largest > limit || facts.work > pixels * 8 + kExtraWork) {
    fail("{}: {} pixels are coded for an image of {}x{}, more than the limit", name, facts.work,
         width, height);
  }
  const bool has_alpha = heif.handle_has_alpha(decode.handle()) != 0;
  if (has_alpha && heif.handle_is_premultiplied(decode.handle()) != 0) {
    fail("{}: unsupported premultiplied alpha; expected alpha that is stored beside the colours",
         name);
  }
  const bool is_deep = heif.handle_bits(decode.handle()) != 8;
  const Orientation orientation = orientation_by_xmp(decode, facts);
  decoding.take_memory(
      {name, width, height, orientation},
      pixel_bytes(width, height) + codec_memory(facts, pixels, is_deep, has_alpha));
  decode.run(decoding.stop());
  std::size_t stride = 0;
  const std::uint8_t* from = decode.rows(width, height, stride);
  Image image(width, height);
  const std::size_t row_bytes = static_cast<std::size_t>(width) * kChannels;
  for (std::size_t row = 0; row < static_cast<std::size_t>(height); ++row) {
    decoding.poll();
    std::memcpy(image.pixels.data() + row * row_bytes, from + row * stride, row_bytes);
  }
  if (facts.is_limited_gray) {
    stretch_gray(image);
  }
  return {std::move(image), orientation};
}

}  // namespace fovea::image
