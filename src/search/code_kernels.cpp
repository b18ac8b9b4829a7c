// SIMD kernels for codes. Sums have enough independent accumulators to hide the latency of
// additions, so that a search for one query is limited by memory bandwidth.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "search/code_kernels.cpp"
#include "search/code_kernels.hpp"

#include <algorithm>
#include <cmath>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "search/half-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace fovea::search::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Ints = hn::RebindToSigned<Floats>;
using Float = hn::Vec<Floats>;

HWY_INLINE Float load(Floats tag, const float* values) {
  return hn::LoadU(tag, values);
}

HWY_INLINE Float load(Floats tag, const Float16* values) {
  return load_halves(tag, values);
}

HWY_INLINE float to_binary32(float number) {
  return number;
}

HWY_INLINE float to_binary32(Float16 number) {
  return to_float(number);
}

HWY_INLINE float sum_lanes(Floats tag, Float lanes) {
  return hn::GetLane(hn::SumOfLanes(tag, lanes));
}

template <typename T>
HWY_INLINE void scan_rows(const T* HWY_RESTRICT rows, std::size_t count,
                          const float* HWY_RESTRICT query, std::size_t dimension,
                          float* HWY_RESTRICT out, float* HWY_RESTRICT squares) {
  const Floats tag;
  const std::size_t lanes = hn::Lanes(tag);
  for (std::size_t row = 0; row < count; ++row, rows += dimension) {
    Float d0 = hn::Zero(tag);
    Float d1 = d0;
    Float d2 = d0;
    Float d3 = d0;
    Float s0 = d0;
    Float s1 = d0;
    Float s2 = d0;
    Float s3 = d0;
    std::size_t index = 0;
    for (; index + 4 * lanes <= dimension; index += 4 * lanes) {
      const Float x0 = load(tag, rows + index);
      const Float x1 = load(tag, rows + index + lanes);
      const Float x2 = load(tag, rows + index + 2 * lanes);
      const Float x3 = load(tag, rows + index + 3 * lanes);
      d0 = hn::MulAdd(x0, hn::LoadU(tag, query + index), d0);
      s0 = hn::MulAdd(x0, x0, s0);
      d1 = hn::MulAdd(x1, hn::LoadU(tag, query + index + lanes), d1);
      s1 = hn::MulAdd(x1, x1, s1);
      d2 = hn::MulAdd(x2, hn::LoadU(tag, query + index + 2 * lanes), d2);
      s2 = hn::MulAdd(x2, x2, s2);
      d3 = hn::MulAdd(x3, hn::LoadU(tag, query + index + 3 * lanes), d3);
      s3 = hn::MulAdd(x3, x3, s3);
    }
    for (; index + lanes <= dimension; index += lanes) {
      const Float x = load(tag, rows + index);
      d0 = hn::MulAdd(x, hn::LoadU(tag, query + index), d0);
      s0 = hn::MulAdd(x, x, s0);
    }
    float dot = sum_lanes(tag, hn::Add(hn::Add(d0, d1), hn::Add(d2, d3)));
    float square = sum_lanes(tag, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
    for (; index < dimension; ++index) {
      dot += to_binary32(rows[index]) * query[index];
      square += to_binary32(rows[index]) * to_binary32(rows[index]);
    }
    out[row] = dot;
    squares[row] = square;
  }
}

void scan_halves(const Float16* rows, std::size_t count, const float* query, std::size_t dimension,
                 float* out, float* squares) {
  scan_rows(rows, count, query, dimension, out, squares);
}

void scan_floats(const float* rows, std::size_t count, const float* query, std::size_t dimension,
                 float* out, float* squares) {
  scan_rows(rows, count, query, dimension, out, squares);
}

RowSums row_sums(const float* row, const float* direction, std::size_t dimension) {
  RowSums sums;
  scan_rows(row, 1, direction, dimension, &sums.projection, &sums.square);
  return sums;
}

float subtract_projection(float* HWY_RESTRICT row, float projection,
                          const float* HWY_RESTRICT direction, std::size_t dimension) {
  const Floats tag;
  const std::size_t lanes = hn::Lanes(tag);
  const Float factor = hn::Set(tag, -projection);
  Float peaks = hn::Zero(tag);
  std::size_t index = 0;
  for (; index + lanes <= dimension; index += lanes) {
    const Float residual =
        hn::MulAdd(factor, hn::LoadU(tag, direction + index), hn::LoadU(tag, row + index));
    peaks = hn::Max(peaks, hn::Abs(residual));
    hn::StoreU(residual, tag, row + index);
  }
  float peak = hn::GetLane(hn::MaxOfLanes(tag, peaks));
  for (; index < dimension; ++index) {
    row[index] = std::fma(-projection, direction[index], row[index]);
    peak = std::max(peak, std::abs(row[index]));
  }
  return peak;
}

CodeSums encode_row(const float* HWY_RESTRICT row, float scale, float inverse,
                    std::size_t dimension, std::uint8_t* HWY_RESTRICT codes) {
  const Floats tag;
  const Ints ints;
  const hn::Rebind<std::uint8_t, Floats> bytes;
  const std::size_t lanes = hn::Lanes(tag);
  const Float max_code = hn::Set(tag, kMaxCode);
  const Float min_code = hn::Set(tag, -kMaxCode);
  const Float negative_scale = hn::Set(tag, -scale);
  const auto offset = hn::Set(ints, kCodeOffset);
  Float residual_squares = hn::Zero(tag);
  Float squares = residual_squares;
  std::size_t index = 0;
  for (; index + lanes <= dimension; index += lanes) {
    const Float x = hn::LoadU(tag, row + index);
    const Float code =
        hn::Min(hn::Max(hn::Round(hn::Mul(x, hn::Set(tag, inverse))), min_code), max_code);
    const Float residual = hn::MulAdd(negative_scale, code, x);
    residual_squares = hn::MulAdd(residual, residual, residual_squares);
    squares = hn::MulAdd(code, code, squares);
    const auto shifted = hn::Add(hn::ConvertTo(ints, code), offset);
    hn::StoreU(hn::DemoteTo(bytes, shifted), bytes, codes + index);
  }
  CodeSums sums{sum_lanes(tag, residual_squares), sum_lanes(tag, squares)};
  for (; index < dimension; ++index) {
    const float code = std::clamp(std::nearbyint(row[index] * inverse), -kMaxCode, kMaxCode);
    const float residual = std::fma(-scale, code, row[index]);
    sums.residual += residual * residual;
    sums.codes += code * code;
    codes[index] = static_cast<std::uint8_t>(static_cast<int>(code) + kCodeOffset);
  }
  return sums;
}

void scan_codes(const std::uint8_t* HWY_RESTRICT rows, std::size_t count, std::size_t stride,
                const std::int16_t* HWY_RESTRICT query, std::int32_t* HWY_RESTRICT out) {
#if HWY_TARGET == HWY_SCALAR  // vectors of one number cannot hold the pairs used below
  for (std::size_t row = 0; row < count; ++row, rows += stride) {
    std::int32_t sum = 0;
    for (std::size_t index = 0; index < stride; ++index) {
      sum += std::int32_t{rows[index]} * std::int32_t{query[index]};
    }
    out[row] = sum;
  }
#else
  constexpr std::size_t kRowsAhead = 4;
  const hn::Repartition<std::int16_t, Ints> pairs;
  const hn::Rebind<std::uint8_t, decltype(pairs)> bytes;
  const Ints ints;
  const std::size_t lanes = hn::Lanes(pairs);
  for (std::size_t row = 0; row < count; row += 2) {
    // Pairs the last row with itself when the number of rows is odd.
    const std::uint8_t* HWY_RESTRICT first = rows + row * stride;
    const std::uint8_t* HWY_RESTRICT second = row + 1 < count ? first + stride : first;
    auto a0 = hn::Zero(ints);
    auto a1 = a0;
    auto b0 = a0;
    auto b1 = a0;
    auto a2 = a0;  // a second accumulator, which some instruction sets need
    auto b2 = a0;
    for (std::size_t index = 0; index < stride; index += 2 * lanes) {
      // Hardware prefetching alone would reach only four fifths of the memory bandwidth.
      __builtin_prefetch(first + index + kRowsAhead * stride);
      __builtin_prefetch(second + index + kRowsAhead * stride);
      const auto q0 = hn::LoadU(pairs, query + index);
      const auto q1 = hn::LoadU(pairs, query + index + lanes);
      const auto x0 = hn::PromoteTo(pairs, hn::LoadU(bytes, first + index));
      const auto x1 = hn::PromoteTo(pairs, hn::LoadU(bytes, first + index + lanes));
      const auto y0 = hn::PromoteTo(pairs, hn::LoadU(bytes, second + index));
      const auto y1 = hn::PromoteTo(pairs, hn::LoadU(bytes, second + index + lanes));
      a0 = hn::ReorderWidenMulAccumulate(ints, x0, q0, a0, a2);
      a1 = hn::ReorderWidenMulAccumulate(ints, x1, q1, a1, a2);
      b0 = hn::ReorderWidenMulAccumulate(ints, y0, q0, b0, b2);
      b1 = hn::ReorderWidenMulAccumulate(ints, y1, q1, b1, b2);
    }
    out[row] = hn::GetLane(hn::SumOfLanes(ints, hn::Add(hn::Add(a0, a1), a2)));
    if (row + 1 < count) {
      out[row + 1] = hn::GetLane(hn::SumOfLanes(ints, hn::Add(hn::Add(b0, b1), b2)));
    }
  }
#endif
}

void find_tile_hits(const std::int32_t* HWY_RESTRICT sums, std::size_t lines, std::size_t columns,
                    const BoundTerms& line_terms, const BoundTerms& column_terms,
                    const std::int32_t* HWY_RESTRICT offsets, const float* HWY_RESTRICT floors,
                    std::uint64_t* HWY_RESTRICT hits) {
  const hn::CappedTag<float, 16> tag;
  const hn::RebindToSigned<decltype(tag)> ints;
  const std::size_t lanes = hn::Lanes(tag);
  for (std::size_t line = 0; line < lines; ++line, sums += columns) {
    const auto scale = hn::Set(tag, line_terms.scale[line]);
    const auto projection = hn::Set(tag, line_terms.projection[line]);
    const auto length = hn::Set(tag, line_terms.length[line]);
    const auto error = hn::Set(tag, line_terms.error[line]);
    hits[line] = 0;
    for (std::size_t index = 0; index < columns; index += lanes) {
      const auto sum = hn::ConvertTo(
          tag, hn::Sub(hn::LoadU(ints, sums + index), hn::LoadU(ints, offsets + index)));
      auto upper = hn::Add(error, hn::LoadU(tag, column_terms.error + index));
      upper = hn::MulAdd(length, hn::LoadU(tag, column_terms.length + index), upper);
      upper = hn::MulAdd(projection, hn::LoadU(tag, column_terms.projection + index), upper);
      upper = hn::MulAdd(hn::Mul(sum, hn::LoadU(tag, column_terms.scale + index)), scale, upper);
      // Comparisons with NaN are false, so NaN is never below a floor.
      const auto below = hn::Lt(upper, hn::LoadU(tag, floors + index));
      std::uint8_t bits[8] = {};
      hn::StoreMaskBits(tag, hn::Not(below), bits);
      const std::uint64_t part = bits[0] | static_cast<std::uint64_t>(bits[1]) << 8;
      hits[line] |= (part & ((std::uint64_t{1} << lanes) - 1)) << index;
    }
  }
}

void compute_inverse_roots(const float* squares, std::size_t count, float min_square,
                           float max_square, float* out) {
  const auto store_roots = [&](auto tag, std::size_t index) HWY_ATTR {
    const auto square = hn::LoadU(tag, squares + index);
    const auto is_in_range =
        hn::And(hn::Gt(square, hn::Set(tag, min_square)), hn::Lt(square, hn::Set(tag, max_square)));
    const auto root = hn::Div(hn::Set(tag, 1.0F), hn::Sqrt(square));
    hn::StoreU(hn::IfThenElse(is_in_range, root, hn::NaN(tag)), tag, out + index);
  };
  const Floats tag;
  std::size_t index = 0;
  for (; index + hn::Lanes(tag) <= count; index += hn::Lanes(tag)) {
    store_roots(tag, index);
  }
  for (; index < count; ++index) {
    store_roots(hn::CappedTag<float, 1>(), index);
  }
}

}  // namespace fovea::search::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::search {

HWY_EXPORT(scan_halves);
HWY_EXPORT(scan_floats);
HWY_EXPORT(row_sums);
HWY_EXPORT(subtract_projection);
HWY_EXPORT(encode_row);
HWY_EXPORT(scan_codes);
HWY_EXPORT(find_tile_hits);
HWY_EXPORT(compute_inverse_roots);

void dots_and_squares(const Float16* rows, std::size_t count, const float* query,
                      std::size_t dimension, float* out, float* squares) {
  HWY_DYNAMIC_DISPATCH(scan_halves)(rows, count, query, dimension, out, squares);
}

void dots_and_squares(const float* rows, std::size_t count, const float* query,
                      std::size_t dimension, float* out, float* squares) {
  HWY_DYNAMIC_DISPATCH(scan_floats)(rows, count, query, dimension, out, squares);
}

RowSums sums_of_row(const float* row, const float* direction, std::size_t dimension) {
  return HWY_DYNAMIC_DISPATCH(row_sums)(row, direction, dimension);
}

float subtract(float* row, float projection, const float* direction, std::size_t dimension) {
  return HWY_DYNAMIC_DISPATCH(subtract_projection)(row, projection, direction, dimension);
}

CodeSums round_to_codes(const float* row, float scale, float inverse, std::size_t dimension,
                        std::uint8_t* codes) {
  return HWY_DYNAMIC_DISPATCH(encode_row)(row, scale, inverse, dimension, codes);
}

void code_dots(const std::uint8_t* rows, std::size_t count, std::size_t stride,
               const std::int16_t* query, std::int32_t* out) {
  HWY_DYNAMIC_DISPATCH(scan_codes)(rows, count, stride, query, out);
}

void find_hits(const std::int32_t* sums, std::size_t lines, std::size_t columns,
               const BoundTerms& line_terms, const BoundTerms& column_terms,
               const std::int32_t* offsets, const float* floors, std::uint64_t* hits) {
  HWY_DYNAMIC_DISPATCH(find_tile_hits)
  (sums, lines, columns, line_terms, column_terms, offsets, floors, hits);
}

void inverse_roots(const float* squares, std::size_t count, float min_square, float max_square,
                   float* out) {
  HWY_DYNAMIC_DISPATCH(compute_inverse_roots)(squares, count, min_square, max_square, out);
}

}  // namespace fovea::search
#endif
