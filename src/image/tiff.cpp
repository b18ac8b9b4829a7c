// Reads the first page of a TIFF through libtiff, in the layouts that Pillow opens.
// python-pillow@4e5f09f src/PIL/TiffImagePlugin.py, src/libImaging/TiffDecode.c.
#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <libdeflate.h>
#include <tiffio.h>

#include "core/error.hpp"
#include "core/released.hpp"
#include "image/codecs.hpp"
#include "image/exif.hpp"
#include "image/tiff_directory.hpp"
#include "image/tiff_samples.hpp"

namespace fovea::image {
namespace {

/// Undoes the horizontal predictor, which stores each sample as its difference from the previous
/// one.
template <std::size_t kSamples>
void add_differences(std::span<std::uint8_t> row) {
  std::array<std::uint8_t, kSamples> sums{};
  for (std::size_t pixel = 0; pixel + kSamples <= row.size(); pixel += kSamples) {
    for (std::size_t sample = 0; sample < kSamples; ++sample) {
      sums[sample] = static_cast<std::uint8_t>(sums[sample] + row[pixel + sample]);
      row[pixel + sample] = sums[sample];
    }
  }
}

void add_differences(std::span<std::uint8_t> row, std::size_t samples) {
  switch (samples) {
    case 1:
      return add_differences<1>(row);
    case 3:
      return add_differences<3>(row);
    case 4:
      return add_differences<4>(row);
    default:
      for (std::size_t index = samples; index < row.size(); ++index) {
        row[index] = static_cast<std::uint8_t>(row[index] + row[index - samples]);
      }
  }
}

/// The largest block that is decoded at once. Larger ones are decoded row by row, which bounds
/// their memory and allows the decoding to be stopped.
constexpr std::uint64_t kMaxAtOnce = std::uint64_t{16} << 20;  // bytes, and pixels

/// The largest block in pixels that is read where decoding by rows is impossible (tiles, and
/// layouts decoded through RGBA).
constexpr std::uint64_t kMaxBlockPixels = std::uint64_t{1} << 26;

class TiffReader {
 public:
  TiffReader(Bytes bytes, Decoding& decoding) : bytes_(bytes), decoding_(decoding) {}

  Decoded decode() {
    const TiffDirectory directory = check_tiff_directory(bytes_);
    open();
    read_layout();
    decoding_.check_size("TIFF", layout_.width, layout_.height);
    if (directory.has_palette && layout_.photometric != PHOTOMETRIC_PALETTE) {
      fail("TIFF: the palette is missing, or does not have a colour for each value of {} bits",
           layout_.bits);
    }
    samples_ = TiffSamples(layout_, tiff_.get());
    // Versions of libtiff differ on such files; the version in Pillow refuses most of them.
    if (layout_.compression != COMPRESSION_NONE && directory.offsets > 0 && directory.sizes > 0 &&
        directory.offsets != directory.sizes) {
      fail("TIFF: {} offsets of strips or tiles, but {} sizes", directory.offsets, directory.sizes);
    }
    choose_block();
    choose_codec();
    check_encoded_bytes();
    const Orientation orientation = to_orientation(tiff_orientation(bytes_).value_or(1));
    decoding_.take_memory(
        {"TIFF", static_cast<int>(layout_.width), static_cast<int>(layout_.height), orientation},
        memory());
    Image image(static_cast<int>(layout_.width), static_cast<int>(layout_.height));
    if (samples_.via_rgba()) {
      read_rgba(image);
    } else {
      read_blocks(image);
    }
    image.lost_range = range_.is_lost();
    return {std::move(image), orientation};
  }

 private:
  /// The size of the file's blocks: tiles, or strips as wide as the image.
  struct Block {
    bool tiled = false;
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    std::size_t stride = 0;  // bytes of a row in one plane
    bool by_rows = false;    // too large to be decoded at once

    [[nodiscard]] std::uint64_t pixels() const { return std::uint64_t{width} * height; }
    [[nodiscard]] std::uint64_t plane_bytes() const { return std::uint64_t{stride} * height; }
  };

  void open() {
    const Released<TIFFOpenOptions, TIFFOpenOptionsFree> options(TIFFOpenOptionsAlloc());
    // The supported layouts take at most eight bytes per pixel.
    TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), static_cast<tmsize_t>(std::max<std::int64_t>(
                                                           decoding_.max_pixels() * 8, 1 << 24)));
    TIFFOpenOptionsSetErrorHandlerExtR(options.get(), on_error, this);
    TIFFOpenOptionsSetWarningHandlerExtR(options.get(), on_warning, this);
    // Mapped: libtiff decodes from `bytes_` and copies nothing.
    tiff_.reset(TIFFClientOpenExt("image", "rM", this, on_read, on_write, on_seek, on_close,
                                  on_size, on_map, on_unmap, options.get()));
    if (!tiff_) {
      fail("TIFF: {} ({} bytes)", reason(), bytes_.size());
    }
  }

  /// Returns libtiff's last error, with "truncated: " before it when it ran out of bytes.
  [[nodiscard]] std::string reason() const {
    if (out_of_memory_) {
      throw std::bad_alloc();
    }
    const std::string text = message_[0] == '\0' ? "broken" : message_.data();
    const bool truncated =
        position_ > bytes_.size() || short_read_ || text.starts_with("Read error");
    return truncated ? "truncated: " + text : text;
  }

  void read_layout() {
    TIFF* tiff = tiff_.get();
    if (TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &layout_.width) == 0 ||
        TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &layout_.height) == 0) {
      fail("TIFF: the dimensions are missing");
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
    // Pillow ignores extra planes of unspecified meaning.
    const auto extras = std::span(extra, extra == nullptr ? 0 : layout_.extra_samples);
    if (planar == PLANARCONFIG_SEPARATE && layout_.compression != COMPRESSION_NONE &&
        layout_.extra_samples < layout_.samples &&
        std::ranges::all_of(extras, [](auto kind) { return kind == EXTRASAMPLE_UNSPECIFIED; })) {
      layout_.samples = static_cast<std::uint16_t>(layout_.samples - layout_.extra_samples);
      layout_.extra_samples = 0;
    }
    layout_.separate = planar == PLANARCONFIG_SEPARATE && layout_.samples > 1;
    layout_.big_endian = TIFFIsBigEndian(tiff) != 0;
  }

  void choose_block() {
    TIFF* tiff = tiff_.get();
    block_.tiled = TIFFIsTiled(tiff) != 0;
    if (block_.tiled) {
      TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &block_.width);
      TIFFGetField(tiff, TIFFTAG_TILELENGTH, &block_.height);
      check_tiles();
    } else {
      TIFFGetFieldDefaulted(tiff, TIFFTAG_ROWSPERSTRIP, &block_.height);
      block_.width = layout_.width;
      block_.height = std::min(block_.height, layout_.height);
      if (block_.height == 0) {
        fail("TIFF: the strips have no rows");
      }
    }
    if (samples_.via_rgba()) {
      check_ycbcr();
      return;
    }
    if (samples_.via_jpeg()) {
      // Must precede the query of the row size, which is then that of RGB rows.
      TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    }
    const std::uint64_t stride = block_.tiled ? TIFFTileRowSize64(tiff) : TIFFScanlineSize64(tiff);
    const std::size_t needed = samples_.row_bytes(block_.width);
    if (stride < needed) {
      fail("TIFF: rows of {} pixels need {} bytes, not {} ({})", block_.width, needed, stride,
           layout_.name());
    }
    block_.stride = static_cast<std::size_t>(stride);
    block_.by_rows = !block_.tiled && std::max(block_.plane_bytes(), block_.pixels()) > kMaxAtOnce;
  }

  /// Refuses images whose tiles lie mostly outside of the image. All tiles can share the same
  /// bytes, so a small file could take hours to decode.
  void check_tiles() const {
    const std::uint64_t pixels = std::uint64_t{layout_.width} * layout_.height;
    const std::uint64_t limit = pixels * 4 + (std::uint64_t{1} << 20);
    if (block_.pixels() == 0 || block_.pixels() > std::min(limit, kMaxBlockPixels)) {
      fail("TIFF: tiles of {}x{} pixels in an image of {}x{} are not supported", block_.width,
           block_.height, layout_.width, layout_.height);
    }
    const auto number = [](std::uint32_t side, std::uint32_t tile) {
      return (std::uint64_t{side} + tile - 1) / tile;
    };
    const std::uint64_t tiles =
        number(layout_.width, block_.width) * number(layout_.height, block_.height);
    if (tiles > limit / block_.pixels()) {
      fail(
          "TIFF: {} tiles of {}x{} pixels for an image of {}x{} are more than four times its "
          "pixels, which is the limit",
          tiles, block_.width, block_.height, layout_.width, layout_.height);
    }
  }

  void check_ycbcr() const {
    std::uint16_t across = 0;
    std::uint16_t down = 0;
    TIFFGetFieldDefaulted(tiff_.get(), TIFFTAG_YCBCRSUBSAMPLING, &across, &down);
    // libtiff before 4.7 reads such images past the end of its buffers; before 4.7.2, it decodes
    // the edges of tiles subsampled by 4 in both directions from wrong bytes.
    const bool cuts_tiles = block_.tiled && layout_.width % block_.width != 0;
    const bool too_small = layout_.width < across || layout_.height < down;
    if (too_small || (cuts_tiles && across == 4 && down == 4)) {
      fail("TIFF: YCbCr subsampled by {}x{} in {} of an image of {}x{} is not supported", across,
           down, block_.tiled ? "tiles" : "strips", layout_.width, layout_.height);
    }
    if (block_.pixels() > kMaxBlockPixels) {
      fail("TIFF: strips of {}x{} pixels in YCbCr are too large; the limit is {} pixels",
           block_.width, block_.height, kMaxBlockPixels);
    }
  }

  void choose_codec() {
    TIFF* tiff = tiff_.get();
    if (layout_.compression == COMPRESSION_ADOBE_DEFLATE ||
        layout_.compression == COMPRESSION_DEFLATE) {
      TIFFGetFieldDefaulted(tiff, TIFFTAG_PREDICTOR, &predictor_);
      // zlib, as in Pillow's libtiff, also accepts streams with more data than the block.
      TIFFSetField(tiff, TIFFTAG_DEFLATE_SUBCODEC, DEFLATE_SUBCODEC_ZLIB);
      if (!samples_.via_rgba() && layout_.bits == 8 &&
          (predictor_ == PREDICTOR_NONE || predictor_ == PREDICTOR_HORIZONTAL)) {
        inflater_.reset(libdeflate_alloc_decompressor());
      }
    }
  }

  /// Limits the encoded bytes in total. Strips and tiles can share bytes, so that a small file
  /// could have a decoder read it many times.
  void check_encoded_bytes() {
    constexpr std::uint64_t kExtraBytes = std::uint64_t{16} << 20;
    TIFF* tiff = tiff_.get();
    const std::uint64_t limit = std::uint64_t{bytes_.size()} * 4 + kExtraBytes;
    const std::uint32_t count = block_.tiled ? TIFFNumberOfTiles(tiff) : TIFFNumberOfStrips(tiff);
    std::uint64_t total = 0;
    for (std::uint32_t index = 0; index < count; ++index) {
      decoding_.poll();
      // Data past the end of the file is refused later, when it is read.
      const std::uint64_t size =
          std::min<std::uint64_t>(TIFFGetStrileByteCount(tiff, index), bytes_.size());
      max_encoded_ = std::max(max_encoded_, size);
      total += size;
      if (total > limit) {
        fail("TIFF: strips or tiles have more than four times the file's {} bytes", bytes_.size());
      }
    }
  }

  [[nodiscard]] std::uint64_t memory() const {
    constexpr std::uint64_t kCodec = std::uint64_t{256} << 10;  // tables and windows
    constexpr std::uint64_t kMaxCoefficients = 100'000'000;     // libtiff's limit
    constexpr std::uint64_t kZstdWindow = std::uint64_t{128} << 20;
    std::uint64_t bytes = pixel_bytes(layout_.width, layout_.height) + kCodec;
    if (samples_.via_rgba()) {
      bytes += block_.pixels() * (sizeof(std::uint32_t) + kChannels);
    } else {
      bytes += block_.by_rows ? block_.stride : block_.plane_bytes();
      bytes += samples_.planes() == 4 ? block_.pixels() : 0;
    }
    const std::uint64_t decoded = std::max(block_.plane_bytes(), block_.pixels() * kChannels);
    switch (layout_.compression) {
      case COMPRESSION_JPEG:  // coefficients, in case a block has several scans
        bytes +=
            std::min(block_.pixels() * layout_.samples * sizeof(std::uint16_t), kMaxCoefficients);
        break;
      case COMPRESSION_WEBP:  // libwebp's pixels and their copy in libtiff
        bytes += block_.pixels() * 9;
        break;
      case COMPRESSION_ZSTD:
        bytes += std::min(decoded, kZstdWindow);
        break;
      case COMPRESSION_LZMA:  // a dictionary of the size of the decoded data
        bytes += decoded;
        break;
      default:
        break;
    }
    std::uint16_t order = FILLORDER_MSB2LSB;
    TIFFGetFieldDefaulted(tiff_.get(), TIFFTAG_FILLORDER, &order);
    return bytes +
           (order == FILLORDER_MSB2LSB ? 0 : max_encoded_);  // for a copy with reversed bits
  }

  /// Reads block by block, and within a block plane by plane. The fourth plane (alpha or black) is
  /// read first, since the others are combined with it.
  void read_blocks(Image& image) {
    std::vector<std::uint8_t> data(
        static_cast<std::size_t>(block_.by_rows ? block_.stride : block_.plane_bytes()));
    const std::size_t planes = samples_.planes();
    if (planes == 4) {
      fourth_.resize(static_cast<std::size_t>(block_.pixels()));
    }
    for (std::uint64_t y = 0; y < layout_.height; y += block_.height) {
      for (std::uint64_t x = 0; x < layout_.width; x += block_.width) {
        for (std::size_t step = 0; step < planes; ++step) {
          const std::size_t plane = planes == 4 ? (step + 3) % 4 : step;
          read_plane(image, data, static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y),
                     plane);
        }
      }
    }
  }

  void read_plane(Image& image, std::vector<std::uint8_t>& data, std::uint32_t x, std::uint32_t y,
                  std::size_t plane) {
    const std::uint32_t rows = std::min(block_.height, layout_.height - y);
    const std::size_t pixels = std::min(block_.width, layout_.width - x);
    if (!block_.by_rows) {
      read_at_once(data, x, y, rows, plane);
    }
    for (std::uint32_t row = 0; row < rows; ++row) {
      decoding_.poll();
      message_[0] = '\0';
      const std::uint8_t* from = data.data() + (block_.by_rows ? 0 : row * block_.stride);
      if (block_.by_rows && TIFFReadScanline(tiff_.get(), data.data(), y + row,
                                             static_cast<std::uint16_t>(plane)) != 1) {
        fail("TIFF: {} after {} of {} rows", reason(), y + row, layout_.height);
      }
      std::uint8_t* to =
          image.pixels.data() +
          (std::size_t{y + row} * static_cast<std::size_t>(image.width) + x) * kChannels;
      std::uint8_t* fourth =
          fourth_.empty() ? nullptr : fourth_.data() + std::size_t{row} * block_.width;
      if (!layout_.separate) {
        samples_.note_range(from, pixels, range_);
        samples_.convert(from, pixels, to);
      } else if (plane == 3) {
        samples_.convert_fourth(from, pixels, fourth);
      } else {
        samples_.convert_plane(from, pixels, plane, fourth, to);
      }
    }
  }

  void read_at_once(std::vector<std::uint8_t>& data, std::uint32_t x, std::uint32_t y,
                    std::uint32_t rows, std::size_t plane) {
    decoding_.poll();
    const std::size_t expected_bytes = block_.tiled ? data.size() : rows * block_.stride;
    const std::uint32_t index =
        block_.tiled ? TIFFComputeTile(tiff_.get(), x, y, 0, static_cast<std::uint16_t>(plane))
                     : TIFFComputeStrip(tiff_.get(), y, static_cast<std::uint16_t>(plane));
    const bool read = (inflater_ && inflate(data, expected_bytes, index)) ||
                      read_block(data, expected_bytes, index);
    if (!read && block_.tiled) {
      fail("TIFF: {} in the tile at column {}, row {} of {}", reason(), x, y, layout_.height);
    }
    if (!read) {
      fail("TIFF: {} after {} of {} rows", reason(), y, layout_.height);
    }
  }

  bool read_block(std::vector<std::uint8_t>& data, std::size_t expected_bytes,
                  std::uint32_t index) {
    const auto size = static_cast<tmsize_t>(expected_bytes);
    message_[0] = '\0';
    return (block_.tiled ? TIFFReadEncodedTile(tiff_.get(), index, data.data(), size)
                         : TIFFReadEncodedStrip(tiff_.get(), index, data.data(), size)) == size;
  }

  /// Inflates a block with libdeflate, which takes half of zlib's time. Returns false unless the
  /// block is a complete deflate stream of the expected size; zlib then reads it, so that the
  /// pixels of damaged blocks are the same as Pillow's.
  bool inflate(std::vector<std::uint8_t>& data, std::size_t expected_bytes, std::uint32_t index) {
    const std::uint64_t offset = TIFFGetStrileOffset(tiff_.get(), index);
    const std::uint64_t size = TIFFGetStrileByteCount(tiff_.get(), index);
    if (offset > bytes_.size() || size > bytes_.size() - offset ||
        libdeflate_zlib_decompress(inflater_.get(), bytes_.data() + offset,
                                   static_cast<std::size_t>(size), data.data(), expected_bytes,
                                   nullptr) != LIBDEFLATE_SUCCESS) {
      return false;
    }
    if (predictor_ == PREDICTOR_HORIZONTAL) {
      for (std::size_t begin = 0; begin < expected_bytes; begin += block_.stride) {
        add_differences(std::span(data).subspan(begin, block_.stride),
                        layout_.separate ? 1U : layout_.samples);
      }
    }
    return true;
  }

  /// Reads rows of blocks through libtiff's RGBA interface, as Pillow does.
  void read_rgba(Image& image) {
    TIFFRGBAImage reader{};
    std::array<char, 1024> text{};  // as large as libtiff requires
    if (TIFFRGBAImageOK(tiff_.get(), text.data()) == 0 ||
        TIFFRGBAImageBegin(&reader, tiff_.get(), 1, text.data()) == 0) {
      fail("TIFF: {}", text.data());
    }
    const Released<TIFFRGBAImage, TIFFRGBAImageEnd> end(&reader);
    // The orientation is applied later; libtiff must not.
    reader.orientation = ORIENTATION_TOPLEFT;
    reader.req_orientation = ORIENTATION_TOPLEFT;
    std::vector<std::uint32_t> raster(static_cast<std::size_t>(layout_.width) * block_.height);
    std::uint8_t* to = image.pixels.data();
    for (std::uint32_t y = 0; y < layout_.height;) {
      decoding_.poll();
      const std::uint32_t rows = std::min(block_.height, layout_.height - y);
      reader.row_offset = static_cast<int>(y);
      message_[0] = '\0';
      if (TIFFRGBAImageGet(&reader, raster.data(), layout_.width, rows) == 0) {
        fail("TIFF: {} after {} of {} rows", reason(), y, layout_.height);
      }
      const std::size_t pixels = static_cast<std::size_t>(layout_.width) * rows;
      for (const std::uint32_t pixel : std::span(raster).first(pixels)) {
        *to++ = static_cast<std::uint8_t>(TIFFGetR(pixel));
        *to++ = static_cast<std::uint8_t>(TIFFGetG(pixel));
        *to++ = static_cast<std::uint8_t>(TIFFGetB(pixel));
      }
      y += rows;
    }
  }

  // Callbacks for libtiff. None may throw, since C frames lie between them and their caller.

  static TiffReader& self(void* handle) { return *static_cast<TiffReader*>(handle); }
  static int on_error(TIFF*, void* user, const char*, const char* format, std::va_list arguments) {
    TiffReader& reader = self(user);
    std::array<char, 256>& text = reader.message_;
    std::vsnprintf(text.data(), text.size(), format, arguments);
    // libtiff reports a lack of memory by text alone. It reports the limit set in open() by the
    // same text, after "beyond the"; that one is an error in the file.
    const std::string_view message = text.data();
    const auto says = [message](std::string_view words) {
      return message.find(words) != std::string_view::npos;
    };
    reader.over_limit_ = reader.over_limit_ || says("beyond the");
    reader.out_of_memory_ =
        reader.out_of_memory_ ||
        (!reader.over_limit_ && (says("ut of memory") || says("No space for") ||
                                 says("Failed to allocate memory") || says("Not enough memory")));
    return 1;
  }
  static int on_warning(TIFF*, void*, const char*, const char*, std::va_list) { return 1; }
  static int on_map(void* handle, void** base, toff_t* size) {
    const Bytes bytes = self(handle).bytes_;
    *base = const_cast<std::byte*>(bytes.data());  // libtiff does not write to it
    *size = bytes.size();
    return 1;
  }
  static void on_unmap(void*, void*, toff_t) {}
  static tmsize_t on_read(void* handle, void* to, tmsize_t size) {
    TiffReader& reader = self(handle);
    const std::uint64_t left =
        reader.bytes_.size() - std::min<std::uint64_t>(reader.position_, reader.bytes_.size());
    const std::uint64_t count =
        std::min<std::uint64_t>(static_cast<std::uint64_t>(std::max<tmsize_t>(size, 0)), left);
    if (count > 0) {
      std::memcpy(to, reader.bytes_.data() + reader.position_, count);
    }
    reader.position_ += count;
    reader.short_read_ = reader.short_read_ || static_cast<tmsize_t>(count) < size;
    return static_cast<tmsize_t>(count);
  }
  static tmsize_t on_write(void*, void*, tmsize_t) { return 0; }
  static toff_t on_seek(void* handle, toff_t offset, int whence) {
    TiffReader& reader = self(handle);
    const std::uint64_t from = whence == SEEK_CUR   ? reader.position_
                               : whence == SEEK_END ? reader.bytes_.size()
                                                    : 0;
    reader.position_ = from + offset;
    return reader.position_;
  }
  static int on_close(void*) { return 0; }
  static toff_t on_size(void* handle) { return self(handle).bytes_.size(); }

  Bytes bytes_;
  Decoding& decoding_;
  std::uint64_t position_ = 0;
  bool short_read_ = false;          // libtiff has requested bytes past the end of the file
  std::array<char, 256> message_{};  // libtiff's last error
  bool over_limit_ = false;          // libtiff needed more memory than the limit in open()
  bool out_of_memory_ = false;       // an allocation of libtiff failed
  Released<TIFF, TIFFClose> tiff_;
  TiffLayout layout_;
  TiffSamples samples_;
  TiffRange range_;
  Block block_;
  std::uint16_t predictor_ = PREDICTOR_NONE;
  // Null if libdeflate cannot be used:
  Released<libdeflate_decompressor, libdeflate_free_decompressor> inflater_;
  std::uint64_t max_encoded_ = 0;  // maximum encoded bytes of a strip or tile
  std::vector<std::uint8_t> fourth_;
};

}  // namespace

Decoded decode_tiff(Bytes bytes, Decoding& decoding) {
  return TiffReader(bytes, decoding).decode();
}

}  // namespace fovea::image
