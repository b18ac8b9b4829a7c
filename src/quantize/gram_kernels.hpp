// SIMD loops of calibration, compiled for several instruction sets and chosen at run time.
#pragma once

#include <cstddef>

namespace fovea::quantize {

/// Adds x^T x to the lower triangle of `gram` [width, width]. `x`: [rows, width].
void add_gram(const float* x, std::size_t rows, std::size_t width, float* gram);

/// Returns the sum of a[i] * b[i].
[[nodiscard]] float dot(const float* a, const float* b, std::size_t count);

/// The number of rows per call of dot_rows().
inline constexpr std::size_t kDotRows = 8;

/// Sets out[r] to the dot product of row r with b. `rows`: kDotRows rows, `stride` numbers apart.
void dot_rows(const float* rows, std::size_t stride, const float* b, std::size_t count, float* out);

}  // namespace fovea::quantize
