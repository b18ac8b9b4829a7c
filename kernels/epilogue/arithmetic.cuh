// The arithmetic of an epilogue on values in registers, independent of the rows and columns that a
// thread holds: scaling, bias, activation, rounding.
#pragma once

#include <cstdint>

#include "kernels/epilogue/activation.cuh"
#include "kernels/epilogue/epilogue_params.hpp"
#include "kernels/ptx/math.cuh"

namespace fovea::epilogue {

/// Cfg defines kEpilogue, kOutput, kScaled (columns have a scale) and kNormed (rows have a RowNorm,
/// columns a sum).
template <typename Cfg>
struct Arithmetic {
  static constexpr bool kHasBias = Cfg::kEpilogue != Kind::kPosition;
  static constexpr int kBytes = Cfg::kOutput == Output::kBF16 ? 2 : 1;  // bytes per output element
  static_assert(!(Cfg::kScaled && Cfg::kNormed), "columns have a scale or a sum");

  /// Returns one element before the activation.
  template <bool kRowScaled, typename Accumulator>
  static __device__ __forceinline__ float scaled(Accumulator accumulator, float row_scale,
                                                 float row_shift, float scale, float shift) {
    const auto y = static_cast<float>(accumulator);
    if constexpr (Cfg::kNormed) {
      return fmaf(y, row_scale, fmaf(row_shift, scale, shift));  // here `scale` is the column's sum
    } else if constexpr (Cfg::kScaled) {
      return fmaf(kRowScaled ? y * row_scale : y, scale, shift);
    } else {
      return y + shift;
    }
  }

  /// Applies the activation to adjacent columns, and rounds and packs them for storing.
  template <int kCount>
  static __device__ __forceinline__ void round(const float (&y)[kCount], const Params& p,
                                               std::uint32_t (&packed)[kCount * kBytes / 4]) {
    constexpr bool kGelu = Cfg::kEpilogue == Kind::kGelu;
    if constexpr (Cfg::kOutput == Output::kI8) {
      static_assert(kGelu, "i8 is what the two layers of an MLP pass on");
      const __half2 half_scale = __float2half2_rn(fminf(0.5F * p.inverse_output_scale, 65504.0F));
#pragma unroll
      for (int i = 0; i < kCount / 4; ++i) {
        std::uint32_t pairs[2];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          pairs[j] = to_i8x2(
              gelu_tanh_f16x2(ptx::cvt_f16x2(y[4 * i + 2 * j], y[4 * i + 2 * j + 1]), half_scale));
        }
        packed[i] = pairs[0] | pairs[1] << 16;
      }
    } else if constexpr (Cfg::kOutput == Output::kE4M3) {
      const __half2 half_scale = __float2half2_rn(fminf(0.5F * p.inverse_output_scale, 65504.0F));
#pragma unroll
      for (int i = 0; i < kCount / 4; ++i) {
        std::uint32_t pairs[2];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const float low = y[4 * i + 2 * j];
          const float high = y[4 * i + 2 * j + 1];
          pairs[j] =
              kGelu ? ptx::cvt_e4m3x2_f16x2(gelu_tanh_f16x2(ptx::cvt_f16x2(low, high), half_scale))
                    : ptx::cvt_e4m3x2(low * p.inverse_output_scale, high * p.inverse_output_scale);
        }
        packed[i] = pairs[0] | pairs[1] << 16;
      }
    } else {
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) {
        packed[i] = kGelu ? ptx::cvt_bf16x2(gelu_tanh(y[2 * i]), gelu_tanh(y[2 * i + 1]))
                          : ptx::cvt_bf16x2(y[2 * i], y[2 * i + 1]);
      }
    }
  }
};

}  // namespace fovea::epilogue
