// kernels/ptx/math.cuh on the host: exact where the GPU approximates.
#pragma once

#include "core/dtype.hpp"
#include "machine/machine.hpp"

namespace fovea::ptx {

inline float tanh_approx(float x) {
  return std::tanh(x);
}
inline float ex2_approx(float x) {
  return std::exp2(x);
}
inline float rcp_approx(float x) {
  return 1.0F / x;
}

inline std::uint32_t cvt_bf16x2(float low, float high) {
  return to_bfloat16(low).bits | static_cast<std::uint32_t>(to_bfloat16(high).bits) << 16;
}
inline std::uint32_t cvt_f16x2(float low, float high) {
  return to_float16(low).bits | static_cast<std::uint32_t>(to_float16(high).bits) << 16;
}
inline std::uint16_t cvt_e4m3x2(float low, float high) {
  return static_cast<std::uint16_t>(to_e4m3(low).bits | to_e4m3(high).bits << 8);
}

inline float bf16_low(std::uint32_t packed) {
  return to_float(BFloat16{static_cast<std::uint16_t>(packed)});
}
inline float bf16_high(std::uint32_t packed) {
  return bf16_low(packed >> 16);
}
inline float f16_low(std::uint32_t packed) {
  return to_float(Float16{static_cast<std::uint16_t>(packed)});
}
inline float f16_high(std::uint32_t packed) {
  return f16_low(packed >> 16);
}

inline std::uint32_t tanh_approx_f16x2(std::uint32_t x) {
  return cvt_f16x2(std::tanh(f16_low(x)), std::tanh(f16_high(x)));
}
inline std::uint16_t cvt_e4m3x2_f16x2(std::uint32_t halves) {
  return cvt_e4m3x2(f16_low(halves), f16_high(halves));
}

}  // namespace fovea::ptx
