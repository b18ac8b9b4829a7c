// The vectorised loops of calibration, which use the best instructions of the CPU.
#pragma once

#include <cstddef>

namespace fovea::quantize {

/// Adds x^T x to the lower triangle of `gram` [width, width]: x is [rows, width].
void add_gram(const float* x, std::size_t rows, std::size_t width, float* gram);

/// Sum of a[i] * b[i].
[[nodiscard]] float dot(const float* a, const float* b, std::size_t count);

/// The number of rows that dot_rows takes at a time.
inline constexpr std::size_t kDotRows = 8;

/// out[r] = dot of row r of `rows` (kDotRows of them, `stride` apart) with b.
void dot_rows(const float* rows, std::size_t stride, const float* b, std::size_t count, float* out);

}  // namespace fovea::quantize
