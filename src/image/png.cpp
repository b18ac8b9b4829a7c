// Reads PNG through libpng, with the pixels of Pillow's decoder: alpha is dropped, 16-bit colour is
// cut to its upper byte, 16-bit gray is clipped at 255.
// python-pillow@4e5f09f src/PIL/PngImagePlugin.py, src/libImaging/Convert.c: I16_RGB.
#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include <png.h>

#include "core/error.hpp"
#include "image/codecs.hpp"
#include "image/png_chunks.hpp"

namespace fovea::image {
namespace {

class PngReader {
 public:
  PngReader(Bytes bytes, Decoding& decoding) : bytes_(bytes), decoding_(decoding) {
    png_ = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, this, on_error, on_warning, this,
                                    on_allocate, on_free);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  Decoded decode() {
    const Orientation orientation = read_png_chunks(bytes_, decoding_.stop());
    read_header();
    decoding_.check_size("PNG", width_, height_);
    decoding_.take_memory({"PNG", static_cast<int>(width_), static_cast<int>(height_), orientation},
                          pixel_bytes(width_, height_) + codec_memory());
    start();
    Image image(static_cast<int>(width_), static_cast<int>(height_));
    read_rows(image.pixels.data());
    image.lost_range = lost_range_;
    return {std::move(image), orientation};
  }

 private:
  /// Runs `step`, which calls libpng. libpng reports errors by longjmp, so it may own no resources.
  template <typename Step>
  bool run(Step step) {
    if (setjmp(jump_) != 0) {
      return false;
    }
    step();
    return true;
  }

  [[noreturn]] void fail_broken() const {
    decoding_.poll();
    if (out_of_memory_) {
      throw std::bad_alloc();
    }
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
    const bool ok = run([this] {
      png_set_read_fn(png_, this, on_read);
      png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
      // Accepts streams that declare too small a window, as plain zlib does.
      png_set_option(png_, PNG_MAXIMUM_INFLATE_WINDOW, PNG_OPTION_ON);
      // All chunks but those of the pixels have been read before.
      png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
      png_read_info(png_, info_);
      width_ = png_get_image_width(png_, info_);
      height_ = png_get_image_height(png_, info_);
    });
    if (!ok) {
      fail_broken();
    }
  }

  /// The memory that libpng allocates: the current row, its transformed copy and the previous row.
  [[nodiscard]] std::uint64_t codec_memory() const {
    constexpr std::uint64_t kInflate = std::uint64_t{64} << 10;
    const std::uint64_t depth = png_get_bit_depth(png_, info_);
    const std::uint64_t stored = png_get_channels(png_, info_) * depth;
    const std::uint64_t transformed = depth == 16 ? 64 : 32;
    return kInflate + width_ * (stored + transformed) / 8;
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
      png_set_read_user_transform_fn(png_, on_row);
      png_read_update_info(png_, info_);
      row_bytes_ = png_get_rowbytes(png_, info_);
    });
    if (!ok) {
      fail_broken();
    }
    rows_left_ = passes_ == 1 ? height_ : interlaced_rows();
    if (row_bytes_ != std::size_t{width_} * (gray16_ ? 2 : kChannels)) {
      fail("PNG: a row of {} pixels decodes to the wrong size of {} bytes", width_, row_bytes_);
    }
  }

  [[nodiscard]] std::uint64_t interlaced_rows() const {
    std::uint64_t rows = 0;
    for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; ++pass) {
      rows += PNG_PASS_COLS(width_, pass) == 0 ? 0 : PNG_PASS_ROWS(height_, pass);
    }
    return rows;
  }

  /// Reads all rows. 16-bit gray samples are read into the end of their RGB row and expanded in
  /// place.
  void read_rows(std::uint8_t* pixels) {
    const std::size_t stride = std::size_t{width_} * kChannels;
    const std::size_t samples = stride - row_bytes_;
    const bool ok = run([this, pixels, stride, samples] {
      for (pass_ = 0; pass_ < passes_; ++pass_) {
        for (row_ = 0; row_ < height_; ++row_) {
          check_stop();
          png_read_row(png_, pixels + row_ * stride + samples, nullptr);
        }
      }
    });
    if (!ok && rows_left_ > 0) {
      fail_broken();
    }
    for (std::uint32_t row = 0; gray16_ && row < height_; ++row) {
      spread_gray16(pixels + row * stride, samples);
    }
  }

  /// Jumps out of libpng if the stop flag is set.
  void check_stop() {
    if (decoding_.stop().is_set()) {
      png_error(png_, "stopped");
    }
  }

  void spread_gray16(std::uint8_t* row, std::size_t samples) {
    const std::uint8_t* from = row + samples;
    for (std::uint32_t x = 0; x < width_; ++x, from += 2) {
      lost_range_ = lost_range_ || from[0] != 0;
      const std::uint8_t value = from[0] == 0 ? from[1] : std::uint8_t{255};
      row = std::fill_n(row, kChannels, value);
    }
  }

  // Callbacks for libpng. None may throw, since C frames lie between them and their caller.

  [[noreturn]] static void on_error(png_struct* png, const char* message) {
    auto* self = static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(self->message_, message, sizeof(self->message_) - 1);
    std::longjmp(self->jump_, 1);
  }
  static void on_warning(png_struct*, const char*) {}
  static void* on_allocate(png_struct* png, png_alloc_size_t size) {
    void* memory = std::malloc(size);
    if (memory == nullptr) {
      static_cast<PngReader*>(png_get_mem_ptr(png))->out_of_memory_ = true;
    }
    return memory;
  }
  static void on_free(png_struct*, void* memory) { std::free(memory); }
  /// Called per row once its pixels are decoded.
  static void on_row(png_struct* png, png_row_info*, png_byte*) {
    --static_cast<PngReader*>(png_get_io_ptr(png))->rows_left_;
  }
  static void on_read(png_struct* png, png_byte* to, std::size_t size) {
    auto* self = static_cast<PngReader*>(png_get_io_ptr(png));
    self->check_stop();
    // libpng would unpack the data after the last row; Pillow ignores it.
    if (self->rows_left_ == 0) {
      std::longjmp(self->jump_, 1);
    }
    if (self->bytes_.size() - self->offset_ < size) {
      png_error(png, "truncated");
    }
    std::memcpy(to, self->bytes_.data() + self->offset_, size);
    self->offset_ += size;
  }

  Bytes bytes_;
  Decoding& decoding_;
  std::size_t offset_ = 0;
  bool out_of_memory_ = false;
  png_struct* png_ = nullptr;
  png_info* info_ = nullptr;
  std::jmp_buf jump_{};
  char message_[128] = {};
  std::uint32_t width_ = 0;
  std::uint32_t height_ = 0;
  std::uint32_t row_ = 0;
  int pass_ = 0;
  int passes_ = 1;
  // The number of rows in all passes that are not yet unpacked; the maximum until it is known.
  std::uint64_t rows_left_ = std::numeric_limits<std::uint64_t>::max();
  std::size_t row_bytes_ = 0;
  bool gray16_ = false;
  bool lost_range_ = false;
};

}  // namespace

Decoded decode_png(Bytes bytes, Decoding& decoding) {
  return PngReader(bytes, decoding).decode();
}

}  // namespace fovea::image
