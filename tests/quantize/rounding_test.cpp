// Rounding to 8 bits with feedback: what it promises is a smaller change of the layer's output.
#include "quantize/rounding.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "core/dtype.hpp"
#include "fovea/error.hpp"
#include "quantize/gram_kernels.hpp"

namespace fovea::quantize {
namespace {

constexpr std::size_t kWidth = 100;  // no multiple of a vector or a tile
constexpr std::size_t kOutputs = 21;
constexpr std::size_t kRows = 700;

/// Inputs that go together, as activations do: few directions and a mean.
struct Layer {
  std::vector<float> x;  // [kRows, kWidth]
  std::vector<float> weight;
  std::vector<float> bias;
  InputStatistics statistics;

  Layer() : x(kRows * kWidth), weight(kOutputs * kWidth), bias(kOutputs, 0.25F) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    constexpr std::size_t kDirections = 12;
    std::vector<float> directions(kDirections * kWidth);
    std::vector<float> mean(kWidth);
    for (float& value : directions) {
      value = normal(random);
    }
    for (float& value : mean) {
      value = 2 * normal(random);
    }
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t i = 0; i < kWidth; ++i) {
        x[row * kWidth + i] = mean[i] + 0.1F * normal(random);
      }
      for (std::size_t d = 0; d < kDirections; ++d) {
        const float amount = normal(random);
        for (std::size_t i = 0; i < kWidth; ++i) {
          x[row * kWidth + i] += amount * directions[d * kWidth + i];
        }
      }
    }
    for (float& value : weight) {
      value = normal(random) / 10;
    }
    statistics.width = kWidth;
    statistics.rows = kRows;
    statistics.gram = AlignedBuffer<float>(kWidth * kWidth);
    std::ranges::fill(statistics.gram.span(), 0.0F);
    add_gram(x.data(), kRows, kWidth, statistics.gram.data());
    statistics.sum.assign(kWidth, 0.0);
    statistics.peaks.assign(kWidth, 0.0F);
    for (std::size_t index = 0; index < x.size(); ++index) {
      statistics.sum[index % kWidth] += x[index];
      float& peak = statistics.peaks[index % kWidth];
      peak = std::max(peak, std::abs(x[index]));
    }
  }

  /// Root mean square over rows and outputs of what w and b change in the layer's output.
  [[nodiscard]] double change(const std::vector<float>& w, const std::vector<float>& b) const {
    double sum = 0;
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t o = 0; o < kOutputs; ++o) {
        double difference = static_cast<double>(b[o]) - bias[o];
        for (std::size_t i = 0; i < kWidth; ++i) {
          difference += (static_cast<double>(w[o * kWidth + i]) - weight[o * kWidth + i]) *
                        x[row * kWidth + i];
        }
        sum += difference * difference;
      }
    }
    return std::sqrt(sum / static_cast<double>(kRows * kOutputs));
  }
};

float value_of(std::uint8_t bits, DType numbers) {
  return numbers == DType::kI8 ? static_cast<float>(static_cast<std::int8_t>(bits))
                               : to_float(Float8E4M3{bits});
}

class Rounding : public testing::TestWithParam<DType> {};

TEST_P(Rounding, ChangesTheOutputLessThanRoundingToTheNearest) {
  const Layer layer;
  const RoundedLayer rounded = round_layer(layer.weight, layer.bias, layer.statistics, GetParam());
  std::vector<float> nearest(layer.weight.size());
  std::vector<float> with_feedback(layer.weight.size());
  for (std::size_t index = 0; index < nearest.size(); ++index) {
    const float scale = rounded.scale[index / kWidth];
    const float scaled = layer.weight[index] / scale;
    nearest[index] =
        scale * (GetParam() == DType::kI8 ? std::nearbyint(scaled) : to_float(to_e4m3(scaled)));
    with_feedback[index] = scale * value_of(rounded.rounded[index], GetParam());
  }
  const double plain = layer.change(nearest, layer.bias);
  const double best = layer.change(with_feedback, rounded.bias);
  EXPECT_GT(plain, 0);
  EXPECT_LT(best, plain / 4) << plain;
  // The bias alone is not what helps, and the feedback alone leaves more than both.
  EXPECT_LT(best, layer.change(nearest, rounded.bias) / 2);
  EXPECT_LT(best, layer.change(with_feedback, layer.bias));
}

INSTANTIATE_TEST_SUITE_P(Formats, Rounding, testing::Values(DType::kI8, DType::kE4M3),
                         [](const auto& format) { return std::string(to_string(format.param)); });

TEST(Gram, IsTheSumOfProducts) {
  const Layer layer;
  for (std::size_t i = 0; i < kWidth; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = 0;
      for (std::size_t row = 0; row < kRows; ++row) {
        sum += static_cast<double>(layer.x[row * kWidth + i]) * layer.x[row * kWidth + j];
      }
      ASSERT_NEAR(layer.statistics.gram[i * kWidth + j], sum, 1e-3 * kRows) << i << ' ' << j;
    }
  }
}

// Columns that reach far decide the scale of a row; divided, they leave room to the others.
TEST(BalancingDivisors, MakeInputsAndWeightsReachEquallyFar) {
  Layer layer;
  for (std::size_t o = 0; o < kOutputs; ++o) {
    layer.weight[o * kWidth + 3] *= 100;
    layer.weight[o * kWidth + 5] = 0;
  }
  layer.statistics.peaks[7] *= 50;
  const std::vector<float> divisors = balancing_divisors(layer.weight, layer.statistics);
  double logarithms = 0;
  float ratio = 0;  // of the two peaks: the same for all columns
  for (std::size_t i = 0; i < kWidth; ++i) {
    if (i == 5) {
      EXPECT_EQ(divisors[i], 1.0F);
      continue;
    }
    float peak = 0;
    for (std::size_t o = 0; o < kOutputs; ++o) {
      peak = std::max(peak, std::abs(layer.weight[o * kWidth + i]));
    }
    const float quotient = layer.statistics.peaks[i] / divisors[i] / (peak * divisors[i]);
    ratio = ratio == 0 ? quotient : ratio;
    EXPECT_NEAR(quotient, ratio, 1e-4 * ratio) << i;
    logarithms += std::log(divisors[i]);
  }
  EXPECT_NEAR(logarithms, 0.0, 1e-3);
}

TEST(BalancingDivisors, StatisticsAreThoseOfTheDividedInputs) {
  Layer layer;
  std::vector<float> divisors(kWidth);
  for (std::size_t i = 0; i < kWidth; ++i) {
    divisors[i] = 0.5F + 0.1F * static_cast<float>(i % 17);
  }
  const InputStatistics found = divide_inputs(layer.statistics, divisors);
  for (std::size_t index = 0; index < layer.x.size(); ++index) {
    layer.x[index] /= divisors[index % kWidth];
  }
  std::vector<float> gram(kWidth * kWidth);
  add_gram(layer.x.data(), kRows, kWidth, gram.data());
  EXPECT_EQ(found.rows, kRows);
  for (std::size_t i = 0; i < kWidth; ++i) {
    double sum = 0;
    float peak = 0;
    for (std::size_t row = 0; row < kRows; ++row) {
      sum += layer.x[row * kWidth + i];
      peak = std::max(peak, std::abs(layer.x[row * kWidth + i]));
    }
    EXPECT_NEAR(found.sum[i], sum, 1e-4 * kRows);
    EXPECT_NEAR(found.peaks[i], peak, 1e-5 * peak);
    for (std::size_t j = 0; j <= i; ++j) {
      ASSERT_NEAR(found.gram[i * kWidth + j], gram[i * kWidth + j], 1e-3 * kRows) << i << ' ' << j;
    }
  }
}

TEST(RoundLayer, RefusesWeightsOfAnotherWidth) {
  const Layer layer;
  EXPECT_THROW((void)round_layer(std::span(layer.weight).first(kWidth), layer.bias,
                                 layer.statistics, DType::kI8),
               Error);
}

}  // namespace
}  // namespace fovea::quantize
