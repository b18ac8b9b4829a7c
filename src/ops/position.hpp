// The position table of a NaFlex model, resized to the patches of an image.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fovea/preprocessing.hpp"

namespace fovea::ops {

/// Interpolation weights along one axis, as in torch's F.interpolate with mode="bilinear",
/// align_corners=False and antialias=True: a triangle filter centred at the position in the table,
/// with a support of two table rows, or of two positions when downscaling. Rows outside the table
/// are excluded, and the weights add up to 1.
class AxisWeights {
 public:
  AxisWeights(std::int64_t table, std::int64_t positions);

  [[nodiscard]] std::int64_t first(std::int64_t position) const { return at(position).first; }
  /// Returns the weights of consecutive table rows, starting at first(position).
  [[nodiscard]] std::span<const float> weights(std::int64_t position) const {
    return at(position).weights;
  }

 private:
  struct Rows {
    std::int64_t first = 0;
    std::vector<float> weights;
  };
  [[nodiscard]] const Rows& at(std::int64_t position) const {
    return rows_[static_cast<std::size_t>(position)];
  }

  std::vector<Rows> rows_;  // for each position
};

/// A position table (side, side, width) that is resized to an image's patches.
class ResizedPositions {
 public:
  /// `table` must outlive this object.
  ResizedPositions(std::span<const float> table, std::int64_t side, std::int64_t width,
                   const PatchGrid& grid);

  /// Computes the position embedding of a patch, numbered row by row in the image: out [width].
  void row(std::int64_t patch, float* out) const;

 private:
  std::span<const float> table_;
  std::int64_t side_;
  std::int64_t width_;
  std::int64_t columns_;
  AxisWeights down_;
  AxisWeights across_;
};

}  // namespace fovea::ops
