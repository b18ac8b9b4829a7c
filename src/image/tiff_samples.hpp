// The samples of a TIFF: how the file describes them, and rows of them as RGB.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include <tiffio.h>

namespace fovea::image {

/// How the file describes its samples; the same fields as Pillow's OPEN_INFO.
struct TiffLayout {
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

  [[nodiscard]] std::string name() const;
};

/// The range of the samples that were converted to 8 bits so far.
struct TiffRange {
  bool clipped = false;    // a value outside of 0..255
  bool fraction = false;   // a value between two whole numbers
  bool above_one = false;  // a value above 1

  /// Whether the conversion loses the image: values are clipped, or lie between 0 and 1.
  [[nodiscard]] bool is_lost() const { return clipped || (fraction && !above_one); }
};

/// Converts the samples of a layout to RGB. Throws, naming the layout, when it is unsupported.
class TiffSamples {
 public:
  TiffSamples() = default;
  /// Reads the palette, if the layout has one, from `tiff`.
  TiffSamples(const TiffLayout& layout, TIFF* tiff);

  /// Whether libtiff converts the image from YCbCr: in its JPEG codec, or for other compressions in
  /// its RGBA interface, which alone supports subsampling.
  [[nodiscard]] bool via_jpeg() const { return via_jpeg_; }
  [[nodiscard]] bool via_rgba() const { return via_rgba_; }

  /// The number of planes that are read one after another; 1 for interleaved samples. When there
  /// are four, each of the first three is converted with the row of the fourth.
  [[nodiscard]] std::size_t planes() const;

  /// The bytes of a row of one plane.
  [[nodiscard]] std::size_t row_bytes(std::size_t pixels) const;

  /// Updates `range` with a row of gray samples of more than 8 bits.
  void note_range(const std::uint8_t* row, std::size_t pixels, TiffRange& range) const;

  /// Converts interleaved samples to RGB.
  void convert(const std::uint8_t* row, std::size_t pixels, std::uint8_t* to) const;

  /// Converts the samples of the fourth plane to 8 bits.
  void convert_fourth(const std::uint8_t* row, std::size_t pixels, std::uint8_t* to) const;

  /// Converts the samples of plane 0, 1 or 2 to that channel of RGB. `fourth` is from the same row.
  void convert_plane(const std::uint8_t* row, std::size_t pixels, std::size_t plane,
                     const std::uint8_t* fourth, std::uint8_t* to) const;

 private:
  enum class Kind {
    kGray,
    kGray12,
    kGray16,
    kGrayI32,
    kGrayFloat,
    kIndex,
    kRgb,
    kPremultiplied,
    kCmyk
  };

  void choose(TIFF* tiff);
  void choose_gray();
  void choose_palette(TIFF* tiff);
  void choose_rgb();
  void choose_ycbcr();
  void refuse_misread() const;
  void require(bool known) const;
  [[nodiscard]] std::uint8_t sample8(const std::uint8_t* row, std::size_t index) const;
  [[nodiscard]] std::uint8_t small_sample(const std::uint8_t* row, std::size_t index) const;
  [[nodiscard]] static std::uint16_t sample12(const std::uint8_t* row, std::size_t index);
  [[nodiscard]] std::uint8_t gray(const std::uint8_t* row, std::size_t x) const;
  /// Combines a channel with the sample of the fourth plane: alpha or black.
  [[nodiscard]] std::uint8_t combined(std::uint8_t value, std::uint8_t fourth) const;

  TiffLayout layout_;
  Kind kind_ = Kind::kGray;
  bool inverted_ = false;
  bool via_jpeg_ = false;
  bool via_rgba_ = false;
  std::array<std::array<std::uint8_t, 3>, 256> palette_{};
};

}  // namespace fovea::image
