// Resizes position tables. Weights are computed in float64; sums, which have few terms, in float32.
#include "ops/position.hpp"

#include <algorithm>
#include <cmath>

namespace fovea::ops {

AxisWeights::AxisWeights(std::int64_t table, std::int64_t positions)
    : rows_(static_cast<std::size_t>(positions)) {
  const double scale = static_cast<double>(table) / static_cast<double>(positions);
  const double support = std::max(scale, 1.0);
  std::vector<double> found;
  for (std::size_t position = 0; position < rows_.size(); ++position) {
    const double centre = (static_cast<double>(position) + 0.5) * scale - 0.5;
    found.clear();
    double sum = 0;
    for (std::int64_t row = 0; row < table; ++row) {
      const double weight = 1 - std::abs(static_cast<double>(row) - centre) / support;
      if (weight > 0) {
        if (found.empty()) {
          rows_[position].first = row;
        }
        found.push_back(weight);
        sum += weight;
      }
    }
    for (const double weight : found) {
      rows_[position].weights.push_back(static_cast<float>(weight / sum));
    }
  }
}

ResizedPositions::ResizedPositions(std::span<const float> table, std::int64_t side,
                                   std::int64_t width, const PatchGrid& grid)
    : table_(table),
      side_(side),
      width_(width),
      columns_(grid.width),
      down_(side, grid.height),
      across_(side, grid.width) {}

void ResizedPositions::row(std::int64_t patch, float* out) const {
  const std::int64_t y = patch / columns_;
  const std::int64_t x = patch % columns_;
  std::fill_n(out, width_, 0.0F);
  const float* from = table_.data() + (down_.first(y) * side_ + across_.first(x)) * width_;
  for (const float row_weight : down_.weights(y)) {
    const float* cell = from;
    for (const float column_weight : across_.weights(x)) {
      const float weight = row_weight * column_weight;
      for (std::int64_t i = 0; i < width_; ++i) {
        out[i] += weight * cell[i];
      }
      cell += width_;
    }
    from += side_ * width_;
  }
}

}  // namespace fovea::ops
