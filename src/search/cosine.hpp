// Exact cosines in binary64, and the error bound of the estimates that exclude most rows.
#pragma once

#include <cstdint>
#include <span>

#include "search/shards.hpp"

namespace fovea::search {

/// Returns the squared length of a vector. Products of binary32 numbers are exact in binary64.
[[nodiscard]] double squared_norm(std::span<const float> vector);

/// Returns the cosine of two vectors with the given squared lengths, in [-1, 1]: exactly 1 for
/// equal vectors, 0 when a length is 0.
[[nodiscard]] double cosine(std::span<const float> a, double squared_a, std::span<const float> b,
                            double squared_b);

/// Returns a bound on the error of an estimate, a cosine that is computed in binary32 from
/// dot_products() and inverse_norms(): dimension * 2^-24 for the dot product, half of that for each
/// norm, and a few roundings of single numbers.
[[nodiscard]] float cosine_error(std::int64_t dimension);

/// Computes 1 / |row| for such estimates. The result is NaN where binary32 is insufficient (zeros,
/// numbers of extreme size, NaN); the caller must compute the exact cosine when an estimate is NaN.
void inverse_norms(const float* rows, std::int64_t count, std::int64_t dimension, float* out);
/// Computes 1 / |row| from squared lengths in the same way.
void inverse_norms_from_squares(const float* squares, std::int64_t count, float* out);

/// Returns squared_norm() of a row. Throws fovea::Error naming the row when it contains NaN or
/// infinity.
[[nodiscard]] double checked_squared_norm(const Shards& shards, std::int64_t row,
                                          std::span<const float> vector);

}  // namespace fovea::search
