// Cosines in double precision, and the error bound by which binary32 estimates skip most of them.
#pragma once

#include <cstdint>
#include <span>

#include "search/shards.hpp"

namespace fovea::search {

/// Squared length of a vector. Products of binary32 numbers are exact in binary64.
[[nodiscard]] double squared_norm(std::span<const float> vector);

/// The cosine of two vectors of the given squared lengths, within [-1, 1]: exactly 1 for equal
/// vectors, 0 when a length is 0.
[[nodiscard]] double cosine(std::span<const float> a, double squared_a, std::span<const float> b,
                            double squared_b);

/// The largest difference between a cosine computed in binary32 (dot_products times two
/// inverse_norms) and the exact one: dimension * 2^-24 for the dot product, half of that for each
/// of the norms, and a few roundings of single numbers.
[[nodiscard]] float cosine_error(std::int64_t dimension);

/// 1 / |row| of each row for such an estimate. NaN where binary32 cannot represent it (zeros,
/// numbers of extreme size, NaN): every comparison with an estimate must send NaN to the exact
/// computation.
void inverse_norms(const float* rows, std::int64_t count, std::int64_t dimension, float* out);
/// The same of squared lengths that are known.
void inverse_norms_of(const float* squares, std::int64_t count, float* out);

/// squared_norm() of a row. Throws fovea::Error naming it when the row holds NaN or infinity.
[[nodiscard]] double checked_squared_norm(const Shards& shards, std::int64_t row,
                                          std::span<const float> vector);

}  // namespace fovea::search
