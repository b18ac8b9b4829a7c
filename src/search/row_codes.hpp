// Rows and queries as codes of 8 bits, and the bound on what the codes leave out.
//
// A row x is written as
//   x = p m + s c + r      m: a direction that all rows share, of length 1 (or 0)
//                          p: a number; c: integers within 127; s: a scale; r: the rest
// and a query q of length 1 as
//   q = t d + w            d: integers, t: a scale, w: the rest.
// Then, by the Cauchy-Schwarz inequality,
//   | q.x / |x|  -  ( p (q.m) + s t (c.d) ) / |x| |  <=  |r| / |x|  +  |w| s |c| / |x|.
// The lengths |r|, |w| and |c| are computed from the codes; c.d is a sum of integers, so it is
// exact; the roundings of all other operations are bounded. p m removes the common component of a
// model's embeddings, which would make s larger.
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

/// Owns the arrays of BoundTerms.
class OwnedTerms {
 public:
  OwnedTerms() = default;
  explicit OwnedTerms(std::size_t count) : capacity_(count), memory_(4 * count * sizeof(float)) {}

  struct Values {
    float scale = 0;
    float along = 0;
    float length = 0;
    float error = 0;
  };
  void set(std::size_t index, const Values& values) {
    float* const first = data() + index;
    first[0] = values.scale;
    first[capacity_] = values.along;
    first[2 * capacity_] = values.length;
    first[3 * capacity_] = values.error;
  }
  /// Copies the first `count` terms of `others` to index `first` and following.
  void take(const OwnedTerms& others, std::int64_t count, std::int64_t first) {
    for (std::size_t kind = 0; kind < 4; ++kind) {
      std::copy_n(others.data() + kind * others.capacity_, count,
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
  cpu::PageBuffer memory_;  // of zeros
};

/// Codes of rows: bytes [count, stride], each row filled up with kCodeOffset.
class RowCoder {
 public:
  /// Whether coding pays off for rows of this dimension, and their sums fit into 32 bits.
  [[nodiscard]] static bool can_code(std::int64_t dimension);

  /// `direction` [dimension]: m, of length 1 at most.
  explicit RowCoder(std::vector<float> direction);
  /// Takes the mean direction of some of the rows.
  RowCoder(const Shards& shards, RowReader& reader);

  [[nodiscard]] std::int64_t dimension() const {
    return static_cast<std::int64_t>(direction_.size());
  }
  [[nodiscard]] std::int64_t stride() const { return stride_; }
  [[nodiscard]] std::span<const float> direction() const { return direction_; }

  /// Codes rows [count, dimension], and sets the terms from index `first` on. A row whose length
  /// binary32 cannot represent has an infinite bound, but for zeros, whose cosine is 0.
  void encode(const StoredRows& rows, std::int64_t count, std::uint8_t* codes, OwnedTerms& terms,
              std::int64_t first) const;

 private:
  [[nodiscard]] OwnedTerms::Values encode_row(std::span<float> row, std::uint8_t* codes) const;

  std::vector<float> direction_;
  std::int64_t stride_ = 0;
  float rounding_ = 0;  // relative, of all that is computed in binary32
};

/// Queries as codes: the same numbers for each, in int16 or int8.
struct QueryCodes {
  /// `unit`: [count, coder.dimension()], of length 1 but for roundings of `unit`'s own; the codes
  /// are within `greatest`.
  QueryCodes(const RowCoder& coder, std::span<const double> unit, int greatest);

  /// The largest code whose sums with codes of rows fit into 32 bits.
  [[nodiscard]] static int most_of(const RowCoder& coder);

  std::vector<std::int16_t> codes;    // [count, stride], with zeros at the end of each
  std::vector<std::int32_t> offsets;  // what kCodeOffset adds to the sums
  OwnedTerms terms;                   // with room for a whole panel at the end
};

/// Codes of rows, in memory, with room for what CodeScan reads beyond them.
struct RowCopy {
  RowCopy(const RowCoder& coder, std::int64_t rows);
  /// Returns the size of a copy in bytes.
  [[nodiscard]] static std::uint64_t bytes_of(const RowCoder& coder, std::int64_t rows);

  [[nodiscard]] std::uint8_t* codes_of(std::int64_t row) const {
    return reinterpret_cast<std::uint8_t*>(codes.data()) + row * stride;
  }
  /// Copies the first `count` rows of `others` to row `first` and following.
  void take(const RowCopy& others, std::int64_t count, std::int64_t first);

  std::int64_t stride;
  cpu::PageBuffer codes;
  OwnedTerms terms;
};

}  // namespace fovea::search
