// Codes of 8 bits for rows and queries, and bounds on the error of scores that are computed from
// them.
//
// A row x is represented as
//   x = p m + s c + r      m: a direction of length 1 (or 0) that all rows share; p: the
//   projection;
//                          c: integers in [-127, 127]; s: a scale; r: the residual
// and a query q of length 1 as
//   q = t d + w            d: integers; t: a scale; w: the residual.
// Then, by the Cauchy-Schwarz inequality,
//   | q.x / |x|  -  ( p (q.m) + s t (c.d) ) / |x| |  <=  |r| / |x|  +  |w| s |c| / |x|.
// The lengths |r|, |w| and |c| are computed during coding. c.d is an exact sum of integers, and the
// rounding errors of all other operations are bounded. Subtracting p m removes the component that
// all embeddings of a model share, which allows a smaller s.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/buffer.hpp"
#include "cpu/page_buffer.hpp"
#include "search/code_kernels.hpp"
#include "search/shards.hpp"

namespace fovea::search {

/// The memory of the arrays in BoundTerms.
class OwnedTerms {
 public:
  OwnedTerms() = default;
  explicit OwnedTerms(std::size_t count) : capacity_(count), memory_(4 * count * sizeof(float)) {}

  struct Values {
    float scale = 0;
    float projection = 0;
    float length = 0;
    float error = 0;
  };
  void set(std::size_t index, const Values& values) {
    float* const first = data() + index;
    first[0] = values.scale;
    first[capacity_] = values.projection;
    first[2 * capacity_] = values.length;
    first[3 * capacity_] = values.error;
  }
  /// Copies the first `count` terms of `source` to the indices from `first` on.
  void copy_from(const OwnedTerms& source, std::int64_t count, std::int64_t first) {
    for (std::size_t kind = 0; kind < 4; ++kind) {
      std::copy_n(source.data() + kind * source.capacity_, count,
                  data() + kind * capacity_ + first);
    }
  }
  [[nodiscard]] BoundTerms view() const {
    const float* const first = data();
    return {first, first + capacity_, first + 2 * capacity_, first + 3 * capacity_};
  }

 private:
  [[nodiscard]] float* data() const { return reinterpret_cast<float*>(memory_.data()); }

  std::size_t capacity_ = 0;
  cpu::PageBuffer memory_;  // initially zero
};

/// Codes rows as bytes [count, stride]. Each row is padded with kCodeOffset.
class RowCoder {
 public:
  /// Returns whether coding pays off for this dimension, and sums of codes fit into 32 bits.
  [[nodiscard]] static bool can_code(std::int64_t dimension);

  /// `direction`: m, [dimension], of length at most 1.
  explicit RowCoder(std::vector<float> direction);
  /// Uses the mean direction of a sample of the rows.
  RowCoder(const Shards& shards, RowReader& reader);

  [[nodiscard]] std::int64_t dimension() const {
    return static_cast<std::int64_t>(direction_.size());
  }
  [[nodiscard]] std::int64_t stride() const { return stride_; }
  [[nodiscard]] std::span<const float> direction() const { return direction_; }

  /// Codes rows [count, dimension], and sets their terms from index `first` on. A row whose length
  /// binary32 cannot represent gets an infinite bound, except for zeros, whose cosine is 0.
  void encode(const StoredRows& rows, std::int64_t count, std::uint8_t* codes, OwnedTerms& terms,
              std::int64_t first) const;

 private:
  [[nodiscard]] OwnedTerms::Values encode_row(std::span<float> row, std::uint8_t* codes) const;

  std::vector<float> direction_;
  std::int64_t stride_ = 0;
  float rounding_ = 0;  // a bound on the relative error of computations in binary32
};

/// Codes of queries.
struct QueryCodes {
  /// `unit`: queries of length 1, [count, coder.dimension()]. The codes are in [-max_code,
  /// max_code].
  QueryCodes(const RowCoder& coder, std::span<const double> unit, int max_code);

  /// Returns the largest code whose sums with codes of rows fit into 32 bits.
  [[nodiscard]] static int max_code(const RowCoder& coder);

  std::vector<std::int16_t> codes;    // [count, stride]; each query is padded with zeros
  std::vector<std::int32_t> offsets;  // the amounts that kCodeOffset adds to the sums
  OwnedTerms terms;                   // padded by kMaxColumns queries
};

/// Codes and terms of rows in memory, padded by the rows that CodeScan may read past the end.
struct RowCopy {
  RowCopy(const RowCoder& coder, std::int64_t rows);
  /// Returns the size of a copy of `rows` rows in bytes.
  [[nodiscard]] static std::uint64_t byte_size(const RowCoder& coder, std::int64_t rows);

  [[nodiscard]] std::uint8_t* row_codes(std::int64_t row) const {
    return reinterpret_cast<std::uint8_t*>(codes.data()) + row * stride;
  }
  /// Copies the first `count` rows of `source` to the rows from `first` on.
  void copy_from(const RowCopy& source, std::int64_t count, std::int64_t first);

  std::int64_t stride;
  cpu::PageBuffer codes;
  OwnedTerms terms;
};

}  // namespace fovea::search
