// Epilogue from accumulators in tensor memory, of which each lane of a warp has a row, to rows in
// swizzled shared memory, which TMA stores.
//
// A lane has the columns of its row in order, so nothing is permuted; and what columns share lanes
// read from one place at once.
#pragma once

#include <cstdint>

#include "kernels/epilogue/arithmetic.cuh"
#include "kernels/epilogue/block_scale.cuh"
#include "kernels/epilogue/epilogue_params.hpp"
#include "kernels/epilogue/row.cuh"
#include "kernels/epilogue/words.cuh"
#include "kernels/ptx/math.cuh"

namespace fovea::epilogue {

/// Cfg: as Arithmetic's, and kSpan: bytes of a row that lie side by side in shared memory, which is
/// the width of the swizzle (32, 64 or 128).
template <typename Cfg>
struct RowFragment {
  using Values = Arithmetic<Cfg>;
  static constexpr int kColumns = 32;  // of a row, which are loaded from tensor memory at once
  static constexpr int kUnit = 16;     // bytes that swizzles move as one
  static constexpr int kUnitColumns = kUnit / Values::kBytes;
  static constexpr int kUnits = kColumns / kUnitColumns;
  static constexpr bool kHasPosition = Cfg::kEpilogue == Kind::kPosition;
  static constexpr bool kHasResidual = Cfg::kEpilogue == Kind::kResidual;
  static constexpr bool kInBlocks = Cfg::kOutput == Output::kMXFP8;
  static_assert(!kInBlocks || kColumns == kScaleBlock, "a lane has a block");
  static_assert(!(kHasPosition || kHasResidual) || Cfg::kOutput == Output::kBF16);

  /// What is added to a lane's columns from memory: bf16 pairs.
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

  /// Scale of a lane's row; asked for before the products are awaited.
  struct RowScale {
    float value;
    float shift;  // kNormed
  };
  // Loads are ordinary ones: the grid before this one may write them while this one already runs.
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

  /// Where the 16 bytes at `unit` of a row's span lie in it.
  static __device__ __forceinline__ std::uint32_t swizzled(std::uint32_t row, std::uint32_t unit) {
    constexpr std::uint32_t kRowsOfPhase = 128 / Cfg::kSpan;
    constexpr std::uint32_t kSpanUnits = Cfg::kSpan / kUnit;
    return (unit ^ row / kRowsOfPhase % kSpanUnits) * kUnit;
  }

  /// Finishes a lane's 32 columns, whose accumulators have this type. `scales` (or sums), `biases`:
  /// the columns' in shared memory. `span`: the row's there, with the residual before and the
  /// output after; the columns begin at its 16 bytes number `first_unit`.
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

  /// The same of a result in MXFP8, of sums in f32; its scale is returned.
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
  /// kRowScaled: rows have scales; else none multiplies.
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
