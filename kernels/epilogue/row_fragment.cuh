// Epilogue from accumulators in tensor memory, where each lane of a warp has one row, to swizzled
// rows in shared memory, which TMA stores.
//
// A lane has the columns of its row in order, so no permutation is needed, and all lanes read the
// values of a column from the same address.
#pragma once

#include <cstdint>

#include "kernels/epilogue/arithmetic.cuh"
#include "kernels/epilogue/block_scale.cuh"
#include "kernels/epilogue/epilogue_params.hpp"
#include "kernels/epilogue/row.cuh"
#include "kernels/epilogue/words.cuh"
#include "kernels/ptx/math.cuh"

namespace fovea::epilogue {

/// Cfg defines the members required by Arithmetic, and kSpan: the width of the swizzle (32, 64 or
/// 128), which is the number of adjacent bytes of a row in shared memory.
template <typename Cfg>
struct RowFragment {
  using Values = Arithmetic<Cfg>;
  static constexpr int kColumns = 32;  // columns per load from tensor memory
  static constexpr int kUnit = 16;     // bytes that a swizzle moves together
  static constexpr int kUnitColumns = kUnit / Values::kBytes;
  static constexpr int kUnits = kColumns / kUnitColumns;
  static constexpr bool kHasPosition = Cfg::kEpilogue == Kind::kPosition;
  static constexpr bool kHasResidual = Cfg::kEpilogue == Kind::kResidual;
  static constexpr bool kInBlocks = Cfg::kOutput == Output::kMXFP8;
  static_assert(!kInBlocks || kColumns == kScaleBlock, "a lane has a block");
  static_assert(!(kHasPosition || kHasResidual) || Cfg::kOutput == Output::kBF16);

  /// The values to add to a lane's columns, as pairs of bf16.
  struct Addend {
    std::uint32_t words[kHasPosition ? kUnits : 1][4];
  };
  static __device__ __forceinline__ Addend load_position(const Params& p, const Row& row,
                                                         std::int32_t column) {
    Addend addend{};
    if constexpr (kHasPosition) {
      const auto* const from = static_cast<const std::uint16_t*>(p.position) +
                               static_cast<std::int64_t>(row.token) * p.columns + column;
#pragma unroll
      for (int unit = 0; unit < kUnits; ++unit) {
        if (row.valid && column + unit * kUnitColumns < p.columns) {
          load_words(addend.words[unit], from + unit * kUnitColumns);
        }
      }
    }
    return addend;
  }

  /// Scale of a lane's row, loaded before the wait for the products.
  struct RowScale {
    float value;
    float shift;  // only with kNormed
  };
  // Not loaded through the read-only cache, because the previous grid may still write them when
  // this one starts.
  static __device__ __forceinline__ RowScale load_row_scale(const Params& p, const Row& row) {
    RowScale scale{1.0F, 0.0F};
    if constexpr (Cfg::kNormed) {
      scale.value = row.valid ? p.row_norm[row.index].scale : 0.0F;
      scale.shift = row.valid ? p.row_norm[row.index].shift : 0.0F;
    } else if (Cfg::kScaled && p.row_scale != nullptr) {
      scale.value = row.valid ? p.row_scale[row.index] : 0.0F;
    }
    return scale;
  }

  /// The swizzled offset of the 16 bytes with index `unit` in a row's span.
  static __device__ __forceinline__ std::uint32_t swizzled(std::uint32_t row, std::uint32_t unit) {
    constexpr std::uint32_t kRowsOfPhase = 128 / Cfg::kSpan;
    constexpr std::uint32_t kSpanUnits = Cfg::kSpan / kUnit;
    return (unit ^ row / kRowsOfPhase % kSpanUnits) * kUnit;
  }

  /// Finishes a lane's 32 columns from accumulators of this type. `scales` (or sums) and `biases`
  /// are those of the columns, in shared memory. `span` is the row in shared memory: it holds the
  /// residual and is overwritten with the output; the columns begin at its unit `first_unit`.
  template <typename Accumulator>
  static __device__ __forceinline__ void store(const std::uint32_t (&accumulators)[kColumns],
                                               const Params& p, const RowScale& row_scale,
                                               const float* scales, const float* biases,
                                               const Addend& addend, std::uint8_t* span,
                                               std::uint32_t row, std::uint32_t first_unit) {
    if (Cfg::kScaled && p.row_scale != nullptr) {
      store_columns<true, Accumulator>(accumulators, p, row_scale, scales, biases, addend, span,
                                       row, first_unit);
    } else {
      store_columns<false, Accumulator>(accumulators, p, row_scale, scales, biases, addend, span,
                                        row, first_unit);
    }
  }

  /// The same for a result in MXFP8, from f32 accumulators; returns the scale.
  static __device__ __forceinline__ std::uint32_t store_block(
      const std::uint32_t (&accumulators)[kColumns], const float* biases, std::uint8_t* span,
      std::uint32_t row, std::uint32_t first_unit) {
    static_assert(kInBlocks && !Cfg::kScaled && !Cfg::kNormed);
    float y[kColumns];
    load_floats(y, biases);
    float largest = 0.0F;
#pragma unroll
    for (int v = 0; v < kColumns; ++v) {
      y[v] =
          Values::template scaled<false>(__uint_as_float(accumulators[v]), 1.0F, 0.0F, 1.0F, y[v]);
      if constexpr (Cfg::kEpilogue == Kind::kGelu) {
        y[v] = gelu_tanh(y[v]);
      }
      largest = fmaxf(largest, fabsf(y[v]));
    }
    const std::uint32_t scale = block_scale(largest);
    const float inverse = inverse_of_scale(scale);
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit) {
      std::uint32_t packed[4];
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        packed[word] = to_e4m3x4(y + unit * kUnitColumns + word * 4, inverse);
      }
      store_words(span + swizzled(row, first_unit + unit), packed);
    }
    return scale;
  }

 private:
  /// kRowScaled: whether the row's scale is applied.
  template <bool kRowScaled, typename Accumulator>
  static __device__ __forceinline__ void store_columns(
      const std::uint32_t (&accumulators)[kColumns], const Params& p, const RowScale& row_scale,
      const float* scales, const float* biases, const Addend& addend, std::uint8_t* span,
      std::uint32_t row, std::uint32_t first_unit) {
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit) {
      const int first = unit * kUnitColumns;
      std::uint8_t* const place = span + swizzled(row, first_unit + unit);
      float scale[kUnitColumns];
      float bias[kUnitColumns];
      if constexpr (Cfg::kScaled || Cfg::kNormed) {
        load_floats(scale, scales + first);
      }
      if constexpr (Values::kHasBias) {
        load_floats(bias, biases + first);
      }
      std::uint32_t residual[4];
      if constexpr (kHasResidual) {
        load_words(residual, place);
      }
      float y[kUnitColumns];
#pragma unroll
      for (int v = 0; v < kUnitColumns; ++v) {
        if constexpr (kHasPosition) {
          bias[v] = bf16_of(addend.words[unit], v);
        }
        Accumulator sum;
        __builtin_memcpy(&sum, &accumulators[first + v], sizeof(sum));
        y[v] = Values::template scaled<kRowScaled>(sum, row_scale.value, row_scale.shift, scale[v],
                                                   bias[v]);
        if constexpr (kHasResidual) {
          y[v] += bf16_of(residual, v);
        }
      }
      std::uint32_t packed[4];
      Values::round(y, p, packed);
      store_words(place, packed);
    }
  }

  static __device__ __forceinline__ float bf16_of(const std::uint32_t (&pairs)[4], int index) {
    return index % 2 == 0 ? ptx::bf16_low(pairs[index / 2]) : ptx::bf16_high(pairs[index / 2]);
  }
};

}  // namespace fovea::epilogue
