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
/// out_width, 3]. The result is what orienting the whole source first and resizing it then gives,
/// because orientation only says which axis of the source is resampled first and from which end.
class RowResizer {
 public:
  /// The sizes of source and result.
  struct Shape {
    int width = 0;  // of the source as stored
    int height = 0;
    Orientation orientation = {};
    int out_height = 0;
    int out_width = 0;
    Resample filter = Resample::kBilinear;
  };

  /// `slots` is the number of rows that slot() gives: kBandRows for a source that is written to
  /// them, fewer for one that lies elsewhere. Calls throw Interrupted when `stop` is set.
  RowResizer(const Shape& shape, std::span<std::uint8_t> out, StopFlag stop = {},
             int slots = kBandRows);

  /// The largest number of bytes that such a RowResizer allocates.
  [[nodiscard]] static std::size_t memory(const Shape& shape, int slots = kBandRows);

  /// The memory for row `index` (less than `slots`) of the next band.
  [[nodiscard]] std::uint8_t* slot(int index);

  /// Takes the next `count` rows, in source order, from their slots.
  void feed(int count);

  /// Takes the next `count` rows from elsewhere. Where reads_padding(), each is readable
  /// kRowPadding past its end.
  void feed(const SourceBand& rows, int count);
  [[nodiscard]] bool reads_padding() const { return !along_first_ && across_ != nullptr; }

 private:
  struct Geometry;
  RowResizer(const Shape& shape, const Geometry& geometry, std::span<std::uint8_t> out,
             StopFlag stop);

  /// Rows do not start at 16-byte boundaries: libjpeg-turbo writes aligned rows past the caches
  /// (simd/x86_64/jdcolext-avx2.asm: vmovntdq), and the resize would wait for memory.
  static constexpr std::size_t kRowOffset = 8;

  [[nodiscard]] std::uint8_t* ring(int row) {
    return ring_.data() + kRowOffset + static_cast<std::size_t>(row % ring_rows_) * ring_stride_;
  }
  [[nodiscard]] std::uint8_t* band(int row) {
    return band_.data() + kRowOffset + static_cast<std::size_t>(row) * band_stride_;
  }
  [[nodiscard]] int output_of(int turn) const {
    return backwards_ ? along_outputs_ - 1 - turn : turn;
  }
  [[nodiscard]] int rows_needed(int turn) const;
  void resample_across(const SourceBand& rows, int count, const OutputBand& targets);
  void blend(int turn, std::uint8_t* target);
  void emit();
  void emit_pending();
  void write_column(int x, const std::uint8_t* pixels);
  [[nodiscard]] std::uint8_t* output_row(int y) {
    return out_ + static_cast<std::size_t>(y) * static_cast<std::size_t>(out_width_) * kChannels;
  }

  StopFlag stop_;
  bool transposed_;
  bool along_first_;       // the pass over source rows comes first
  bool backwards_;         // the outputs over source rows come last first
  bool mirrored_ = false;  // pixels of a source row come last first
  int out_height_;
  int out_width_;
  std::uint8_t* out_;
  int row_pixels_;     // of a source row
  int across_pixels_;  // of a row after the pass along it
  int along_outputs_;
  std::shared_ptr<const AxisWeights> across_;  // inside a source row; null when it keeps its size
  std::shared_ptr<const AxisWeights> along_;   // over source rows; null when they keep their number
  int received_ = 0;                           // source rows
  int emitted_ = 0;                            // outputs over source rows
  int pending_ = 0;                            // of these, still in the band
  int ring_rows_;
  std::size_t ring_stride_;
  std::size_t band_stride_;
  ScratchBuffer ring_;  // rows waiting to be blended
  ScratchBuffer band_;  // rows on their way through the pass along them
  std::vector<const std::uint8_t*> taps_;
};

}  // namespace fovea::image
