// Computes Gram matrices in tiles of 4 rows by 3 vectors, so that 12 sums and 4 operands fill the
// 16 registers of AVX2; and dot products of eight rows with one vector, which is loaded once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quantize/gram_kernels.cpp"
#include "quantize/gram_kernels.hpp"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "core/dot-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace fovea::quantize::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using V = hn::Vec<Tag>;

/// The sums of one row of a tile.
struct RowSums {
  V s0;
  V s1;
  V s2;

  HWY_INLINE void add(V a, V b0, V b1, V b2) {
    s0 = hn::MulAdd(a, b0, s0);
    s1 = hn::MulAdd(a, b1, s1);
    s2 = hn::MulAdd(a, b2, s2);
  }
  HWY_INLINE void add_to(float* line) const {
    const Tag tag;
    const std::size_t lanes = hn::Lanes(tag);
    hn::StoreU(hn::Add(hn::LoadU(tag, line), s0), tag, line);
    hn::StoreU(hn::Add(hn::LoadU(tag, line + lanes), s1), tag, line + lanes);
    hn::StoreU(hn::Add(hn::LoadU(tag, line + 2 * lanes), s2), tag, line + 2 * lanes);
  }
};

// Adds the products of the columns [i, i + 4) and [j, j + 3 vectors) of x to a tile of `gram`.
HWY_INLINE void gram_tile(const float* HWY_RESTRICT x, std::size_t rows, std::size_t width,
                          std::size_t i, std::size_t j, float* HWY_RESTRICT gram) {
  const Tag tag;
  const std::size_t lanes = hn::Lanes(tag);
  const V zero = hn::Zero(tag);
  RowSums row0{zero, zero, zero};
  RowSums row1 = row0;
  RowSums row2 = row0;
  RowSums row3 = row0;
  for (std::size_t row = 0; row < rows; ++row) {
    const float* line = x + row * width;
    const V b0 = hn::LoadU(tag, line + j);
    const V b1 = hn::LoadU(tag, line + j + lanes);
    const V b2 = hn::LoadU(tag, line + j + 2 * lanes);
    row0.add(hn::Set(tag, line[i]), b0, b1, b2);
    row1.add(hn::Set(tag, line[i + 1]), b0, b1, b2);
    row2.add(hn::Set(tag, line[i + 2]), b0, b1, b2);
    row3.add(hn::Set(tag, line[i + 3]), b0, b1, b2);
  }
  float* const first = gram + i * width + j;
  row0.add_to(first);
  row1.add_to(first + width);
  row2.add_to(first + 2 * width);
  row3.add_to(first + 3 * width);
}

HWY_INLINE void gram_element(const float* x, std::size_t rows, std::size_t width, std::size_t i,
                             std::size_t j, float* gram) {
  float sum = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    sum += x[row * width + i] * x[row * width + j];
  }
  gram[i * width + j] += sum;
}

// Computes the lower triangle. Tiles may extend above the diagonal, where values are never read.
void add_gram_tiles(const float* x, std::size_t rows, std::size_t width, float* gram) {
  constexpr std::size_t kTileRows = 4;
  const std::size_t tile_columns = 3 * hn::Lanes(Tag());
  const std::size_t tiled_columns = width - width % tile_columns;
  const std::size_t tiled_rows = width - width % kTileRows;
  for (std::size_t j = 0; j < tiled_columns; j += tile_columns) {
    for (std::size_t i = j / kTileRows * kTileRows; i < tiled_rows; i += kTileRows) {
      gram_tile(x, rows, width, i, j, gram);
    }
    for (std::size_t i = tiled_rows; i < width; ++i) {
      for (std::size_t column = j; column < j + tile_columns; ++column) {
        gram_element(x, rows, width, i, column, gram);
      }
    }
  }
  for (std::size_t j = tiled_columns; j < width; ++j) {
    for (std::size_t i = j; i < width; ++i) {
      gram_element(x, rows, width, i, j, gram);
    }
  }
}

float one_dot(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, std::size_t count) {
  return fovea::HWY_NAMESPACE::dot(a, b, count);
}

void eight_dots(const float* HWY_RESTRICT rows, std::size_t stride, const float* HWY_RESTRICT b,
                std::size_t count, float* HWY_RESTRICT out) {
  const Tag tag;
  const std::size_t lanes = hn::Lanes(tag);
  static_assert(kDotRows == 8);
  V s0 = hn::Zero(tag);
  V s1 = s0;
  V s2 = s0;
  V s3 = s0;
  V s4 = s0;
  V s5 = s0;
  V s6 = s0;
  V s7 = s0;
  std::size_t index = 0;
  for (; index + lanes <= count; index += lanes) {
    const V v = hn::LoadU(tag, b + index);
    const float* a = rows + index;
    s0 = hn::MulAdd(hn::LoadU(tag, a), v, s0);
    s1 = hn::MulAdd(hn::LoadU(tag, a + stride), v, s1);
    s2 = hn::MulAdd(hn::LoadU(tag, a + 2 * stride), v, s2);
    s3 = hn::MulAdd(hn::LoadU(tag, a + 3 * stride), v, s3);
    s4 = hn::MulAdd(hn::LoadU(tag, a + 4 * stride), v, s4);
    s5 = hn::MulAdd(hn::LoadU(tag, a + 5 * stride), v, s5);
    s6 = hn::MulAdd(hn::LoadU(tag, a + 6 * stride), v, s6);
    s7 = hn::MulAdd(hn::LoadU(tag, a + 7 * stride), v, s7);
  }
  const auto put = [&](std::size_t row, V sums) HWY_ATTR {
    float sum = hn::GetLane(hn::SumOfLanes(tag, sums));
    for (std::size_t rest = index; rest < count; ++rest) {
      sum += rows[row * stride + rest] * b[rest];
    }
    out[row] = sum;
  };
  put(0, s0);
  put(1, s1);
  put(2, s2);
  put(3, s3);
  put(4, s4);
  put(5, s5);
  put(6, s6);
  put(7, s7);
}

}  // namespace fovea::quantize::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::quantize {

HWY_EXPORT(add_gram_tiles);
HWY_EXPORT(one_dot);
HWY_EXPORT(eight_dots);

void add_gram(const float* x, std::size_t rows, std::size_t width, float* gram) {
  HWY_DYNAMIC_DISPATCH(add_gram_tiles)(x, rows, width, gram);
}

float dot(const float* a, const float* b, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(one_dot)(a, b, count);
}

void dot_rows(const float* rows, std::size_t stride, const float* b, std::size_t count,
              float* out) {
  HWY_DYNAMIC_DISPATCH(eight_dots)(rows, stride, b, count, out);
}

}  // namespace fovea::quantize
#endif
