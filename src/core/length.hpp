// The Euclidean length of a vector, and normalisation to length 1. Results are the same on every
// machine.
#pragma once

#include <algorithm>
#include <span>

namespace fovea {

/// Sum of squares, in double; NaN or infinite when any element is.
[[nodiscard]] inline double squared_length(std::span<const float> vector) {
  double sum = 0;
  for (const float value : vector) {
    sum += static_cast<double>(value) * static_cast<double>(value);
  }
  return sum;
}

/// Divides by `length`, which must not be 0.
inline void divide(std::span<float> vector, double length) {
  std::ranges::transform(vector, vector.begin(), [&](float value) {
    return static_cast<float>(static_cast<double>(value) / length);
  });
}

}  // namespace fovea
