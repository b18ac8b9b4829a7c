// RowResizer: a resize that is fed source rows as they are decoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/stop.hpp"
#include "fovea/preprocessing.hpp"
#include "image/orientation.hpp"
#include "image/resize_kernels.hpp"
#include "image/resize_weights.hpp"
#include "image/scratch.hpp"

namespace fovea::image {

/// Resizes a width x height RGB source, rotated by `orientation`, into `out` [out_height,
/// out_width, 3]. The result equals that of rotating the whole source and then resizing it, because
/// the orientation only determines which axis is resampled first, and in which direction.
class RowResizer {
 public:
  /// The sizes of source and result.
  struct Shape {
    int width = 0;  // size of the source as stored
    int height = 0;
    Orientation orientation = {};
    int out_height = 0;
    int out_width = 0;
    Resample filter = Resample::kBilinear;
  };

  /// `slots` is the number of rows that slot() provides: kBandRows if the source is written to
  /// them, fewer if it is elsewhere. Calls throw Interrupted if `stop` is set.
  RowResizer(const Shape& shape, std::span<std::uint8_t> out, StopFlag stop = {},
             int slots = kBandRows);

  /// Returns the maximum number of bytes that such a RowResizer allocates.
  [[nodiscard]] static std::size_t memory(const Shape& shape, int slots = kBandRows);

  /// Returns the memory for row `index` (less than `slots`) of the next band.
  [[nodiscard]] std::uint8_t* slot(int index);

  /// Processes the next `count` rows, in source order, from their slots.
  void feed(int count);

  /// Processes the next `count` rows, which are elsewhere. If reads_padding(), kRowPadding bytes
  /// after each row must be readable.
  void feed(const SourceBand& rows, int count);
  [[nodiscard]] bool reads_padding() const { return !along_first_ && across_ != nullptr; }

 private:
  struct Geometry;
  RowResizer(const Shape& shape, const Geometry& geometry, std::span<std::uint8_t> out,
             StopFlag stop);

  /// Keeps rows from starting at 16-byte boundaries: libjpeg-turbo writes aligned rows with
  /// non-temporal stores (simd/x86_64/jdcolext-avx2.asm: vmovntdq), so that the resize would wait
  /// for memory.
  static constexpr std::size_t kRowOffset = 8;

  [[nodiscard]] std::uint8_t* ring(int row) {
    return ring_.data() + kRowOffset + static_cast<std::size_t>(row % ring_rows_) * ring_stride_;
  }
  [[nodiscard]] std::uint8_t* band(int row) {
    return band_.data() + kRowOffset + static_cast<std::size_t>(row) * band_stride_;
  }
  [[nodiscard]] int output_index(int number) const {
    return backwards_ ? along_outputs_ - 1 - number : number;
  }
  [[nodiscard]] int rows_needed(int number) const;
  void resample_across(const SourceBand& rows, int count, const OutputBand& targets);
  void blend(int number, std::uint8_t* target);
  void emit();
  void emit_pending();
  void write_column(int x, const std::uint8_t* pixels);
  [[nodiscard]] std::uint8_t* output_row(int y) {
    return out_ + static_cast<std::size_t>(y) * static_cast<std::size_t>(out_width_) * kChannels;
  }

  StopFlag stop_;
  bool transposed_;
  bool along_first_;       // whether rows are blended before they are resampled
  bool backwards_;         // whether the order of rows is reversed
  bool mirrored_ = false;  // whether the order of pixels in a row is reversed
  int out_height_;
  int out_width_;
  std::uint8_t* out_;
  int row_pixels_;     // pixels of a source row
  int across_pixels_;  // pixels of a resampled row
  int along_outputs_;
  std::shared_ptr<const AxisWeights> across_;  // for resampling rows; null if their size is kept
  std::shared_ptr<const AxisWeights> along_;   // for blending rows; null if their number is kept
  int received_ = 0;                           // number of source rows so far
  int emitted_ = 0;                            // number of blended rows so far
  int pending_ = 0;                            // blended rows that are still in the band
  int ring_rows_;
  std::size_t ring_stride_;
  std::size_t band_stride_;
  ScratchBuffer ring_;  // rows waiting to be blended
  ScratchBuffer band_;  // rows being resampled
  std::vector<const std::uint8_t*> taps_;
};

}  // namespace fovea::image
