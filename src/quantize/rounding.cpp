// Rounds weights: column order, factorisation, rounding with error feedback, and correction of the
// bias.
#include "quantize/rounding.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "quantize/gram_kernels.hpp"

namespace fovea::quantize {
namespace {

// The damping that is added to the diagonal, as a fraction of its mean. It bounds the factors of
// columns whose inputs hardly vary.
constexpr double kDamping = 0.01;
constexpr float kInt8Max = 127.0F;

/// Returns the upper triangle of the damped covariance of the inputs, with columns in `order`.
AlignedBuffer<float> covariance(const InputStatistics& inputs,
                                const std::vector<std::size_t>& order) {
  const std::size_t width = inputs.width;
  const double rows = static_cast<double>(inputs.rows);
  AlignedBuffer<float> matrix(width * width);
  double trace = 0;
  for (std::size_t i = 0; i < width; ++i) {
    for (std::size_t j = i; j < width; ++j) {
      const std::size_t a = std::max(order[i], order[j]);
      const std::size_t b = std::min(order[i], order[j]);
      const double moment = inputs.gram[a * width + b] / rows;
      const double value = moment - inputs.sum[a] / rows * (inputs.sum[b] / rows);
      matrix[i * width + j] = static_cast<float>(value);
      trace += i == j ? value : 0;
    }
  }
  const double damping = std::max(kDamping * trace / static_cast<double>(width), 1e-20);
  for (std::size_t i = 0; i < width; ++i) {
    matrix[i * width + i] += static_cast<float>(damping);
  }
  return matrix;
}

/// Factorises a positive definite matrix as R R^T, and replaces its upper triangle by R.
void factorise(AlignedBuffer<float>& matrix, std::size_t width) {
  for (std::size_t j = width; j-- > 0;) {
    const std::size_t tail = width - j - 1;
    const float* const row = matrix.data() + j * width + j + 1;
    const float square = matrix[j * width + j] - dot(row, row, tail);
    if (!(square > 0)) {
      fail("calibration: the covariance of the inputs is not positive definite at column {}", j);
    }
    const float diagonal = std::sqrt(square);
    matrix[j * width + j] = diagonal;
    for (std::size_t i = 0; i < j; ++i) {
      float& element = matrix[i * width + j];
      element = (element - dot(matrix.data() + i * width + j + 1, row, tail)) / diagonal;
    }
  }
}

/// Returns a matrix of weights u: row k has u_jk for j < k, by which the error of column j is
/// multiplied when it is added to column k.
AlignedBuffer<float> feedback_weights(const InputStatistics& inputs,
                                      const std::vector<std::size_t>& order) {
  const std::size_t width = inputs.width;
  AlignedBuffer<float> matrix = covariance(inputs, order);
  factorise(matrix, width);
  AlignedBuffer<float> rows(width * width);
  constexpr std::size_t kBlock = 64;  // blocks of this size fit into the L1 cache
  for (std::size_t k0 = 0; k0 < width; k0 += kBlock) {
    for (std::size_t j0 = 0; j0 <= k0; j0 += kBlock) {
      for (std::size_t k = k0; k < std::min(k0 + kBlock, width); ++k) {
        for (std::size_t j = j0; j < std::min(j0 + kBlock, k); ++j) {
          rows[k * width + j] = matrix[j * width + k] / matrix[k * width + k];
        }
      }
    }
  }
  return rows;
}

// The numbers that an 8-bit type can represent.
struct Grid {
  DType type;

  [[nodiscard]] float scale(float peak) const {
    const float max_value = type == DType::kI8 ? kInt8Max : kE4M3Max;
    return peak > 0 ? peak / max_value : 1.0F;
  }
  [[nodiscard]] std::uint8_t round(float value) const {
    if (type == DType::kI8) {
      return static_cast<std::uint8_t>(
          static_cast<std::int8_t>(std::nearbyint(std::clamp(value, -kInt8Max, kInt8Max))));
    }
    return to_e4m3(value).bits;
  }
  [[nodiscard]] float value(std::uint8_t bits) const {
    return type == DType::kI8 ? static_cast<float>(static_cast<std::int8_t>(bits))
                              : to_float(Float8E4M3{bits});
  }
};

}  // namespace

RoundedLayer round_layer(std::span<const float> weight, std::span<const float> bias,
                         const InputStatistics& inputs, DType type) {
  const std::size_t width = inputs.width;
  const std::size_t outputs = bias.size();
  if (width == 0 || inputs.rows == 0 || weight.size() != outputs * width) {
    fail(
        "calibration: weights of {} elements do not match {} outputs of {} inputs ({} rows "
        "observed)",
        weight.size(), outputs, width, inputs.rows);
  }
  const Grid grid{type};
  // The columns with the largest inputs come first, so that all others compensate for their errors.
  std::vector<std::size_t> order(width);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, std::ranges::greater{}, [&](std::size_t i) {
    return std::pair(inputs.gram[i * width + i], width - i);
  });
  const AlignedBuffer<float> u = feedback_weights(inputs, order);

  RoundedLayer layer{.rounded = std::vector<std::uint8_t>(outputs * width),
                     .scale = std::vector<float>(outputs),
                     .bias = std::vector<float>(bias.begin(), bias.end())};
  AlignedBuffer<float> errors(kDotRows * width);  // weight - rounded, with columns in `order`
  std::array<float, kDotRows> feedback{};
  for (std::size_t first = 0; first < outputs; first += kDotRows) {
    const std::size_t rows = std::min(kDotRows, outputs - first);
    for (std::size_t row = 0; row < rows; ++row) {
      float peak = 0;
      for (const float value : weight.subspan((first + row) * width, width)) {
        peak = std::max(peak, std::abs(value));
      }
      layer.scale[first + row] = grid.scale(peak);
    }
    std::ranges::fill(errors.span(), 0.0F);
    for (std::size_t k = 0; k < width; ++k) {
      dot_rows(errors.data(), width, u.data() + k * width, k, feedback.data());
      for (std::size_t row = 0; row < rows; ++row) {
        const std::size_t element = (first + row) * width + order[k];
        const float scale = layer.scale[first + row];
        layer.rounded[element] = grid.round((weight[element] + feedback[row]) / scale);
        errors[row * width + k] = weight[element] - grid.value(layer.rounded[element]) * scale;
      }
    }
    for (std::size_t row = 0; row < rows; ++row) {
      double shift = 0;
      for (std::size_t k = 0; k < width; ++k) {
        shift += errors[row * width + k] * inputs.sum[order[k]];
      }
      layer.bias[first + row] += static_cast<float>(shift / static_cast<double>(inputs.rows));
    }
  }
  return layer;
}

std::vector<float> balancing_divisors(std::span<const float> weight,
                                      const InputStatistics& inputs) {
  const std::size_t width = inputs.width;
  std::vector<float> peaks(width);
  for (std::size_t element = 0; element < weight.size(); ++element) {
    peaks[element % width] = std::max(peaks[element % width], std::abs(weight[element]));
  }
  // A column whose inputs or weights are all zero keeps the divisor 1.
  std::vector<float> divisors(width, 1.0F);
  double sum = 0;
  std::size_t balanced_columns = 0;
  for (std::size_t i = 0; i < width; ++i) {
    if (inputs.peaks[i] > 0 && peaks[i] > 0) {
      divisors[i] = std::sqrt(inputs.peaks[i] / peaks[i]);
      sum += std::log(double{divisors[i]});
      ++balanced_columns;
    }
  }
  const double geometric_mean =
      balanced_columns == 0 ? 1.0 : std::exp(sum / static_cast<double>(balanced_columns));
  for (std::size_t i = 0; i < width; ++i) {
    if (inputs.peaks[i] > 0 && peaks[i] > 0) {
      divisors[i] = static_cast<float>(divisors[i] / geometric_mean);
    }
  }
  return divisors;
}

InputStatistics divide_inputs(const InputStatistics& inputs, std::span<const float> divisors) {
  const std::size_t width = inputs.width;
  InputStatistics result{.width = width,
                         .rows = inputs.rows,
                         .gram = AlignedBuffer<float>(width * width),
                         .sum = inputs.sum,
                         .peaks = inputs.peaks};
  for (std::size_t i = 0; i < width; ++i) {
    result.sum[i] /= divisors[i];
    result.peaks[i] /= divisors[i];
    for (std::size_t j = 0; j < width; ++j) {
      result.gram[i * width + j] = inputs.gram[i * width + j] / (divisors[i] * divisors[j]);
    }
  }
  return result;
}

}  // namespace fovea::quantize
