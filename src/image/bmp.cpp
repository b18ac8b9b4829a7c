// Reads BMP without a library, since no packaged one reads every variant. The code follows Pillow's
// reader exactly, including its quirks (each is marked), so that the pixels are identical.
// python-pillow@4e5f09f src/PIL/BmpImagePlugin.py, src/libImaging/{RawDecode,Unpack}.c.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "image/codecs.hpp"

namespace fovea::image {
namespace {

using Color = std::array<std::uint8_t, 3>;

enum Compression : std::uint32_t { kRaw = 0, kRle8 = 1, kRle4 = 2, kBitfields = 3 };

/// The meaning of one sample of a row.
enum class Samples { kBilevel, kGray, kIndex1, kIndex4, kIndex8, kRgb555, kRgb565, kBytes };

using BitsAndSamples = std::pair<std::uint32_t, Samples>;
/// The default sample type for a number of bits per pixel. Masks or the palette may change it.
constexpr BitsAndSamples kSamplesOfBits[] = {{1, Samples::kIndex1}, {4, Samples::kIndex4},
                                             {8, Samples::kIndex8}, {16, Samples::kRgb555},
                                             {24, Samples::kBytes}, {32, Samples::kBytes}};

struct Masks {
  std::uint32_t red = 0;
  std::uint32_t green = 0;
  std::uint32_t blue = 0;
  std::uint32_t alpha = 0;
  friend bool operator==(const Masks&, const Masks&) = default;
};

/// Byte offsets of the channels in a pixel of 24 or 32 bits.
struct ChannelOrder {
  std::uint8_t red = 2;
  std::uint8_t green = 1;
  std::uint8_t blue = 0;
};

/// The 32-bit channel masks that Pillow accepts; it refuses all others.
struct KnownMasks {
  Masks masks;
  ChannelOrder order;
};
constexpr KnownMasks kKnownMasks32[] = {
    {{0xff0000, 0xff00, 0xff, 0}, {2, 1, 0}},           // BGRX
    {{0xff000000, 0xff0000, 0xff00, 0}, {3, 2, 1}},     // XBGR
    {{0xff000000, 0xff00, 0xff, 0}, {3, 1, 0}},         // BGXR
    {{0xff000000, 0xff0000, 0xff00, 0xff}, {3, 2, 1}},  // ABGR
    {{0xff, 0xff00, 0xff0000, 0xff000000}, {0, 1, 2}},  // RGBA
    {{0xff0000, 0xff00, 0xff, 0xff000000}, {2, 1, 0}},  // BGRA
    {{0xff000000, 0xff00, 0xff, 0xff0000}, {3, 1, 0}},  // BGAR
    {{0, 0, 0, 0}, {2, 1, 0}},                          // BGRA
};

class BmpReader {
 public:
  BmpReader(Bytes bytes, Decoding& decoding) : bytes_(bytes), decoding_(decoding) {}

  Image decode() {
    read_header();
    decoding_.check_size("BMP", width_, height_);
    choose_samples();
    if (bits_ <= 8) {
      read_palette();
    }
    if (pixels_offset_ == 0) {
      pixels_offset_ = position_;
    }
    return compression_ == kRle8 || compression_ == kRle4 ? read_run_lengths() : read_raw();
  }

 private:
  /// The next `size` bytes as a little-endian number.
  std::uint32_t number(std::size_t size) {
    if (bytes_.size() < position_ + size) {
      fail("BMP: truncated in its header: {} bytes", bytes_.size());
    }
    std::uint32_t value = 0;
    for (std::size_t index = 0; index < size; ++index) {
      value |= std::to_integer<std::uint32_t>(bytes_[position_ + index]) << (8 * index);
    }
    position_ += size;
    return value;
  }
  [[nodiscard]] std::uint8_t byte(std::size_t offset) const {
    return std::to_integer<std::uint8_t>(bytes_[offset]);
  }

  void read_header() {
    position_ = 10;  // after "BM", the file's size and two reserved numbers
    pixels_offset_ = number(4);
    const std::size_t start = position_;
    const std::uint32_t size = number(4);
    switch (size) {
      case 12:  // BITMAPCOREHEADER of OS/2
        width_ = number(2);
        height_ = number(2);
        number(2);  // planes
        bits_ = number(2);
        palette_entry_ = 3;
        break;
      case 40:   // BITMAPINFOHEADER
      case 52:   // with masks
      case 56:   // with an alpha mask
      case 64:   // BITMAPCOREHEADER2 of OS/2
      case 108:  // BITMAPV4HEADER
      case 124:  // BITMAPV5HEADER
        read_info_header();
        if (compression_ == kBitfields) {
          masks_.red = number(4);  // in the header, or right after one of 40 bytes
          masks_.green = number(4);
          masks_.blue = number(4);
          masks_.alpha = size >= 56 ? number(4) : 0;
        }
        break;
      default:
        fail("BMP: unknown kind of header, of {} bytes", size);
    }
    if (bytes_.size() - start < size) {
      fail("BMP: truncated in its header: {} bytes", bytes_.size());
    }
    position_ = std::max(position_, start + size);
    if (colors_ == 0) {
      colors_ = bits_ < 32 ? std::uint32_t{1} << bits_ : 0;
    }
    // The palette follows the header; some writers leave it out of the pixels' offset.
    if (pixels_offset_ == 14 + size && bits_ <= 8) {
      pixels_offset_ += std::uint64_t{palette_entry_} * colors_;
    }
  }

  void read_info_header() {
    width_ = number(4);
    const std::uint32_t height = number(4);
    top_down_ = height >> 24 == 0xff;  // negative: Pillow checks the top byte alone
    height_ = top_down_ ? (std::int64_t{1} << 32) - height : height;
    number(2);  // planes
    bits_ = number(2);
    compression_ = number(4);
    number(4);  // size of the pixels
    number(4);  // resolution
    number(4);
    colors_ = number(4);
    number(4);  // important colours
  }

  void choose_samples() {
    const auto* found = std::ranges::find(kSamplesOfBits, bits_, &BitsAndSamples::first);
    if (found == std::end(kSamplesOfBits)) {
      fail("BMP: unsupported {} bits per pixel; expected 1, 4, 8, 16, 24 or 32", bits_);
    }
    samples_ = found->second;
    if (compression_ == kBitfields) {
      choose_masks();
    } else if (compression_ == kRle8 || compression_ == kRle4) {
      if (bits_ > 8) {
        fail("BMP: run lengths of {}-bit pixels are not supported", bits_);
      }
    } else if (compression_ != kRaw) {
      fail("BMP: compression {} is not supported", compression_);
    }
  }

  void choose_masks() {
    const Masks rgb{masks_.red, masks_.green, masks_.blue, 0};
    if (bits_ == 16 && rgb == Masks{0xf800, 0x7e0, 0x1f, 0}) {
      samples_ = Samples::kRgb565;
      return;
    }
    if ((bits_ == 16 && rgb == Masks{0x7c00, 0x3e0, 0x1f, 0}) ||
        (bits_ == 24 && rgb == Masks{0xff0000, 0xff00, 0xff, 0})) {
      return;
    }
    const auto* known = std::ranges::find(kKnownMasks32, masks_, &KnownMasks::masks);
    if (bits_ != 32 || known == std::end(kKnownMasks32)) {
      fail("BMP: {}-bit pixels with masks {:08x} {:08x} {:08x} {:08x} are not supported", bits_,
           masks_.red, masks_.green, masks_.blue, masks_.alpha);
    }
    order_ = known->order;
  }

  void read_palette() {
    if (colors_ > 256) {
      fail("BMP: the palette has {} colours, more than 256", colors_);
    }
    if (bytes_.size() - position_ < std::size_t{palette_entry_} * colors_) {
      fail("BMP: truncated in its palette: {} bytes", bytes_.size());
    }
    bool gray = true;
    for (std::size_t index = 0; index < colors_; ++index) {
      palette_[index] = {byte(position_ + 2), byte(position_ + 1), byte(position_)};
      position_ += palette_entry_;
      const auto level = static_cast<std::uint8_t>(colors_ == 2 && index == 1 ? 255 : index);
      gray = gray && palette_[index] == Color{level, level, level};
    }
    if (!gray) {
      return;
    }
    // A quirk of Pillow: with a palette of exactly these grays, samples are one bit (up to two
    // colours) or one byte wide, whatever the header says.
    samples_ = colors_ <= 2 ? Samples::kBilevel : Samples::kGray;
    if (compression_ != kRaw && samples_ == Samples::kBilevel) {
      fail("BMP: run lengths of black and white are not supported");
    }
    for (std::size_t level = 0; level < 256; ++level) {
      palette_[level].fill(static_cast<std::uint8_t>(level));
    }
  }

  [[nodiscard]] std::uint8_t* row(Image& image, std::int64_t index) const {
    const std::int64_t y = top_down_ ? index : height_ - 1 - index;
    return image.pixels.data() + static_cast<std::size_t>(y * width_) * kChannels;
  }

  void put_index(std::uint8_t index, std::uint8_t*& to) const {
    std::memcpy(to, palette_.data() + index, kChannels);
    to += kChannels;
  }

  [[nodiscard]] std::size_t sample_bits() const {
    return samples_ == Samples::kBilevel ? 1 : samples_ == Samples::kGray ? 8 : bits_;
  }

  /// Allocates the image after reserving memory for its pixels and for `more` bytes.
  [[nodiscard]] Image take_image(std::size_t more) const {
    const auto width = static_cast<int>(width_);
    const auto height = static_cast<int>(height_);
    decoding_.take_memory({"BMP", width, height}, pixel_bytes(width_, height_) + more);
    return {width, height};
  }

  [[nodiscard]] Image read_raw() const {
    const auto width = static_cast<std::size_t>(width_);
    const std::size_t row_bytes = (width * sample_bits() + 7) / 8;
    const std::size_t stride = (width * bits_ + 31) / 32 * 4;
    if (row_bytes > stride) {
      fail("BMP: {}-bit pixels with the palette of 8-bit gray are not supported", bits_);
    }
    const std::uint64_t present =
        bytes_.size() - std::min<std::uint64_t>(pixels_offset_, bytes_.size());
    const std::uint64_t whole_rows = (present + stride - row_bytes) / stride;
    if (whole_rows < static_cast<std::uint64_t>(height_)) {
      fail("BMP: truncated after {} of {} rows ({} bytes)", whole_rows, height_, bytes_.size());
    }
    Image image = take_image(0);
    for (std::int64_t index = 0; index < height_; ++index) {
      decoding_.poll();
      unpack(bytes_.subspan(pixels_offset_ + static_cast<std::size_t>(index) * stride, row_bytes),
             row(image, index));
    }
    return image;
  }

  /// Converts one complete row of the file to RGB.
  void unpack(std::span<const std::byte> row, std::uint8_t* to) const {
    const auto* from = reinterpret_cast<const std::uint8_t*>(row.data());
    const auto width = static_cast<std::size_t>(width_);
    for (std::size_t x = 0; x < width; ++x) {
      switch (samples_) {
        case Samples::kBilevel:
          to = std::fill_n(to, kChannels,
                           static_cast<std::uint8_t>((from[x / 8] << x % 8) & 0x80 ? 255 : 0));
          break;
        case Samples::kIndex1:
          put_index(static_cast<std::uint8_t>((from[x / 8] >> (7 - x % 8)) & 1), to);
          break;
        case Samples::kIndex4:
          put_index(static_cast<std::uint8_t>((from[x / 2] >> (x % 2 == 0 ? 4 : 0)) & 15), to);
          break;
        case Samples::kGray:
        case Samples::kIndex8:
          put_index(from[x], to);
          break;
        case Samples::kRgb555:
        case Samples::kRgb565:
          unpack16(from[2 * x] | from[2 * x + 1] << 8, to);
          break;
        case Samples::kBytes: {
          const std::uint8_t* pixel = from + x * (bits_ / 8);
          *to++ = pixel[order_.red];
          *to++ = pixel[order_.green];
          *to++ = pixel[order_.blue];
          break;
        }
      }
    }
  }

  void unpack16(int pixel, std::uint8_t*& to) const {
    const bool wide_green = samples_ == Samples::kRgb565;
    const int red = (pixel >> (wide_green ? 11 : 10)) & 31;
    const int green = (pixel >> 5) & (wide_green ? 63 : 31);
    const int blue = pixel & 31;
    *to++ = static_cast<std::uint8_t>(red * 255 / 31);
    *to++ = static_cast<std::uint8_t>(green * 255 / (wide_green ? 63 : 31));
    *to++ = static_cast<std::uint8_t>(blue * 255 / 31);
  }

  [[nodiscard]] Image read_run_lengths() const {
    const auto width = static_cast<std::size_t>(width_);
    Image image = take_image(width * static_cast<std::size_t>(height_));
    const std::vector<std::uint8_t> samples = expand_run_lengths();
    if (samples.size() < width * static_cast<std::size_t>(height_)) {
      fail("BMP: truncated after {} of {} rows ({} bytes)", samples.size() / width, height_,
           bytes_.size());
    }
    for (std::int64_t index = 0; index < height_; ++index) {
      decoding_.poll();
      const std::uint8_t* from = samples.data() + static_cast<std::size_t>(index) * width;
      std::uint8_t* to = row(image, index);
      for (std::size_t x = 0; x < width; ++x) {
        put_index(from[x], to);
      }
    }
    return image;
  }

  /// Decodes the run-length data. Returns the samples in file order, fewer than the image has when
  /// the data ends early.
  [[nodiscard]] std::vector<std::uint8_t> expand_run_lengths() const {
    const bool rle4 = compression_ == kRle4;
    const auto width = static_cast<std::size_t>(width_);
    const std::size_t expected = width * static_cast<std::size_t>(height_);
    std::vector<std::uint8_t> data;
    data.reserve(expected);
    std::size_t x = 0;
    std::size_t position =
        static_cast<std::size_t>(std::min<std::uint64_t>(pixels_offset_, bytes_.size()));
    while (data.size() < expected && bytes_.size() - position >= 2) {
      decoding_.poll();
      const std::uint8_t length = byte(position);
      const std::uint8_t value = byte(position + 1);
      position += 2;
      if (length != 0) {  // a run, cut at the end of the row
        const std::size_t run = std::min<std::size_t>(length, width - std::min(width, x));
        for (std::size_t index = 0; index < run; ++index) {
          const int nibble = index % 2 == 0 ? value >> 4 : value & 15;
          data.push_back(rle4 ? static_cast<std::uint8_t>(nibble) : value);
        }
        x += run;
      } else if (value == 0) {  // end of row
        data.resize((data.size() + width - 1) / width * width);
        x = 0;
      } else if (value == 1) {  // end of image
        break;
      } else if (value == 2) {  // jump right and up
        if (bytes_.size() - position < 2) {
          break;
        }
        const std::size_t skipped = byte(position) + std::size_t{byte(position + 1)} * width;
        position += 2;
        data.resize(std::min(expected, data.size() + skipped));
        x = data.size() % width;
      } else {  // `value` samples as they are, padded to an even offset in the file
        const std::size_t count = std::min<std::size_t>(expected - data.size(), value);
        const std::size_t size = rle4 ? (count + 1) / 2 : count;
        if (bytes_.size() - position < size) {
          break;
        }
        for (std::size_t index = 0; index < count; ++index) {
          const std::uint8_t sample = byte(position + (rle4 ? index / 2 : index));
          const int nibble = index % 2 == 0 ? sample >> 4 : sample & 15;
          data.push_back(rle4 ? static_cast<std::uint8_t>(nibble) : sample);
        }
        position += size;
        x += value;
        position = std::min(position + position % 2, bytes_.size());
      }
    }
    return data;
  }

  Bytes bytes_;
  Decoding& decoding_;
  std::size_t position_ = 0;
  std::uint64_t pixels_offset_ = 0;
  std::int64_t width_ = 0;
  std::int64_t height_ = 0;
  bool top_down_ = false;
  std::uint32_t bits_ = 0;
  std::uint32_t compression_ = kRaw;
  std::uint32_t colors_ = 0;
  std::uint32_t palette_entry_ = 4;
  Masks masks_;
  ChannelOrder order_;
  Samples samples_ = Samples::kBytes;
  std::array<Color, 256> palette_{};  // colours past its end are black
};

}  // namespace

Decoded decode_bmp(Bytes bytes, Decoding& decoding) {
  return {BmpReader(bytes, decoding).decode(), {}};
}

}  // namespace fovea::image
