// Parts that the files of float instructions share.
#pragma once

#include <algorithm>
#include <cmath>

#include "emulator/operations/exact_number.hpp"
#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/number_formats.hpp"

namespace emu {

/// Format of a type's numbers, and how many of them a register holds.
struct FloatElements {
  FloatFormat format{};
  int count = 0;

  [[nodiscard]] int bits() const { return format.bits() * count; }
};
/// Fails for a type in which floats are converted but not computed.
FloatElements float_elements(const Decoder& decoder, Type type);

/// Takes .rn, .rz, .rm or .rp. If it is not required, none of them stands for .rn.
Rounding take_rounding(Decoder& decoder, bool is_required);

/// Takes .ftz if the type allows it.
bool take_flush(Decoder& decoder, Type type);

/// Returns the quiet NaN with the sign and the payload of this one.
constexpr std::uint64_t quiet_nan(std::uint64_t bits, FloatFormat format) {
  return bits | format.least_normal() >> 1U;
}

inline float flush_to_zero(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : value;
}

/// Applies the modifiers .ftz and .sat to operands and result of a function that the host computes.
template <typename F, bool kFlushes, bool kSaturates>
struct WithModifiers {
  float operator()(auto... operands) const {
    float result = kFlushes ? F{}(flush_to_zero(operands)...) : F{}(operands...);
    if constexpr (kFlushes && requires { F::is_tiny(operands...); }) {
      if (F::is_tiny(flush_to_zero(operands)...)) {
        result = std::copysign(0.0F, result);
      }
    } else if constexpr (kFlushes) {
      result = flush_to_zero(result);
    }
    if constexpr (kSaturates) {
      result = result > 0 ? std::min(result, 1.0F) : 0.0F;
    }
    return canonicalize_nan(result);
  }
};

/// Decoders for the float types of mnemonics that integer types share.
void decode_float_div(Decoder& decoder);
void decode_float_min(Decoder& decoder);
void decode_float_max(Decoder& decoder);
void decode_float_neg(Decoder& decoder);
void decode_float_abs(Decoder& decoder);
/// Decoders of the approximate forms; .approx has been taken.
void decode_approximate_rcp(Decoder& decoder);
void decode_approximate_sqrt(Decoder& decoder);

}  // namespace emu
