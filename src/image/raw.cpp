// The preview in a camera's raw image, through LibRaw, which is opened when the first such image
// comes. The preview is what the camera shows; developing the raw samples is a matter of taste.
#include "image/raw.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "core/shared_library.hpp"
#include "image/codecs.hpp"

namespace fovea::image {
namespace {

struct RawFile;  // libraw_data_t

/// libraw_processed_image_t, the same in versions 0.18 to 0.22.
struct RawPreview {
  int type;
  std::uint16_t height;
  std::uint16_t width;
  std::uint16_t colors;
  std::uint16_t bits;
  unsigned data_size;
  unsigned char data[1];
};
constexpr int kPreviewJpeg = 1;
constexpr int kPreviewBitmap = 2;

/// The start of libraw_data_t, the same in versions 0.18 to 0.22.
struct RawFileStart {
  void* image;
  std::uint16_t sizes[8];
  unsigned raw_pitch;
  double pixel_aspect;
  int flip;
};

constexpr unsigned kQuiet = 3;  // no messages on the standard error

struct Libraw {
  SharedLibrary library;
  RawFile* (*init)(unsigned) = nullptr;
  int (*open)(RawFile*, const void*, std::size_t) = nullptr;
  int (*unpack_preview)(RawFile*) = nullptr;
  RawPreview* (*make_preview)(RawFile*, int*) = nullptr;
  void (*clear_preview)(RawPreview*) = nullptr;
  void (*close)(RawFile*) = nullptr;
  const char* (*error_text)(int) = nullptr;

  Libraw() {
    constexpr const char* kNames[] = {"libraw_r.so.23", "libraw_r.so.26", "libraw_r.so.25",
                                      "libraw_r.so.24", "libraw_r.so.22", "libraw_r.so.21",
                                      "libraw_r.so.20", "libraw.so.23",   "libraw.so.20"};
    library = SharedLibrary::open("FOVEA_LIBRAW", kNames);
    if (!library.is_open()) {
      return;
    }
    library.bind(init, "libraw_init");
    library.bind(open, "libraw_open_buffer");
    library.bind(unpack_preview, "libraw_unpack_thumb");
    library.bind(make_preview, "libraw_dcraw_make_mem_thumb");
    library.bind(clear_preview, "libraw_dcraw_clear_mem");
    library.bind(close, "libraw_close");
    library.bind(error_text, "libraw_strerror");
  }
};

const Libraw& libraw() {
  static const Libraw opened;
  if (!opened.library.is_open()) {
    fail("RAW: needs LibRaw, which cannot be opened ({}); apt-get install libraw-bin",
         opened.library.reason());
  }
  return opened;
}

void check_raw(const Libraw& raw, int code, std::string_view what) {
  if (code != 0) {
    fail("RAW: {}: {}", what, raw.error_text(code));
  }
}

/// The orientation for LibRaw's flip: bit 0 mirrors x, bit 1 mirrors y, bit 2 exchanges the axes.
Orientation orientation_of_flip(int flip) {
  constexpr int kExif[] = {1, 2, 4, 3, 5, 8, 6, 7};
  return orientation_of(flip >= 0 && flip < 8 ? kExif[flip] : 1);
}

}  // namespace

struct RawPreviewReader::State {
  const Libraw& raw;
  RawPreview* preview = nullptr;
  int flip = 0;

  explicit State(const Libraw& opened) : raw(opened) {}
  ~State() {
    if (preview != nullptr) {
      raw.clear_preview(preview);
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void read(Bytes bytes, StopFlag stop) {
    const auto close = [this](RawFile* file) { raw.close(file); };
    const std::unique_ptr<RawFile, decltype(close)> file(raw.init(kQuiet), close);
    if (!file) {
      throw std::bad_alloc();
    }
    check_raw(raw, raw.open(file.get(), bytes.data(), bytes.size()), "unreadable");
    stop.poll();
    RawFileStart start{};
    std::memcpy(&start, file.get(), sizeof(start));
    flip = start.flip;
    check_raw(raw, raw.unpack_preview(file.get()), "no preview that can be read");
    stop.poll();
    int error = 0;
    preview = raw.make_preview(file.get(), &error);
    check_raw(raw, error, "no preview that can be read");
    if (preview == nullptr) {
      fail("RAW: holds no preview");
    }
  }
};

RawPreviewReader::RawPreviewReader(Bytes bytes, StopFlag stop)
    : state_(std::make_unique<State>(libraw())) {
  try {
    state_->read(bytes, stop);
  } catch (const std::bad_alloc&) {
    // A damaged file can make LibRaw ask for any number of bytes, and must not end a job.
    fail("RAW: the memory for its preview cannot be allocated");
  }
}

RawPreviewReader::~RawPreviewReader() = default;

bool RawPreviewReader::is_jpeg() const {
  return state_->preview->type == kPreviewJpeg;
}

Bytes RawPreviewReader::bytes() const {
  return std::as_bytes(std::span(state_->preview->data, state_->preview->data_size));
}

Decoded RawPreviewReader::bitmap(Decoding& decoding) const {
  const RawPreview& preview = *state_->preview;
  const int width = preview.width;
  const int height = preview.height;
  if (preview.type != kPreviewBitmap || preview.bits != 8 ||
      (preview.colors != 1 && preview.colors != kChannels)) {
    fail("RAW: unsupported preview of kind {}, {} samples of {} bits; expected JPEG or RGB",
         preview.type, preview.colors, preview.bits);
  }
  decoding.check_size("RAW", width, height);
  const std::uint64_t needed = pixel_bytes(width, height) / kChannels * preview.colors;
  if (preview.data_size < needed) {
    fail("RAW: truncated preview: {} bytes for {}x{} pixels", preview.data_size, width, height);
  }
  const Orientation orientation = orientation_of_flip(state_->flip);
  decoding.take_memory({"RAW", width, height, orientation},
                       pixel_bytes(width, height) + preview.data_size);
  Image image(width, height);
  if (preview.colors == kChannels) {
    std::memcpy(image.pixels.data(), preview.data, image.pixels.size());
  } else {
    for (std::size_t pixel = 0; pixel < image.pixels.size(); ++pixel) {
      image.pixels.data()[pixel] = preview.data[pixel / kChannels];
    }
  }
  return {std::move(image), orientation};
}

}  // namespace fovea::image
