// The inner loops of the search in SIMD, chosen at run time by instruction set.
#pragma once

#include <cstddef>

#include "core/dtype.hpp"

namespace fovea::search {

/// out[row * columns + column] = rows[row] . queries[column], in binary32; both row-major
/// [*, dimension]. Summed in any order: the relative error against |row| |query| is at most
/// dimension * 2^-24.
void dot_products(const float* rows, std::size_t row_count, const float* queries,
                  std::size_t columns, std::size_t dimension, float* out);

/// out[row] = rows[row] . rows[row], with the same error.
void squared_norms(const float* rows, std::size_t row_count, std::size_t dimension, float* out);

/// Converts exactly.
void promote(const Float16* in, std::size_t count, float* out);

}  // namespace fovea::search
