// SIMD loops over the codes of row_codes.hpp, chosen at run time by instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"

namespace fovea::search {

/// Codes are integers in [-kMaxCode, kMaxCode], stored as bytes with kCodeOffset added.
inline constexpr float kMaxCode = 127;
inline constexpr std::int32_t kCodeOffset = 128;

/// Sets out[i] = rows[i] . query and squares[i] = rows[i] . rows[i]. `rows`: [count, dimension].
/// Sums are in binary32 and in any order; their error relative to |row| |query| is at most
/// dimension * 2^-24.
void dots_and_squares(const Float16* rows, std::size_t count, const float* query,
                      std::size_t dimension, float* out, float* squares);
void dots_and_squares(const float* rows, std::size_t count, const float* query,
                      std::size_t dimension, float* out, float* squares);

/// Sums over a row x and a direction m, in binary32 and in any order.
struct RowSums {
  float square = 0;      // x . x
  float projection = 0;  // x . m
};
[[nodiscard]] RowSums sums_of_row(const float* row, const float* direction, std::size_t dimension);

/// Sets row = row - projection * direction, with one rounding per number. Returns the largest
/// magnitude in the new row.
float subtract(float* row, float projection, const float* direction, std::size_t dimension);

struct CodeSums {
  float residual = 0;  // the squared length of row - scale * codes
  float codes = 0;     // the squared length of the codes
};
/// Sets codes[i] to the integer nearest to row[i] * inverse, clamped to [-kMaxCode, kMaxCode], plus
/// kCodeOffset. `inverse` is about 1 / scale.
CodeSums round_to_codes(const float* row, float scale, float inverse, std::size_t dimension,
                        std::uint8_t* codes);

/// Sets out[i] to the exact sum of rows[i][j] * query[j], which must fit into 32 bits. A row has
/// `stride` bytes, a multiple of 64; the query has `stride` numbers.
void code_dots(const std::uint8_t* rows, std::size_t count, std::size_t stride,
               const std::int16_t* query, std::int32_t* out);

/// Terms of rows or of queries, from which an upper bound on a cosine is computed:
///   upper = sum * scale * scale' + projection * projection' + length * length' + error + error'
/// where terms without and with a prime are those of a row and of a query (see row_codes.hpp). Each
/// array has one number per row or query.
struct BoundTerms {
  const float* scale = nullptr;
  const float* projection = nullptr;
  const float* length = nullptr;
  const float* error = nullptr;

  /// Returns the terms from index `first` on.
  [[nodiscard]] BoundTerms subspan(std::int64_t first) const {
    return {scale + first, projection + first, length + first, error + first};
  }
};

inline constexpr std::size_t kMaxColumns = 64;

/// Sets bit c of hits[line] when the upper bound for sums[line * columns + c] - offsets[c] reaches
/// floors[c] or is NaN. `columns` must be a multiple of 16, and at most kMaxColumns.
void find_hits(const std::int32_t* sums, std::size_t lines, std::size_t columns,
               const BoundTerms& line_terms, const BoundTerms& column_terms,
               const std::int32_t* offsets, const float* floors, std::uint64_t* hits);

/// Sets out[i] = 1 / sqrt(squares[i]), or NaN when squares[i] is outside (min_square, max_square).
/// `out` may equal `squares`.
void inverse_roots(const float* squares, std::size_t count, float min_square, float max_square,
                   float* out);

}  // namespace fovea::search
