// TIFF through libtiff: the first page, in the layouts that Pillow opens. Others are refused by
// name. python-pillow@4e5f09f src/PIL/TiffImagePlugin.py: OPEN_INFO, src/libImaging/TiffDecode.c.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tiffio.h>

#include "core/error.hpp"
#include "image/cmyk.hpp"
#include "image/codecs.hpp"
#include "image/exif.hpp"

namespace fovea::image {
namespace {

struct CloseTiff {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
};
struct FreeOptions {
  void operator()(TIFFOpenOptions* options) const { TIFFOpenOptionsFree(options); }
};

/// How the file describes its samples; the same fields as Pillow's OPEN_INFO.
struct Layout {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint16_t photometric = 0;
  std::uint16_t bits = 1;
  std::uint16_t samples = 1;
  std::uint16_t format = SAMPLEFORMAT_UINT;
  std::uint16_t compression = COMPRESSION_NONE;
  std::uint16_t extra_samples = 0;
  std::uint16_t first_extra = 0;
  bool separate = false;  // each sample in a plane of its own
  bool big_endian = false;

  [[nodiscard]] std::string name() const {
    return fmt::format(
        "photometric {}, {} samples of {} bits (format {}), {} extra ({}), {}, compression {}",
        photometric, samples, bits, format, extra_samples, first_extra,
        separate ? "separate planes" : "interleaved", compression);
  }
};

class TiffReader {
 public:
  explicit TiffReader(Bytes bytes) : bytes_(bytes) {}

  Decoded decode(std::int64_t max_pixels) {
    open(max_pixels);
    read_layout();
    check_size("TIFF", layout_.width, layout_.height, max_pixels);
    choose();
    Image image(static_cast<int>(layout_.width), static_cast<int>(layout_.height));
    if (via_rgba_) {
      read_rgba(image);
    } else if (TIFFIsTiled(tiff_.get()) != 0) {
      read_tiles(image, max_pixels);
    } else {
      read_strips(image);
    }
    return {std::move(image), orientation()};
  }

 private:
  enum class Pixels { kGray, kGray16, kGrayI32, kGrayFloat, kIndex, kRgb, kPremultiplied, kCmyk };

  void open(std::int64_t max_pixels) {
    const std::unique_ptr<TIFFOpenOptions, FreeOptions> options(TIFFOpenOptionsAlloc());
    // Eight bytes a pixel is the most that any layout read here takes at once.
    TIFFOpenOptionsSetMaxSingleMemAlloc(
        options.get(), static_cast<tmsize_t>(std::max<std::int64_t>(max_pixels * 8, 1 << 24)));
    TIFFOpenOptionsSetErrorHandlerExtR(options.get(), on_error, this);
    TIFFOpenOptionsSetWarningHandlerExtR(options.get(), on_warning, this);
    tiff_.reset(TIFFClientOpenExt("image", "rm", this, on_read, on_write, on_seek, on_close,
                                  on_size, nullptr, nullptr, options.get()));
    if (!tiff_) {
      fail("TIFF: {} ({} bytes)", message(), bytes_.size());
    }
  }

  /// What libtiff last complained about, and whether it had run out of bytes.
  [[nodiscard]] std::string message() const {
    const std::string text = message_[0] == '\0' ? "broken" : message_.data();
    return at_ > bytes_.size() || short_read_ ? "truncated: " + text : text;
  }

  void read_layout() {
    TIFF* tiff = tiff_.get();
    if (TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &layout_.width) == 0 ||
        TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &layout_.height) == 0) {
      fail("TIFF: no dimensions");
    }
    if (TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &layout_.photometric) == 0) {
      layout_.photometric = PHOTOMETRIC_MINISWHITE;
    }
    std::uint16_t planar = PLANARCONFIG_CONTIG;
    TIFFGetFieldDefaulted(tiff, TIFFTAG_BITSPERSAMPLE, &layout_.bits);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLESPERPIXEL, &layout_.samples);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLEFORMAT, &layout_.format);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_COMPRESSION, &layout_.compression);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_PLANARCONFIG, &planar);
    std::uint16_t* extra = nullptr;
    TIFFGetFieldDefaulted(tiff, TIFFTAG_EXTRASAMPLES, &layout_.extra_samples, &extra);
    if (layout_.extra_samples > 0 && extra != nullptr) {
      layout_.first_extra = extra[0];
    }
    layout_.separate = planar == PLANARCONFIG_SEPARATE && layout_.samples > 1;
    layout_.big_endian = TIFFIsBigEndian(tiff) != 0;
    TIFFGetField(tiff, TIFFTAG_ORIENTATION, &stored_orientation_);
  }

  [[noreturn]] void refuse() const { fail("TIFF: layout is not read: {}", layout_.name()); }

  void choose() {
    if (layout_.format == SAMPLEFORMAT_VOID) {
      refuse();
    }
    switch (layout_.photometric) {
      case PHOTOMETRIC_MINISWHITE:
      case PHOTOMETRIC_MINISBLACK:
        choose_gray();
        break;
      case PHOTOMETRIC_PALETTE:
        choose_palette();
        break;
      case PHOTOMETRIC_RGB:
        require(layout_.format == SAMPLEFORMAT_UINT && layout_.samples >= 3 &&
                layout_.samples <= 6 && (layout_.bits == 8 || layout_.bits == 16));
        // Pillow reads at most one more sample of 16 bits, and separate planes of colour alone or
        // with one alpha.
        require(layout_.samples <= 4 || (layout_.bits == 8 && !layout_.separate));
        require(layout_.samples == 3 || layout_.extra_samples == 0 ||
                layout_.extra_samples == layout_.samples - 3);
        pixels_ = layout_.samples > 3 && layout_.extra_samples > 0 &&
                          layout_.first_extra == EXTRASAMPLE_ASSOCALPHA
                      ? Pixels::kPremultiplied
                      : Pixels::kRgb;
        break;
      case PHOTOMETRIC_SEPARATED:
        require(layout_.format == SAMPLEFORMAT_UINT && layout_.samples >= 4 &&
                layout_.samples <= (layout_.bits == 8 ? 6 : 4) &&
                (layout_.bits == 8 || layout_.bits == 16) && layout_.first_extra == 0 &&
                (layout_.samples == 4 || !layout_.separate));
        pixels_ = Pixels::kCmyk;
        break;
      case PHOTOMETRIC_YCBCR:
        choose_ycbcr();
        break;
      default:
        refuse();
    }
    refuse_misread();
  }

  /// Layouts that Pillow refuses, or opens and then reads as something else.
  void refuse_misread() const {
    const bool raw = layout_.compression == COMPRESSION_NONE;
    if (layout_.separate) {
      require(pixels_ == Pixels::kRgb || pixels_ == Pixels::kCmyk ||
              pixels_ == Pixels::kPremultiplied);
    }
    if (layout_.separate && raw) {
      // Unpacked by the names of the samples, as 8 bits.
      const bool unnamed = layout_.extra_samples > 0 && layout_.first_extra == 0;
      require(layout_.bits == 8 && pixels_ != Pixels::kPremultiplied && !unnamed);
    }
    if (layout_.big_endian && !raw) {
      // libtiff has swapped the bytes already; Pillow swaps these again.
      const bool swapped_twice = pixels_ == Pixels::kGrayI32 || pixels_ == Pixels::kGrayFloat ||
                                 (pixels_ == Pixels::kGray16 && layout_.format == SAMPLEFORMAT_INT);
      require(!swapped_twice);
    }
  }

  void require(bool known) const {
    if (!known) {
      refuse();
    }
  }

  void choose_gray() {
    inverted_ = layout_.photometric == PHOTOMETRIC_MINISWHITE;
    if (layout_.samples == 2) {  // with alpha, which is dropped
      require(layout_.bits == 8 && !inverted_ && layout_.format == SAMPLEFORMAT_UINT &&
              layout_.extra_samples == 1 && layout_.first_extra != EXTRASAMPLE_ASSOCALPHA &&
              !layout_.separate);
      return;
    }
    require(layout_.samples == 1 && layout_.extra_samples == 0);
    const bool is_unsigned = layout_.format == SAMPLEFORMAT_UINT;
    const bool is_signed = layout_.format == SAMPLEFORMAT_INT;
    switch (layout_.bits) {
      case 1:
      case 2:
      case 4:
        require(is_unsigned);
        break;
      case 8:
        require(is_unsigned || (is_signed && !inverted_));
        break;
      case 16:
        // White-is-zero of 16 bits is known to Pillow in little-endian files only, and not
        // inverted.
        require((is_unsigned && !(inverted_ && layout_.big_endian)) || (is_signed && !inverted_));
        inverted_ = false;
        pixels_ = Pixels::kGray16;
        break;
      case 32:
        if (layout_.format == SAMPLEFORMAT_IEEEFP) {
          inverted_ = false;
          pixels_ = Pixels::kGrayFloat;
          break;
        }
        require(!inverted_ && (is_signed || (is_unsigned && !layout_.big_endian)));
        pixels_ = Pixels::kGrayI32;
        break;
      default:
        refuse();
    }
  }

  void choose_palette() {
    require(layout_.format == SAMPLEFORMAT_UINT &&
            (layout_.bits == 1 || layout_.bits == 2 || layout_.bits == 4 || layout_.bits == 8));
    require(layout_.samples == 1 ||
            (layout_.samples == 2 && layout_.bits == 8 && layout_.extra_samples == 1 &&
             !layout_.separate && layout_.first_extra != EXTRASAMPLE_ASSOCALPHA));
    pixels_ = Pixels::kIndex;
    std::uint16_t* red = nullptr;
    std::uint16_t* green = nullptr;
    std::uint16_t* blue = nullptr;
    if (TIFFGetField(tiff_.get(), TIFFTAG_COLORMAP, &red, &green, &blue) == 0) {
      fail("TIFF: palette image without a palette");
    }
    for (std::size_t index = 0; index < std::size_t{1} << layout_.bits; ++index) {
      palette_[index] = {static_cast<std::uint8_t>(red[index] >> 8),
                         static_cast<std::uint8_t>(green[index] >> 8),
                         static_cast<std::uint8_t>(blue[index] >> 8)};
    }
  }

  void choose_ycbcr() {
    require(layout_.format == SAMPLEFORMAT_UINT && layout_.bits == 8 && layout_.samples == 3 &&
            layout_.extra_samples == 0);
    require(layout_.compression != COMPRESSION_NONE && layout_.compression != COMPRESSION_OJPEG);
    pixels_ = Pixels::kRgb;
    if (layout_.compression == COMPRESSION_JPEG && !layout_.separate) {
      TIFFSetField(tiff_.get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    } else {
      via_rgba_ = true;  // libtiff knows the subsampling
      layout_.separate = false;
    }
  }

  // Rows of interleaved samples to RGB.

  [[nodiscard]] std::size_t row_bytes(std::size_t pixels, std::size_t samples) const {
    return (pixels * samples * layout_.bits + 7) / 8;
  }

  /// The sample as 8 bits: the upper byte of 16. Both in the machine's byte order by now.
  [[nodiscard]] std::uint8_t sample8(const std::uint8_t* row, std::size_t index) const {
    if (layout_.bits == 8) {
      return row[index];
    }
    constexpr std::size_t kUpper = std::endian::native == std::endian::little ? 1 : 0;
    return row[index * 2 + kUpper];
  }

  [[nodiscard]] std::uint8_t small_sample(const std::uint8_t* row, std::size_t index) const {
    const std::size_t bit = index * layout_.bits;
    const int shift = 8 - layout_.bits - static_cast<int>(bit % 8);
    return static_cast<std::uint8_t>((row[bit / 8] >> shift) & ((1 << layout_.bits) - 1));
  }

  template <typename T>
  [[nodiscard]] static T native(const std::uint8_t* row, std::size_t index) {
    T value;
    std::memcpy(&value, row + index * sizeof(T), sizeof(T));
    return value;
  }

  /// Gray of any depth, 0..255. More than 8 bits are clipped, not scaled, as Pillow does.
  [[nodiscard]] std::uint8_t gray(const std::uint8_t* row, std::size_t x) const {
    switch (pixels_) {
      case Pixels::kGray16:
        if (layout_.format == SAMPLEFORMAT_INT) {
          return static_cast<std::uint8_t>(std::clamp<int>(native<std::int16_t>(row, x), 0, 255));
        }
        return static_cast<std::uint8_t>(std::min<int>(native<std::uint16_t>(row, x), 255));
      case Pixels::kGrayI32:
        return static_cast<std::uint8_t>(std::clamp(native<std::int32_t>(row, x), 0, 255));
      case Pixels::kGrayFloat: {
        const float value = native<float>(row, x);
        return value > 0.0F ? static_cast<std::uint8_t>(std::min(value, 255.0F)) : std::uint8_t{0};
      }
      default:
        break;
    }
    const int most = (1 << layout_.bits) - 1;
    const int value = layout_.bits == 8 ? row[x * layout_.samples] : small_sample(row, x);
    return static_cast<std::uint8_t>((inverted_ ? most - value : value) * (255 / most));
  }

  void convert(const std::uint8_t* row, std::size_t pixels, std::size_t samples,
               std::uint8_t* to) const {
    for (std::size_t x = 0; x < pixels; ++x, to += kChannels) {
      const std::size_t first = x * samples;
      switch (pixels_) {
        case Pixels::kIndex: {
          const auto& color = palette_[layout_.bits == 8 ? row[first] : small_sample(row, x)];
          std::copy(color.begin(), color.end(), to);
          break;
        }
        case Pixels::kRgb:
          for (std::size_t channel = 0; channel < kChannels; ++channel) {
            to[channel] = sample8(row, first + channel);
          }
          break;
        case Pixels::kPremultiplied: {
          const int alpha = sample8(row, first + 3);
          for (std::size_t channel = 0; channel < kChannels; ++channel) {
            const int value = sample8(row, first + channel);
            to[channel] =
                static_cast<std::uint8_t>(alpha == 0 ? 0 : std::min(value * 255 / alpha, 255));
          }
          break;
        }
        case Pixels::kCmyk:
          for (std::size_t channel = 0; channel < kChannels; ++channel) {
            to[channel] = ink_to_light(sample8(row, first + channel), sample8(row, first + 3));
          }
          break;
        default:
          std::fill_n(to, kChannels, gray(row, x));
          break;
      }
    }
  }

  // Strips and tiles are blocks of rows. Separate planes are interleaved before conversion.

  struct Block {
    std::size_t rows;
    std::size_t pixels;   // in a row of the block
    std::size_t stride;   // bytes of a row in one plane
    std::size_t planes;   // read one after another
    std::size_t samples;  // a pixel, in the interleaved row
  };

  [[nodiscard]] Block block(std::size_t rows, std::size_t pixels, std::int64_t stride) const {
    const std::size_t planes =
        layout_.separate ? (pixels_ == Pixels::kRgb ? 3U : 4U) : std::size_t{1};
    const std::size_t samples = layout_.separate ? planes : layout_.samples;
    const std::size_t needed = row_bytes(pixels, layout_.separate ? 1 : samples);
    if (stride <= 0 || static_cast<std::size_t>(stride) < needed) {
      fail("TIFF: rows of {} pixels take {} bytes, not {} ({})", pixels, needed, stride,
           layout_.name());
    }
    return {rows, pixels, static_cast<std::size_t>(stride), planes, samples};
  }

  /// Converts the top left `rows` x `pixels` of a block whose planes are in `data`.
  void place(const Block& block, const std::vector<std::uint8_t>& data, std::size_t rows,
             std::size_t pixels, Image& image, std::size_t x, std::size_t y) {
    const std::size_t sample_bytes = layout_.bits / 8;
    for (std::size_t row = 0; row < rows; ++row) {
      const std::uint8_t* source = data.data() + row * block.stride;
      if (layout_.separate) {
        interleaved_.resize(pixels * block.samples * sample_bytes);
        for (std::size_t plane = 0; plane < block.planes; ++plane) {
          const std::uint8_t* from = source + plane * block.rows * block.stride;
          for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
            std::memcpy(interleaved_.data() + (pixel * block.samples + plane) * sample_bytes,
                        from + pixel * sample_bytes, sample_bytes);
          }
        }
        source = interleaved_.data();
      }
      convert(source, pixels, block.samples,
              image.pixels.data() +
                  ((y + row) * static_cast<std::size_t>(image.width) + x) * kChannels);
    }
  }

  void read_strips(Image& image) {
    TIFF* tiff = tiff_.get();
    std::uint32_t rows_per_strip = 0;
    TIFFGetFieldDefaulted(tiff, TIFFTAG_ROWSPERSTRIP, &rows_per_strip);
    const std::size_t rows = std::min(rows_per_strip, layout_.height);
    if (rows == 0) {
      fail("TIFF: strips of no rows");
    }
    const Block strip = block(rows, layout_.width, TIFFScanlineSize64(tiff));
    const std::size_t plane_bytes = strip.rows * strip.stride;
    std::vector<std::uint8_t> data(plane_bytes * strip.planes);
    for (std::uint32_t y = 0; y < layout_.height; y += static_cast<std::uint32_t>(rows)) {
      const std::size_t here = std::min<std::size_t>(rows, layout_.height - y);
      for (std::size_t plane = 0; plane < strip.planes; ++plane) {
        const std::uint32_t index = TIFFComputeStrip(tiff, y, static_cast<std::uint16_t>(plane));
        const auto wanted = static_cast<tmsize_t>(here * strip.stride);
        message_[0] = '\0';
        if (TIFFReadEncodedStrip(tiff, index, data.data() + plane * plane_bytes, wanted) !=
            wanted) {
          fail("TIFF: {} after {} of {} rows", message(), y, layout_.height);
        }
      }
      place(strip, data, here, layout_.width, image, 0, y);
    }
  }

  void read_tiles(Image& image, std::int64_t max_pixels) {
    TIFF* tiff = tiff_.get();
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &width);
    TIFFGetField(tiff, TIFFTAG_TILELENGTH, &height);
    constexpr std::int64_t kAnySmallTile = std::int64_t{1} << 20;
    check_size("TIFF tile", width, height, std::max(max_pixels, kAnySmallTile));
    const Block tile = block(height, width, static_cast<std::int64_t>(TIFFTileRowSize64(tiff)));
    const std::size_t plane_bytes = tile.rows * tile.stride;
    std::vector<std::uint8_t> data(plane_bytes * tile.planes);
    for (std::uint32_t y = 0; y < layout_.height; y += height) {
      for (std::uint32_t x = 0; x < layout_.width; x += width) {
        for (std::size_t plane = 0; plane < tile.planes; ++plane) {
          const std::uint32_t index =
              TIFFComputeTile(tiff, x, y, 0, static_cast<std::uint16_t>(plane));
          const auto wanted = static_cast<tmsize_t>(plane_bytes);
          message_[0] = '\0';
          if (TIFFReadEncodedTile(tiff, index, data.data() + plane * plane_bytes, wanted) !=
              wanted) {
            fail("TIFF: {} in the tile at column {}, row {} of {}", message(), x, y,
                 layout_.height);
          }
        }
        place(tile, data, std::min(height, layout_.height - y), std::min(width, layout_.width - x),
              image, x, y);
        if (layout_.width - x <= width) {
          break;  // x + width may not fit
        }
      }
      if (layout_.height - y <= height) {
        break;
      }
    }
  }

  void read_rgba(Image& image) {
    std::vector<std::uint32_t> raster(static_cast<std::size_t>(layout_.width) * layout_.height);
    message_[0] = '\0';
    // The orientation is applied later; libtiff must not.
    TIFFSetField(tiff_.get(), TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);
    if (TIFFReadRGBAImageOriented(tiff_.get(), layout_.width, layout_.height, raster.data(),
                                  ORIENTATION_TOPLEFT, 1) == 0) {
      fail("TIFF: {}", message());
    }
    std::uint8_t* to = image.pixels.data();
    for (const std::uint32_t pixel : raster) {
      *to++ = static_cast<std::uint8_t>(TIFFGetR(pixel));
      *to++ = static_cast<std::uint8_t>(TIFFGetG(pixel));
      *to++ = static_cast<std::uint8_t>(TIFFGetB(pixel));
    }
  }

  [[nodiscard]] Orientation orientation() {
    if (stored_orientation_ != 0) {
      return orientation_of(stored_orientation_);
    }
    std::uint32_t size = 0;
    void* data = nullptr;
    if (TIFFGetField(tiff_.get(), TIFFTAG_XMLPACKET, &size, &data) == 0 || data == nullptr) {
      return {};
    }
    return orientation_of(xmp_orientation({static_cast<const std::byte*>(data), size}).value_or(1));
  }

  // The hooks that libtiff calls. None may throw: there are C frames between them and us.

  static TiffReader& self(void* handle) { return *static_cast<TiffReader*>(handle); }
  static int on_error(TIFF*, void* user, const char*, const char* format, std::va_list arguments) {
    auto& text = self(user).message_;
    std::vsnprintf(text.data(), text.size(), format, arguments);
    return 1;
  }
  static int on_warning(TIFF*, void*, const char*, const char*, std::va_list) { return 1; }
  static tmsize_t on_read(void* handle, void* to, tmsize_t size) {
    TiffReader& reader = self(handle);
    const std::uint64_t left =
        reader.bytes_.size() - std::min<std::uint64_t>(reader.at_, reader.bytes_.size());
    const std::uint64_t count =
        std::min<std::uint64_t>(static_cast<std::uint64_t>(std::max<tmsize_t>(size, 0)), left);
    if (count > 0) {
      std::memcpy(to, reader.bytes_.data() + reader.at_, count);
    }
    reader.at_ += count;
    reader.short_read_ = reader.short_read_ || static_cast<tmsize_t>(count) < size;
    return static_cast<tmsize_t>(count);
  }
  static tmsize_t on_write(void*, void*, tmsize_t) { return 0; }
  static toff_t on_seek(void* handle, toff_t offset, int whence) {
    TiffReader& reader = self(handle);
    switch (whence) {
      case SEEK_CUR:
        reader.at_ += offset;
        break;
      case SEEK_END:
        reader.at_ = reader.bytes_.size() + offset;
        break;
      default:
        reader.at_ = offset;
        break;
    }
    return reader.at_;
  }
  static int on_close(void*) { return 0; }
  static toff_t on_size(void* handle) { return self(handle).bytes_.size(); }

  Bytes bytes_;
  std::uint64_t at_ = 0;
  bool short_read_ = false;          // libtiff has asked for bytes past the end
  std::array<char, 256> message_{};  // libtiff's last error
  std::unique_ptr<TIFF, CloseTiff> tiff_;
  Layout layout_;
  std::uint16_t stored_orientation_ = 0;  // 0 when the file has no such tag
  Pixels pixels_ = Pixels::kGray;
  bool inverted_ = false;
  bool via_rgba_ = false;
  std::array<std::array<std::uint8_t, 3>, 256> palette_{};
  std::vector<std::uint8_t> interleaved_;
};

}  // namespace

Decoded decode_tiff(Bytes bytes, std::int64_t max_pixels) {
  return TiffReader(bytes).decode(max_pixels);
}

}  // namespace fovea::image
