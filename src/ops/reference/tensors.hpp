// Tensors and layers in float64: the building blocks of the reference operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/address.hpp"
#include "core/tensor_view.hpp"
#include "ops/call.hpp"
#include "ops/layer_norm/op.hpp"
#include "ops/linear/op.hpp"

namespace fovea::ops::reference {

using Vector = std::vector<double>;

/// Returns element `index` of a view as float64. A kMXFP8 view must be a matrix [rows, width].
[[nodiscard]] double load(const ConstTensorView& view, std::int64_t index);
/// Stores `value`, rounded to the view's type, which must not be u8, i8 or kMXFP8.
void store(const TensorView& view, std::int64_t index, double value);
/// Stores a row of a matrix [rows, width], rounded to its type.
void store_row(const TensorView& view, std::int64_t row, std::span<const double> values);

[[nodiscard]] inline std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

/// Loads a row of a matrix [rows, width].
[[nodiscard]] Vector read_row(const ConstTensorView& view, std::int64_t row, std::int64_t width);
/// Loads rows of `width` elements that begin at first, first + step, ..., into one array.
[[nodiscard]] Vector read_rows(const ConstTensorView& view, std::int64_t first, std::int64_t step,
                               std::int64_t count, std::int64_t width);

/// Computes outputs [first, first + count) of a linear layer, or all of them.
[[nodiscard]] Vector forward(const LinearWeights& weights, std::span<const double> x,
                             std::int64_t first, std::int64_t count);
[[nodiscard]] Vector forward(const LinearWeights& weights, std::span<const double> x);
[[nodiscard]] Vector forward(const LayerNormWeights& weights, double eps,
                             std::span<const double> x);

/// Returns the first row of an image, and its number of rows.
template <typename Problem>
[[nodiscard]] std::pair<std::int64_t, std::int64_t> image_rows(const Problem& problem,
                                                               const ImageShapes& shapes,
                                                               std::int64_t image) {
  if (!shapes.differ()) {
    return {image * problem.tokens, problem.tokens};
  }
  const auto* const starts = pointer<const std::int32_t>(shapes.starts);
  return {starts[image], starts[image + 1] - starts[image]};
}

/// Returns the weights, one per table row, with which torch's F.interpolate(mode="bilinear",
/// align_corners=False, antialias=True) computes position `index` of `count`.
[[nodiscard]] Vector interpolation(std::int64_t index, std::int64_t count, std::int64_t table);

}  // namespace fovea::ops::reference
