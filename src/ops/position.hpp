// The position table of a NaFlex model, resized to the patches of an image.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fovea/preprocessing.hpp"

namespace fovea::ops {

/// How positions along one axis weight the rows of a table, as torch's F.interpolate does with
/// mode="bilinear", align_corners=False and antialias=True: a triangle around the position's place
/// in the table, as wide as two rows of the table, or as two positions where those are further
/// apart; what lies outside of the table is left out, and the weights add up to 1.
class AxisWeights {
 public:
  AxisWeights(std::int64_t table, std::int64_t positions);

  [[nodiscard]] std::int64_t first(std::int64_t position) const { return at(position).first; }
  /// The weights of the rows from the first on.
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

  std::vector<Rows> rows_;  // of each position
};

/// The table (side, side, width), resized to an image's patches.
class ResizedPositions {
 public:
  /// `table` must outlive it.
  ResizedPositions(std::span<const float> table, std::int64_t side, std::int64_t width,
                   const PatchGrid& grid);

  /// The row of a patch, counted along the rows of the image: out [width].
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
