// One row of each operator, computed directly from its formula: for the float64 operators, the
// laboratory and tests.
//
// `Number` is double for the exact result, or float for results as a framework computes them.
// Operands are vectors or spans of any arithmetic type.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numbers>
#include <span>
#include <vector>

namespace fovea::ops::reference {

/// Sum of a[i] b[i], in eight partial sums, which compilers vectorise.
template <typename Number, typename A, typename B>
[[nodiscard]] Number dot(std::span<const A> a, std::span<const B> b) {
  constexpr std::size_t kLanes = 8;
  std::array<Number, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= a.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += static_cast<Number>(a[i + lane]) * static_cast<Number>(b[i + lane]);
    }
  }
  Number sum = 0;
  for (; i < a.size(); ++i) {
    sum += static_cast<Number>(a[i]) * static_cast<Number>(b[i]);
  }
  for (const Number lane : lanes) {
    sum += lane;
  }
  return sum;
}

/// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
[[nodiscard]] inline double gelu_tanh(double x) {
  const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + std::tanh(inner));
}

/// x / 2 (1 + erf(x / sqrt(2))).
[[nodiscard]] inline double gelu_erf(double x) {
  return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
}

template <typename Number>
struct Moments {
  Number mean = 0;
  Number variance = 0;

  [[nodiscard]] Number scale(double eps) const {
    return 1 / std::sqrt(variance + static_cast<Number>(eps));
  }
};

template <typename Number, typename X>
[[nodiscard]] Moments<Number> row_moments(std::span<const X> x) {
  const auto count = static_cast<Number>(x.size());
  Moments<Number> moments;
  for (const X value : x) {
    moments.mean += static_cast<Number>(value);
  }
  moments.mean /= count;
  for (const X value : x) {
    const Number centred = static_cast<Number>(value) - moments.mean;
    moments.variance += centred * centred;
  }
  moments.variance /= count;
  return moments;
}

/// y = (x - mean) scale weight + bias.
template <typename Number, typename X, typename W>
void normalise_row(std::span<const X> x, const Moments<Number>& moments, double eps,
                   std::span<const W> weight, std::span<const W> bias, std::span<Number> y) {
  const Number scale = moments.scale(eps);
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = (static_cast<Number>(x[i]) - moments.mean) * scale * static_cast<Number>(weight[i]) +
           static_cast<Number>(bias[i]);
  }
}

/// Returns scale * (query . key) for each row of `keys`, a dense matrix.
template <typename Number, typename X>
[[nodiscard]] std::vector<Number> attention_scores(std::span<const X> query,
                                                   std::span<const X> keys, double scale) {
  const std::size_t width = query.size();
  std::vector<Number> scores(keys.size() / width);
  for (std::size_t key = 0; key < scores.size(); ++key) {
    scores[key] = dot<Number>(query, keys.subspan(key * width, width)) * static_cast<Number>(scale);
  }
  return scores;
}

/// y = softmax(scores) x values, a dense matrix; zeros without scores. `store` rounds exp(score -
/// maximum) before it is multiplied by the values, but not in the sum of the weights.
template <typename Number, typename X, typename Store = std::identity>
void weigh_rows(std::span<Number> scores, std::span<const X> values, std::span<Number> y,
                Store store = {}) {
  std::ranges::fill(y, Number{0});
  if (scores.empty()) {
    return;
  }
  const Number maximum = *std::ranges::max_element(scores);
  Number sum = 0;
  for (std::size_t key = 0; key < scores.size(); ++key) {
    const Number weight = std::exp(scores[key] - maximum);
    sum += weight;
    const Number stored = store(weight);
    const X* const row = values.data() + key * y.size();
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] += stored * static_cast<Number>(row[i]);
    }
  }
  for (Number& value : y) {
    value /= sum;
  }
}

/// y = softmax(scale query x keys^T) x values for one query and the keys that it attends to.
template <typename X>
void attend_row(std::span<const X> query, std::span<const X> keys, std::span<const X> values,
                double scale, std::span<double> y) {
  std::vector<double> scores = attention_scores<double>(query, keys, scale);
  weigh_rows<double>(scores, values, y);
}

}  // namespace fovea::ops::reference
