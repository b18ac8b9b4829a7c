// Converts the sample layouts that Pillow opens as it does. Other layouts are refused by name.
// python-pillow@4e5f09f src/PIL/TiffImagePlugin.py: OPEN_INFO, src/libImaging/TiffDecode.c.
#include "image/tiff_samples.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/error.hpp"
#include "image/cmyk.hpp"
#include "image/image.hpp"

namespace fovea::image {
namespace {

/// Compressions in Pillow's COMPRESSION_INFO; libtiff supports more.
constexpr std::uint16_t kCompressions[] = {
    COMPRESSION_NONE,      COMPRESSION_CCITTRLE, COMPRESSION_CCITTFAX3,   COMPRESSION_CCITTFAX4,
    COMPRESSION_LZW,       COMPRESSION_OJPEG,    COMPRESSION_JPEG,        COMPRESSION_ADOBE_DEFLATE,
    COMPRESSION_CCITTRLEW, COMPRESSION_PACKBITS, COMPRESSION_THUNDERSCAN, COMPRESSION_DEFLATE,
    COMPRESSION_SGILOG,    COMPRESSION_SGILOG24, COMPRESSION_LZMA,        COMPRESSION_ZSTD,
    COMPRESSION_WEBP};

template <typename T>
T native(const std::uint8_t* row, std::size_t index) {
  T value;
  std::memcpy(&value, row + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

std::string TiffLayout::name() const {
  return fmt::format(
      "photometric {}, {} samples of {} bits (format {}), {} extra ({}), {}, compression {}",
      photometric, samples, bits, format, extra_samples, first_extra,
      separate ? "separate planes" : "interleaved", compression);
}

TiffSamples::TiffSamples(const TiffLayout& layout, TIFF* tiff) : layout_(layout) {
  choose(tiff);
  refuse_misread();
}

void TiffSamples::require(bool known) const {
  if (!known) {
    fail("TIFF: unsupported layout: {}", layout_.name());
  }
}

void TiffSamples::choose(TIFF* tiff) {
  require(layout_.format != SAMPLEFORMAT_VOID);
  if (std::ranges::find(kCompressions, layout_.compression) == std::end(kCompressions)) {
    const TIFFCodec* codec = TIFFFindCODEC(layout_.compression);
    fail("TIFF: {} compression ({}) is not supported; store the image with LZW or Deflate",
         codec == nullptr ? "an unknown" : codec->name, layout_.compression);
  }
  require(layout_.compression != COMPRESSION_OJPEG || layout_.photometric == PHOTOMETRIC_YCBCR);
  switch (layout_.photometric) {
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_MINISBLACK:
      choose_gray();
      break;
    case PHOTOMETRIC_PALETTE:
      choose_palette(tiff);
      break;
    case PHOTOMETRIC_RGB:
      choose_rgb();
      break;
    case PHOTOMETRIC_SEPARATED:
      require(layout_.format == SAMPLEFORMAT_UINT && layout_.samples >= 4 &&
              layout_.samples <= (layout_.bits == 8 ? 6 : 4) &&
              (layout_.bits == 8 || layout_.bits == 16) && layout_.first_extra == 0 &&
              (layout_.samples == 4 || !layout_.separate));
      kind_ = Kind::kCmyk;
      break;
    case PHOTOMETRIC_YCBCR:
      choose_ycbcr();
      break;
    default:
      require(false);
  }
}

void TiffSamples::choose_rgb() {
  require(layout_.format == SAMPLEFORMAT_UINT && layout_.samples >= 3 && layout_.samples <= 6 &&
          (layout_.bits == 8 || layout_.bits == 16));
  // Pillow reads at most one extra sample with 16 bits or in separate planes.
  require(layout_.samples <= 4 || (layout_.bits == 8 && !layout_.separate));
  require(layout_.samples == 3 || layout_.extra_samples == 0 ||
          layout_.extra_samples == layout_.samples - 3);
  kind_ = layout_.samples > 3 && layout_.extra_samples > 0 &&
                  layout_.first_extra == EXTRASAMPLE_ASSOCALPHA
              ? Kind::kPremultiplied
              : Kind::kRgb;
}

/// Refuses layouts that Pillow refuses, or opens and then misreads.
void TiffSamples::refuse_misread() const {
  const bool raw = layout_.compression == COMPRESSION_NONE;
  if (layout_.separate) {
    require(kind_ == Kind::kRgb || kind_ == Kind::kCmyk || kind_ == Kind::kPremultiplied);
  }
  if (layout_.separate && raw) {
    // Pillow unpacks these as 8-bit samples, by their names.
    const bool unnamed = layout_.extra_samples > 0 && layout_.first_extra == 0;
    require(layout_.bits == 8 && kind_ != Kind::kPremultiplied && !unnamed);
  }
  if (layout_.big_endian && !raw) {
    // Pillow swaps the bytes of these kinds a second time, after libtiff.
    const bool swapped_twice = kind_ == Kind::kGrayI32 || kind_ == Kind::kGrayFloat ||
                               (kind_ == Kind::kGray16 && layout_.format == SAMPLEFORMAT_INT);
    require(!swapped_twice);
  }
}

void TiffSamples::choose_gray() {
  inverted_ = layout_.photometric == PHOTOMETRIC_MINISWHITE;
  if (layout_.samples == 2) {  // the second sample is alpha, which is dropped
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
    case 12:
      require(is_unsigned && !inverted_ && !layout_.big_endian);
      kind_ = Kind::kGray12;
      break;
    case 16:
      // Pillow reads 16-bit white-is-zero in little-endian files only, and does not invert it.
      require((is_unsigned && !(inverted_ && layout_.big_endian)) || (is_signed && !inverted_));
      inverted_ = false;
      kind_ = Kind::kGray16;
      break;
    case 32:
      if (layout_.format == SAMPLEFORMAT_IEEEFP) {
        inverted_ = false;
        kind_ = Kind::kGrayFloat;
        break;
      }
      require(!inverted_ && (is_signed || (is_unsigned && !layout_.big_endian)));
      kind_ = Kind::kGrayI32;
      break;
    default:
      require(false);
  }
}

void TiffSamples::choose_palette(TIFF* tiff) {
  require(layout_.format == SAMPLEFORMAT_UINT &&
          (layout_.bits == 1 || layout_.bits == 2 || layout_.bits == 4 || layout_.bits == 8));
  require(layout_.samples == 1 ||
          (layout_.samples == 2 && layout_.bits == 8 && layout_.extra_samples == 1 &&
           !layout_.separate && layout_.first_extra != EXTRASAMPLE_ASSOCALPHA));
  kind_ = Kind::kIndex;
  std::uint16_t* red = nullptr;
  std::uint16_t* green = nullptr;
  std::uint16_t* blue = nullptr;
  if (TIFFGetField(tiff, TIFFTAG_COLORMAP, &red, &green, &blue) == 0) {
    fail("TIFF: the palette is missing");
  }
  for (std::size_t index = 0; index < std::size_t{1} << layout_.bits; ++index) {
    palette_[index] = {static_cast<std::uint8_t>(red[index] >> 8),
                       static_cast<std::uint8_t>(green[index] >> 8),
                       static_cast<std::uint8_t>(blue[index] >> 8)};
  }
}

void TiffSamples::choose_ycbcr() {
  require(layout_.format == SAMPLEFORMAT_UINT && layout_.bits == 8 && layout_.samples == 3 &&
          layout_.extra_samples == 0);
  require(layout_.compression != COMPRESSION_NONE);
  kind_ = Kind::kRgb;
  via_jpeg_ = layout_.compression == COMPRESSION_JPEG && !layout_.separate;
  via_rgba_ = !via_jpeg_;
  layout_.separate = false;
}

std::size_t TiffSamples::planes() const {
  if (!layout_.separate) {
    return 1;
  }
  return kind_ == Kind::kRgb ? 3 : 4;
}

std::size_t TiffSamples::row_bytes(std::size_t pixels) const {
  const std::size_t samples = layout_.separate ? 1U : layout_.samples;
  return (pixels * samples * layout_.bits + 7) / 8;
}

/// Returns an 8-bit sample, or the upper byte of a 16-bit sample, which is in native byte order.
std::uint8_t TiffSamples::sample8(const std::uint8_t* row, std::size_t index) const {
  if (layout_.bits == 8) {
    return row[index];
  }
  constexpr std::size_t kUpper = std::endian::native == std::endian::little ? 1 : 0;
  return row[index * 2 + kUpper];
}

std::uint8_t TiffSamples::small_sample(const std::uint8_t* row, std::size_t index) const {
  const std::size_t bit = index * layout_.bits;
  const int shift = 8 - layout_.bits - static_cast<int>(bit % 8);
  return static_cast<std::uint8_t>((row[bit / 8] >> shift) & ((1 << layout_.bits) - 1));
}

/// Returns a 12-bit sample. Two samples fill three bytes, upper bits first.
std::uint16_t TiffSamples::sample12(const std::uint8_t* row, std::size_t index) {
  const std::uint8_t* pair = row + index / 2 * 3;
  return static_cast<std::uint16_t>(index % 2 == 0 ? pair[0] << 4 | pair[1] >> 4
                                                   : (pair[1] & 15) << 8 | pair[2]);
}

/// Returns gray of any depth as 0..255. Samples of more than 8 bits are clipped, not scaled, as in
/// Pillow.
std::uint8_t TiffSamples::gray(const std::uint8_t* row, std::size_t x) const {
  switch (kind_) {
    case Kind::kGray12:
      return static_cast<std::uint8_t>(std::min<int>(sample12(row, x), 255));
    case Kind::kGray16:
      if (layout_.format == SAMPLEFORMAT_INT) {
        return static_cast<std::uint8_t>(std::clamp<int>(native<std::int16_t>(row, x), 0, 255));
      }
      return static_cast<std::uint8_t>(std::min<int>(native<std::uint16_t>(row, x), 255));
    case Kind::kGrayI32:
      return static_cast<std::uint8_t>(std::clamp(native<std::int32_t>(row, x), 0, 255));
    case Kind::kGrayFloat: {
      const float value = native<float>(row, x);
      return value > 0.0F ? static_cast<std::uint8_t>(std::min(value, 255.0F)) : std::uint8_t{0};
    }
    default:
      break;
  }
  const int greatest = (1 << layout_.bits) - 1;
  const int value = layout_.bits == 8 ? row[x * layout_.samples] : small_sample(row, x);
  return static_cast<std::uint8_t>((inverted_ ? greatest - value : value) * (255 / greatest));
}

void TiffSamples::note_range(const std::uint8_t* row, std::size_t pixels, TiffRange& range) const {
  const auto note = [&]<typename T>(T) {
    for (std::size_t x = 0; x < pixels && !range.clipped; ++x) {
      const auto value = static_cast<double>(native<T>(row, x));
      range.clipped = std::isnan(value) || value < 0 || value > 255;
      range.fraction = range.fraction || value != std::trunc(value);
      range.above_one = range.above_one || value > 1;
    }
  };
  if (kind_ == Kind::kGray12) {
    for (std::size_t x = 0; x < pixels && !range.clipped; ++x) {
      range.clipped = sample12(row, x) > 255;
    }
  } else if (kind_ == Kind::kGray16 && layout_.format == SAMPLEFORMAT_INT) {
    note(std::int16_t{});
  } else if (kind_ == Kind::kGray16) {
    note(std::uint16_t{});
  } else if (kind_ == Kind::kGrayI32) {
    note(std::int32_t{});
  } else if (kind_ == Kind::kGrayFloat) {
    note(float{});
  }
}

std::uint8_t TiffSamples::combined(std::uint8_t value, std::uint8_t fourth) const {
  switch (kind_) {
    case Kind::kPremultiplied:
      return static_cast<std::uint8_t>(fourth == 0 ? 0 : std::min(value * 255 / fourth, 255));
    case Kind::kCmyk:
      return ink_to_light(value, fourth);
    default:
      return value;
  }
}

void TiffSamples::convert(const std::uint8_t* row, std::size_t pixels, std::uint8_t* to) const {
  const std::size_t samples = layout_.samples;
  switch (kind_) {
    case Kind::kIndex:
      for (std::size_t x = 0; x < pixels; ++x, to += kChannels) {
        const std::size_t index = layout_.bits == 8 ? row[x * samples] : small_sample(row, x);
        std::memcpy(to, palette_[index].data(), kChannels);
      }
      break;
    case Kind::kRgb:
      if (layout_.bits == 8 && samples == kChannels) {
        std::memcpy(to, row, pixels * kChannels);
        break;
      }
      for (std::size_t x = 0; x < pixels; ++x, to += kChannels) {
        for (std::size_t channel = 0; channel < kChannels; ++channel) {
          to[channel] = sample8(row, x * samples + channel);
        }
      }
      break;
    case Kind::kPremultiplied:
    case Kind::kCmyk:
      if (kind_ == Kind::kCmyk && layout_.bits == 8 && samples == 4) {
        cmyk_to_rgb(row, static_cast<int>(pixels), to);
        break;
      }
      for (std::size_t x = 0; x < pixels; ++x, to += kChannels) {
        const std::uint8_t fourth = sample8(row, x * samples + 3);
        for (std::size_t channel = 0; channel < kChannels; ++channel) {
          to[channel] = combined(sample8(row, x * samples + channel), fourth);
        }
      }
      break;
    default:
      for (std::size_t x = 0; x < pixels; ++x, to += kChannels) {
        std::fill_n(to, kChannels, gray(row, x));
      }
      break;
  }
}

void TiffSamples::convert_fourth(const std::uint8_t* row, std::size_t pixels,
                                 std::uint8_t* to) const {
  for (std::size_t x = 0; x < pixels; ++x) {
    to[x] = sample8(row, x);
  }
}

void TiffSamples::convert_plane(const std::uint8_t* row, std::size_t pixels, std::size_t plane,
                                const std::uint8_t* fourth, std::uint8_t* to) const {
  const bool is_independent = planes() < 4;
  for (std::size_t x = 0; x < pixels; ++x) {
    const std::uint8_t value = sample8(row, x);
    to[x * kChannels + plane] = is_independent ? value : combined(value, fourth[x]);
  }
}

}  // namespace fovea::image
