// SIMD loops of the search, compiled for several instruction sets and chosen at run time.
#pragma once

#include <cstddef>

#include "core/dtype.hpp"

namespace fovea::search {

/// Sets out[row * columns + column] = rows[row] . queries[column]. Both are row-major,
/// [*, dimension]. Sums are in binary32 and in any order; their error relative to |row| |query| is
/// at most dimension * 2^-24.
void dot_products(const float* rows, std::size_t row_count, const float* queries,
                  std::size_t columns, std::size_t dimension, float* out);

/// Sets out[row] = rows[row] . rows[row], with the same relative error.
void squared_norms(const float* rows, std::size_t row_count, std::size_t dimension, float* out);

/// Converts binary16 numbers to binary32, which is exact.
void promote(const Float16* in, std::size_t count, float* out);

}  // namespace fovea::search
