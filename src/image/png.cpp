// PNG through libpng, with the pixels of Pillow's decoder: alpha dropped, 16-bit colour cut to its
// upper byte, 16-bit gray clipped at 255.
// python-pillow@4e5f09f src/PIL/PngImagePlugin.py, src/libImaging/Convert.c: I16_RGB.
#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <png.h>

#include "core/error.hpp"
#include "image/codecs.hpp"
#include "image/exif.hpp"

namespace fovea::image {
namespace {

class PngReader {
 public:
  explicit PngReader(Bytes bytes) : bytes_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  Decoded decode(std::int64_t max_pixels) {
    read_header();
    check_size("PNG", width_, height_, max_pixels);
    start();
    Image image(static_cast<int>(width_), static_cast<int>(height_));
    if (gray16_) {
      read_gray16(image);
    } else {
      read_rows(image.pixels.data());
    }
    return {std::move(image), orientation()};
  }

 private:
  /// Runs `step`, which calls libpng and owns nothing, so that an error may jump out of it.
  template <typename Step>
  bool run(Step step) {
    if (setjmp(jump_) != 0) {
      return false;
    }
    step();
    return true;
  }

  [[noreturn]] void fail_broken() const {
    if (row_ == 0) {
      fail("PNG: {}", message_);
    }
    if (passes_ > 1) {
      fail("PNG: {} after {} of {} rows of pass {} of {}", message_, row_, height_, pass_ + 1,
           passes_);
    }
    fail("PNG: {} after {} of {} rows", message_, row_, height_);
  }

  void read_header() {
    // Only these of the ancillary chunks matter; a broken colour profile is no reason to refuse.
    static constexpr png_byte kWanted[] = "eXIf\0tEXt\0zTXt\0iTXt";
    const bool ok = run([this] {
      png_set_read_fn(png_, this, on_read);
      png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
      // Streams that declare too small a window are read, as zlib alone would.
      png_set_option(png_, PNG_MAXIMUM_INFLATE_WINDOW, PNG_OPTION_ON);
      png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
      png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_AS_DEFAULT, kWanted, 4);
      png_read_info(png_, info_);
      width_ = png_get_image_width(png_, info_);
      height_ = png_get_image_height(png_, info_);
    });
    if (!ok) {
      fail_broken();
    }
  }

  void start() {
    const bool ok = run([this] {
      const int color = png_get_color_type(png_, info_);
      const int depth = png_get_bit_depth(png_, info_);
      gray16_ = color == PNG_COLOR_TYPE_GRAY && depth == 16;
      if (!gray16_) {
        png_set_strip_16(png_);
        png_set_strip_alpha(png_);
        if (color == PNG_COLOR_TYPE_PALETTE) {
          png_set_palette_to_rgb(png_);
        } else if ((color & PNG_COLOR_MASK_COLOR) == 0) {
          if (depth < 8) {
            png_set_expand_gray_1_2_4_to_8(png_);
          }
          png_set_gray_to_rgb(png_);
        }
      }
      passes_ = png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
      row_bytes_ = png_get_rowbytes(png_, info_);
    });
    if (!ok) {
      fail_broken();
    }
    if (row_bytes_ != std::size_t{width_} * (gray16_ ? 2 : kChannels)) {
      fail("PNG: a row of {} pixels decodes to {} bytes", width_, row_bytes_);
    }
  }

  void read_rows(std::uint8_t* pixels) {
    const bool ok = run([this, pixels] {
      for (pass_ = 0; pass_ < passes_; ++pass_) {
        for (row_ = 0; row_ < height_; ++row_) {
          png_read_row(png_, pixels + row_ * row_bytes_, nullptr);
        }
      }
    });
    if (!ok) {
      fail_broken();
    }
  }

  void read_gray16(Image& image) {
    AlignedBuffer<std::uint8_t> samples(height_ * row_bytes_);
    read_rows(samples.data());
    std::uint8_t* to = image.pixels.data();
    for (std::size_t at = 0; at < samples.size(); at += 2) {
      const std::uint8_t value = samples[at] == 0 ? samples[at + 1] : std::uint8_t{255};
      to = std::fill_n(to, kChannels, value);
    }
  }

  /// Metadata may follow the pixels. What is broken there does not touch them: as Pillow, take
  /// what could be read.
  Orientation orientation() {
    run([this] { png_read_end(png_, info_); });
    std::string exif;
    std::string_view xmp;
    png_byte* data = nullptr;
    png_uint_32 size = 0;
    if (png_get_eXIf_1(png_, info_, &size, &data) != 0) {
      exif.assign(reinterpret_cast<const char*>(data), size);
    }
    png_text* texts = nullptr;
    int count = 0;
    png_get_text(png_, info_, &texts, &count);
    for (const png_text& text : std::span(texts, static_cast<std::size_t>(count))) {
      const std::string_view key = text.key;
      const bool international = text.compression >= PNG_ITXT_COMPRESSION_NONE;
      const std::string_view value(text.text, international ? text.itxt_length : text.text_length);
      if (key == "XML:com.adobe.xmp") {
        xmp = value;
      } else if (key == "Raw profile type exif" && exif.empty()) {
        exif = from_raw_profile(value);
      }
    }
    return orientation_of(
        Metadata{.exif = std::as_bytes(std::span(exif)), .xmp = std::as_bytes(std::span(xmp))});
  }

  /// "\nexif\n   <length>\n<hexadecimal>\n", as ImageMagick writes. Empty when it is not that.
  static std::string from_raw_profile(std::string_view text) {
    for (int line = 0; line < 3; ++line) {
      const std::size_t end = text.find('\n');
      if (end == std::string_view::npos) {
        return {};
      }
      text.remove_prefix(end + 1);
    }
    std::string bytes;
    int digits = 0;
    int value = 0;
    for (const char c : text) {
      int digit = 0;
      if (c >= '0' && c <= '9') {
        digit = c - '0';
      } else if (c >= 'a' && c <= 'f') {
        digit = c - 'a' + 10;
      } else if (c >= 'A' && c <= 'F') {
        digit = c - 'A' + 10;
      } else {
        continue;  // line breaks
      }
      value = value * 16 + digit;
      if (++digits % 2 == 0) {
        bytes.push_back(static_cast<char>(value));
        value = 0;
      }
    }
    return bytes;
  }

  // The hooks that libpng calls. None may throw: there are C frames between them and us.

  [[noreturn]] static void on_error(png_struct* png, const char* message) {
    auto* self = static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(self->message_, message, sizeof(self->message_) - 1);
    std::longjmp(self->jump_, 1);
  }
  static void on_warning(png_struct*, const char*) {}
  static void on_read(png_struct* png, png_byte* to, std::size_t size) {
    auto* self = static_cast<PngReader*>(png_get_io_ptr(png));
    if (self->bytes_.size() - self->offset_ < size) {
      png_error(png, "truncated");
    }
    std::memcpy(to, self->bytes_.data() + self->offset_, size);
    self->offset_ += size;
  }

  Bytes bytes_;
  std::size_t offset_ = 0;
  png_struct* png_ = nullptr;
  png_info* info_ = nullptr;
  std::jmp_buf jump_{};
  char message_[128] = {};
  std::uint32_t width_ = 0;
  std::uint32_t height_ = 0;
  std::uint32_t row_ = 0;
  int pass_ = 0;
  int passes_ = 1;
  std::size_t row_bytes_ = 0;
  bool gray16_ = false;
};

}  // namespace

Decoded decode_png(Bytes bytes, std::int64_t max_pixels) {
  return PngReader(bytes).decode(max_pixels);
}

}  // namespace fovea::image
