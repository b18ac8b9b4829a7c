// Loads, stores and layers in float64, as plain loops.
#include "ops/reference/tensors.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "ops/block_scales.hpp"
#include "ops/reference/rows.hpp"

namespace fovea::ops::reference {
namespace {

/// Returns the layout of the scales of a kMXFP8 matrix.
template <typename View>
BlockScales scale_layout(const View& view) {
  return {view.shape[0], view.shape[1]};
}

}  // namespace

double load(const ConstTensorView& view, std::int64_t index) {
  switch (view.dtype) {
    case DType::kU8:
      return view.as<std::uint8_t>()[index];
    case DType::kI8:
      return view.as<std::int8_t>()[index];
    case DType::kE4M3:
      return to_float(view.as<Float8E4M3>()[index]);
    case DType::kMXFP8: {
      const BlockScales scales = scale_layout(view);
      const std::int64_t place =
          scales.offset() + scales.place(index / scales.width, index % scales.width / kScaleBlock);
      return double{to_float(view.as<Float8E4M3>()[index])} *
             double{to_float(view.as<Float8E8M0>()[place])};
    }
    case DType::kF16:
      return to_float(view.as<Float16>()[index]);
    case DType::kBF16:
      return to_float(view.as<BFloat16>()[index]);
    case DType::kF32:
      return view.as<float>()[index];
    case DType::kF64:
      return view.as<double>()[index];
  }
  fail("load: unknown tensor type");
}

void store(const TensorView& view, std::int64_t index, double value) {
  switch (view.dtype) {
    case DType::kU8:
    case DType::kI8:
    case DType::kMXFP8:
      fail("store: {} values cannot be stored one by one", to_string(view.dtype));
    case DType::kE4M3:
      view.as<Float8E4M3>()[index] = to_e4m3(static_cast<float>(value));
      return;
    case DType::kF16:
      view.as<Float16>()[index] = to_float16(static_cast<float>(value));
      return;
    case DType::kBF16:
      view.as<BFloat16>()[index] = to_bfloat16(static_cast<float>(value));
      return;
    case DType::kF32:
      view.as<float>()[index] = static_cast<float>(value);
      return;
    case DType::kF64:
      view.as<double>()[index] = value;
      return;
  }
}

void store_row(const TensorView& view, std::int64_t row, std::span<const double> values) {
  const auto width = static_cast<std::int64_t>(values.size());
  if (view.dtype != DType::kMXFP8) {
    for (std::int64_t i = 0; i < width; ++i) {
      store(view, row * width + i, values[at(i)]);
    }
    return;
  }
  const BlockScales scales = scale_layout(view);
  const std::vector<float> narrow(values.begin(), values.end());
  for (std::int64_t block = 0; block < scales.blocks(); ++block) {
    const std::int64_t first = block * kScaleBlock;
    const std::size_t count = at(std::min(kScaleBlock, width - first));
    view.as<Float8E8M0>()[scales.offset() + scales.place(row, block)] =
        round_block(std::span(narrow).subspan(at(first), count),
                    std::span(view.as<Float8E4M3>() + row * width + first, count));
  }
}

Vector interpolation(std::int64_t index, std::int64_t count, std::int64_t table) {
  const double scale = static_cast<double>(table) / static_cast<double>(count);
  const double centre = (static_cast<double>(index) + 0.5) * scale;
  Vector weights(at(table));
  double sum = 0;
  for (std::int64_t row = 0; row < table; ++row) {
    const double distance = std::abs(static_cast<double>(row) + 0.5 - centre);
    weights[at(row)] = std::max(0.0, 1.0 - distance / std::max(scale, 1.0));
    sum += weights[at(row)];
  }
  for (double& weight : weights) {
    weight /= sum;
  }
  return weights;
}

Vector read_row(const ConstTensorView& view, std::int64_t row, std::int64_t width) {
  Vector values(at(width));
  for (std::int64_t i = 0; i < width; ++i) {
    values[at(i)] = load(view, row * width + i);
  }
  return values;
}

Vector read_rows(const ConstTensorView& view, std::int64_t first, std::int64_t step,
                 std::int64_t count, std::int64_t width) {
  Vector values;
  for (std::int64_t row = 0; row < count; ++row) {
    for (std::int64_t i = 0; i < width; ++i) {
      values.push_back(load(view, first + row * step + i));
    }
  }
  return values;
}

Vector forward(const LinearWeights& weights, std::span<const double> x, std::int64_t first,
               std::int64_t count) {
  Vector y;
  for (std::int64_t o = first; o < first + count; ++o) {
    y.push_back(weights.bias[at(o)] +
                dot<double>(weights.weight.subspan(at(o * weights.in), at(weights.in)), x));
  }
  return y;
}

Vector forward(const LinearWeights& weights, std::span<const double> x) {
  return forward(weights, x, 0, weights.out);
}

Vector forward(const LayerNormWeights& weights, double eps, std::span<const double> x) {
  Vector y(x.size());
  normalise_row<double>(x, row_moments<double>(x), eps, weights.weight, weights.bias, y);
  return y;
}

}  // namespace fovea::ops::reference
