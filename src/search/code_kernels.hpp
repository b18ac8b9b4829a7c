// The inner loops of codes (row_codes.hpp) in SIMD, chosen at run time by instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"

namespace fovea::search {

/// Codes are integers within kMaxCode of zero, stored as bytes with kCodeOffset added.
inline constexpr float kMaxCode = 127;
inline constexpr std::int32_t kCodeOffset = 128;

/// out[i] = rows[i] . query and squares[i] = rows[i] . rows[i], in binary32 and any order; rows
/// [count, dimension]. The relative error against |row| |query| is at most dimension * 2^-24.
void dots_and_squares(const Float16* rows, std::size_t count, const float* query,
                      std::size_t dimension, float* out, float* squares);
void dots_and_squares(const float* rows, std::size_t count, const float* query,
                      std::size_t dimension, float* out, float* squares);

/// Sums of one row x and a direction m, in binary32 and any order.
struct RowSums {
  float square = 0;  // x . x
  float along = 0;   // x . m
};
[[nodiscard]] RowSums sums_of_row(const float* row, const float* direction, std::size_t dimension);

/// row = row - along * direction, one rounding for each number; returns its largest magnitude.
float subtract(float* row, float along, const float* direction, std::size_t dimension);

struct CodeSums {
  float rest = 0;   // the squared length of row - scale * codes: what the codes leave out
  float codes = 0;  // the squared length of the codes
};
/// codes[i] = kCodeOffset + the nearest integer to row[i] * inverse, within kMaxCode of zero;
/// `inverse` is about 1 / scale.
CodeSums round_to_codes(const float* row, float scale, float inverse, std::size_t dimension,
                        std::uint8_t* codes);

/// out[i] = the exact sum of rows[i][j] * query[j], which must fit into 32 bits. A row has `stride`
/// bytes, a multiple of 64, and the query as many numbers.
void code_dots(const std::uint8_t* rows, std::size_t count, std::size_t stride,
               const std::int16_t* query, std::int32_t* out);

/// Numbers that bound cosines from above, of rows or of queries, one of each for each of them:
///   upper = sum * scale * scale' + along * along' + length * length' + error + error'
/// where the second of each pair is that of the other side (row_codes.hpp).
struct BoundTerms {
  const float* scale = nullptr;
  const float* along = nullptr;
  const float* length = nullptr;
  const float* error = nullptr;

  [[nodiscard]] BoundTerms from(std::int64_t first) const {
    return {scale + first, along + first, length + first, error + first};
  }
};

inline constexpr std::size_t kMaxColumns = 64;

/// Bit c of hits[line]: whether the upper bound for sums[line * columns + c] - offsets[c] reaches
/// floors[c], or is NaN. `columns` is a multiple of 16, at most kMaxColumns.
void find_hits(const std::int32_t* sums, std::size_t lines, std::size_t columns,
               const BoundTerms& line_terms, const BoundTerms& column_terms,
               const std::int32_t* offsets, const float* floors, std::uint64_t* hits);

/// out[i] = 1 / sqrt(squares[i]), or NaN unless squares[i] is between these; in place, too.
void inverse_roots(const float* squares, std::size_t count, float least, float greatest,
                   float* out);

}  // namespace fovea::search
