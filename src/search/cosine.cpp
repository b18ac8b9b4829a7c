// Computes sums in four independent lanes, which is about four times as fast as one.
#include "search/cosine.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.hpp"
#include "search/code_kernels.hpp"
#include "search/dot_kernels.hpp"

namespace fovea::search {
namespace {

double dot(std::span<const float> a, std::span<const float> b) {
  std::array<double, 4> sums{};
  std::size_t index = 0;
  for (; index + sums.size() <= a.size(); index += sums.size()) {
    for (std::size_t lane = 0; lane < sums.size(); ++lane) {
      sums[lane] += static_cast<double>(a[index + lane]) * static_cast<double>(b[index + lane]);
    }
  }
  for (; index < a.size(); ++index) {
    sums[0] += static_cast<double>(a[index]) * static_cast<double>(b[index]);
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace

double squared_norm(std::span<const float> vector) {
  return dot(vector, vector);
}

double cosine(std::span<const float> a, double squared_a, std::span<const float> b,
              double squared_b) {
  if (squared_a == 0 || squared_b == 0) {
    return 0;
  }
  // The root is exactly the squared length for equal vectors, so that their cosine is 1.
  return std::clamp(dot(a, b) / std::sqrt(squared_a * squared_b), -1.0, 1.0);
}

float cosine_error(std::int64_t dimension) {
  constexpr float kUnitRoundoff = 0x1p-24F;
  constexpr float kSingleRoundings = 16;  // a bound on the roundings outside of sums
  return (2 * static_cast<float>(dimension) + kSingleRoundings) * kUnitRoundoff;
}

void inverse_norms_from_squares(const float* squares, std::int64_t count, float* out) {
  // Squares of elements neither overflow nor underflow significantly within these limits.
  constexpr float kMinSquare = 1e-30F;
  constexpr float kMaxSquare = 1e30F;
  inverse_roots(squares, static_cast<std::size_t>(count), kMinSquare, kMaxSquare, out);
}

void inverse_norms(const float* rows, std::int64_t count, std::int64_t dimension, float* out) {
  squared_norms(rows, static_cast<std::size_t>(count), static_cast<std::size_t>(dimension), out);
  inverse_norms_from_squares(out, count, out);
}

double checked_squared_norm(const Shards& shards, std::int64_t row, std::span<const float> vector) {
  const double squared = squared_norm(vector);
  if (!std::isfinite(squared)) {
    fail("{}: the embedding contains NaN or infinity", shards.describe(row));
  }
  return squared;
}

}  // namespace fovea::search
