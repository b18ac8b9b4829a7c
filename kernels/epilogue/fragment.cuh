// From a warpgroup's accumulators (64, kColumns) to rows of the output in global memory.
//
// B's rows are permuted when they are loaded, so that a lane's accumulators are kVector columns
// that lie side by side and are stored at once, with no exchange between lanes: column
//   group * 4 kVector + 8 j + 2 q + e  of the matrix unit  is column
//   group * 4 kVector + kVector q + 2 j + e  of the output,  j < kVector / 2, q < 4, e < 2,
// q being the lane within its quad. A quad stores 4 kVector columns of a row.
#pragma once

#include <cstdint>

#include "kernels/epilogue/activation.cuh"
#include "kernels/gemm/params.hpp"
#include "kernels/ptx/math.cuh"

namespace fovea::epilogue {

enum class Kind { kBias, kGelu, kResidual, kPosition };

/// One of the two rows of a tile that a lane holds parts of.
struct Row {
  std::int32_t index;  // of the output
  std::int32_t token;  // whose position it has
  bool valid;
};

/// Row `row` (0 .. ) of the tile that begins at these token and image.
__device__ __forceinline__ Row find_row(const gemm::Params& p, std::int32_t token,
                                        std::int32_t image, std::int32_t row) {
  const std::int32_t in_box = row / p.box_tokens;
  const std::int32_t t = token + row - in_box * p.box_tokens;
  const std::int32_t i = image + in_box;
  return {i * p.tokens + t, t % p.position_rows, t < p.tokens && i < p.images};
}

/// kBytes (4, 8, 16) at once.
template <int kBytes>
struct Words;
template <>
struct Words<4> {
  using Type = std::uint32_t;
};
template <>
struct Words<8> {
  using Type = uint2;
};
template <>
struct Words<16> {
  using Type = uint4;
};

template <int kCount>
__device__ __forceinline__ void load_words(std::uint32_t (&to)[kCount], const void* from) {
  using Type = typename Words<kCount == 8 ? 16 : kCount * 4>::Type;
#pragma unroll
  for (int i = 0; i < kCount * 4 / static_cast<int>(sizeof(Type)); ++i) {
    const Type value = static_cast<const Type*>(from)[i];
    __builtin_memcpy(reinterpret_cast<char*>(&to[0]) + i * sizeof(Type), &value, sizeof(Type));
  }
}

template <int kCount>
__device__ __forceinline__ void load_floats(float (&to)[kCount], const float* from) {
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    const float4 value = __ldg(reinterpret_cast<const float4*>(from + i));
    to[i] = value.x;
    to[i + 1] = value.y;
    to[i + 2] = value.z;
    to[i + 3] = value.w;
  }
}

/// Cfg: kColumns, kVector, kEpilogue, kOneByteOutput, kScaled (there is a column scale),
/// kWholeTiles (no column of a tile lies outside).
template <typename Cfg>
struct Fragment {
  static constexpr int kVector = Cfg::kVector;
  static constexpr int kGroupColumns = gemm::kQuad * kVector;
  static constexpr int kGroups = Cfg::kColumns / kGroupColumns;
  static constexpr int kWords = kVector / 2;  // of an addend, bf16 pairs
  static constexpr bool kHasAddend =
      Cfg::kEpilogue == Kind::kResidual || Cfg::kEpilogue == Kind::kPosition;
  static_assert(Cfg::kColumns % kGroupColumns == 0);

  /// What is added to a row of the tile: the residual or the position's row.
  struct Addend {
    std::uint32_t words[kHasAddend ? kGroups : 1][kWords];
  };

  static __device__ __forceinline__ bool inside(const gemm::Params& p, std::int32_t column) {
    return Cfg::kWholeTiles || column < p.columns;
  }

  /// This lane's first column of a group.
  static __device__ __forceinline__ std::int32_t column_of(std::int32_t first, int group) {
    return first + group * kGroupColumns +
           static_cast<std::int32_t>(threadIdx.x % gemm::kQuad) * kVector;
  }

  static __device__ __forceinline__ void load_addend_group(Addend& addend, const gemm::Params& p,
                                                           const Row& row,
                                                           std::int32_t first_column, int group) {
    const auto* const base = static_cast<const std::uint16_t*>(
        Cfg::kEpilogue == Kind::kResidual ? p.output : p.position);
    const std::int32_t at = Cfg::kEpilogue == Kind::kResidual ? row.index : row.token;
    const std::int32_t column = column_of(first_column, group);
    if (row.valid && inside(p, column)) {
      load_words(addend.words[group], base + static_cast<std::int64_t>(at) * p.columns + column);
    }
  }

  static __device__ __forceinline__ void load_addend(Addend& addend, const gemm::Params& p,
                                                     const Row& row, std::int32_t first_column) {
    if constexpr (kHasAddend) {
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        load_addend_group(addend, p, row, first_column, group);
      }
    }
  }

  /// `addend` is loaded for the first row, or for both when they share it (kShared). Otherwise the
  /// second row's is loaded as the first row's registers become free, and the rows are done one
  /// after the other.
  template <bool kShared, typename Accumulator>
  static __device__ __forceinline__ void store(const Accumulator (&accumulators)[Cfg::kColumns / 2],
                                               const gemm::Params& p, const Row (&rows)[2],
                                               std::int32_t first_column, const Addend& addend) {
    constexpr bool kRowByRow = kHasAddend && !kShared;
    float row_scale[2] = {1.0F, 1.0F};
    if (Cfg::kScaled && p.row_scale != nullptr) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        row_scale[h] = rows[h].valid ? __ldg(p.row_scale + rows[h].index) : 0.0F;
      }
    }
    const float* column_scale = p.column_scale;
    const float* column_bias = p.bias;
    Addend second;
#pragma unroll
    for (int i = 0; i < 2 * kGroups; ++i) {
      const int group = kRowByRow ? i % kGroups : i / 2;
      const int h = kRowByRow ? i / kGroups : i % 2;
      const std::int32_t column = column_of(first_column, group);
      if (kRowByRow && i == kGroups) {
        // All columns' scales and biases, kept from the first row, would not fit into registers.
        ptx::forget(column_scale);
        ptx::forget(column_bias);
      }
      if (!inside(p, column)) {
        continue;
      }
      float scale[kVector];
      float bias[kVector];
      if constexpr (Cfg::kScaled) {
        load_floats(scale, column_scale + column);
      }
      if constexpr (Cfg::kEpilogue != Kind::kPosition) {
        load_floats(bias, column_bias + column);
      }
      float y[kVector];
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        float other = 0.0F;
        if constexpr (kHasAddend) {
          const std::uint32_t pair = (kRowByRow && h == 1 ? second : addend).words[group][v / 2];
          other = v % 2 == 0 ? ptx::bf16_low(pair) : ptx::bf16_high(pair);
        }
        const int at = 4 * (group * kVector / 2 + v / 2) + 2 * h + v % 2;
        const float shift = Cfg::kEpilogue == Kind::kPosition ? other : bias[v];
        y[v] = static_cast<float>(accumulators[at]);
        y[v] = Cfg::kScaled ? fmaf(y[v] * row_scale[h], scale[v], shift) : y[v] + shift;
        if constexpr (Cfg::kEpilogue == Kind::kResidual) {
          y[v] += other;
        }
        if constexpr (Cfg::kEpilogue == Kind::kGelu) {
          y[v] = gelu_tanh(y[v]);
        }
      }
      if (rows[h].valid) {
        store_vector(y, p, static_cast<std::int64_t>(rows[h].index) * p.columns + column);
      }
      if constexpr (kRowByRow) {
        if (h == 0) {
          load_addend_group(second, p, rows[1], first_column, group);
        }
      }
    }
  }

 private:
  static __device__ __forceinline__ void store_vector(const float (&y)[kVector],
                                                      const gemm::Params& p, std::int64_t at) {
    if constexpr (Cfg::kOneByteOutput) {
      std::uint32_t packed[kVector / 4];
#pragma unroll
      for (int i = 0; i < kVector / 4; ++i) {
        const std::uint32_t low = ptx::cvt_e4m3x2(y[4 * i] * p.inverse_output_scale,
                                                  y[4 * i + 1] * p.inverse_output_scale);
        const std::uint32_t high = ptx::cvt_e4m3x2(y[4 * i + 2] * p.inverse_output_scale,
                                                   y[4 * i + 3] * p.inverse_output_scale);
        packed[i] = low | high << 16;
      }
      store_words(static_cast<std::uint8_t*>(p.output) + at, packed);
    } else {
      std::uint32_t packed[kVector / 2];
#pragma unroll
      for (int i = 0; i < kVector / 2; ++i) {
        packed[i] = ptx::cvt_bf16x2(y[2 * i], y[2 * i + 1]);
      }
      store_words(static_cast<std::uint16_t*>(p.output) + at, packed);
    }
  }

  template <int kCount>
  static __device__ __forceinline__ void store_words(void* to,
                                                     const std::uint32_t (&from)[kCount]) {
    using Type = typename Words<kCount * 4>::Type;
    Type value;
    __builtin_memcpy(&value, from, sizeof(Type));
    *static_cast<Type*>(to) = value;
  }
};

}  // namespace fovea::epilogue
