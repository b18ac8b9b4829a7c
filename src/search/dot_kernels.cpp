// Computes dot products in tiles of 4 rows by 3 queries: 12 accumulators and 4 operands fill the 16
// registers of AVX2, and every loaded vector is used 3 or 4 times.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "search/dot_kernels.cpp"
#include "search/dot_kernels.hpp"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "core/dot-inl.hpp"
#include "search/half-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace fovea::search::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using fovea::HWY_NAMESPACE::dot;

using Tag = hn::ScalableTag<float>;
using V = hn::Vec<Tag>;

HWY_INLINE float lane_sum(Tag tag, V lanes) {
  return hn::GetLane(hn::SumOfLanes(tag, lanes));
}

// Returns the dot product of the elements from index `begin` on, which do not fill a vector.
HWY_INLINE float tail_dot(const float* a, const float* b, std::size_t begin,
                          std::size_t dimension) {
  float sum = 0;
  for (std::size_t index = begin; index < dimension; ++index) {
    sum += a[index] * b[index];
  }
  return sum;
}

HWY_INLINE void tile_4x3(const float* HWY_RESTRICT rows, const float* HWY_RESTRICT queries,
                         std::size_t dimension, std::size_t stride, float* HWY_RESTRICT out) {
  const Tag tag;
  const std::size_t lanes = hn::Lanes(tag);
  V s00 = hn::Zero(tag);
  V s01 = s00;
  V s02 = s00;
  V s10 = s00;
  V s11 = s00;
  V s12 = s00;
  V s20 = s00;
  V s21 = s00;
  V s22 = s00;
  V s30 = s00;
  V s31 = s00;
  V s32 = s00;
  std::size_t index = 0;
  for (; index + lanes <= dimension; index += lanes) {
    const V q0 = hn::LoadU(tag, queries + index);
    const V q1 = hn::LoadU(tag, queries + dimension + index);
    const V q2 = hn::LoadU(tag, queries + 2 * dimension + index);
    V row = hn::LoadU(tag, rows + index);
    s00 = hn::MulAdd(row, q0, s00);
    s01 = hn::MulAdd(row, q1, s01);
    s02 = hn::MulAdd(row, q2, s02);
    row = hn::LoadU(tag, rows + dimension + index);
    s10 = hn::MulAdd(row, q0, s10);
    s11 = hn::MulAdd(row, q1, s11);
    s12 = hn::MulAdd(row, q2, s12);
    row = hn::LoadU(tag, rows + 2 * dimension + index);
    s20 = hn::MulAdd(row, q0, s20);
    s21 = hn::MulAdd(row, q1, s21);
    s22 = hn::MulAdd(row, q2, s22);
    row = hn::LoadU(tag, rows + 3 * dimension + index);
    s30 = hn::MulAdd(row, q0, s30);
    s31 = hn::MulAdd(row, q1, s31);
    s32 = hn::MulAdd(row, q2, s32);
  }
  const auto store = [&](std::size_t row, V c0, V c1, V c2) HWY_ATTR {
    const float* a = rows + row * dimension;
    float* line = out + row * stride;
    line[0] = lane_sum(tag, c0) + tail_dot(a, queries, index, dimension);
    line[1] = lane_sum(tag, c1) + tail_dot(a, queries + dimension, index, dimension);
    line[2] = lane_sum(tag, c2) + tail_dot(a, queries + 2 * dimension, index, dimension);
  };
  store(0, s00, s01, s02);
  store(1, s10, s11, s12);
  store(2, s20, s21, s22);
  store(3, s30, s31, s32);
}

void compute_dots(const float* rows, std::size_t row_count, const float* queries,
                  std::size_t columns, std::size_t dimension, float* out) {
  constexpr std::size_t kTileRows = 4;
  constexpr std::size_t kTileColumns = 3;
  const std::size_t tiled_rows = row_count - row_count % kTileRows;
  const std::size_t tiled_columns = columns - columns % kTileColumns;
  for (std::size_t row = 0; row < row_count; row += row < tiled_rows ? kTileRows : 1) {
    const float* a = rows + row * dimension;
    const bool is_tiled = row < tiled_rows;
    if (is_tiled) {
      for (std::size_t column = 0; column < tiled_columns; column += kTileColumns) {
        tile_4x3(a, queries + column * dimension, dimension, columns, out + row * columns + column);
      }
    }
    for (std::size_t index = 0; index < (is_tiled ? kTileRows : 1); ++index) {
      for (std::size_t column = is_tiled ? tiled_columns : 0; column < columns; ++column) {
        out[(row + index) * columns + column] =
            dot(a + index * dimension, queries + column * dimension, dimension);
      }
    }
  }
}

void compute_squared_norms(const float* rows, std::size_t row_count, std::size_t dimension,
                           float* out) {
  for (std::size_t row = 0; row < row_count; ++row) {
    out[row] = dot(rows + row * dimension, rows + row * dimension, dimension);
  }
}

void promote_halves(const Float16* in, std::size_t count, float* out) {
  const Tag tag;
  const std::size_t lanes = hn::Lanes(tag);
  std::size_t index = 0;
  for (; index + lanes <= count; index += lanes) {
    hn::StoreU(load_halves(tag, in + index), tag, out + index);
  }
  for (; index < count; ++index) {
    out[index] = to_float(in[index]);
  }
}

}  // namespace fovea::search::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::search {

HWY_EXPORT(compute_dots);
HWY_EXPORT(compute_squared_norms);
HWY_EXPORT(promote_halves);

void dot_products(const float* rows, std::size_t row_count, const float* queries,
                  std::size_t columns, std::size_t dimension, float* out) {
  HWY_DYNAMIC_DISPATCH(compute_dots)(rows, row_count, queries, columns, dimension, out);
}

void squared_norms(const float* rows, std::size_t row_count, std::size_t dimension, float* out) {
  HWY_DYNAMIC_DISPATCH(compute_squared_norms)(rows, row_count, dimension, out);
}

void promote(const Float16* in, std::size_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(promote_halves)(in, count, out);
}

}  // namespace fovea::search
#endif
