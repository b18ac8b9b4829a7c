// CUDA's arithmetic of two halves at once, on the host: as much of it as the kernels use.
#pragma once

#include <cmath>

#include "core/dtype.hpp"
#include "machine/machine.hpp"

struct __half2 {
  std::uint16_t low, high;
};

namespace fovea::machine {

/// `of` each of the two places, rounded to a half once.
template <typename Of, typename... Halves>
__half2 on_halves(Of of, Halves... halves) {
  const auto wide = [](std::uint16_t bits) { return to_float(Float16{bits}); };
  return {to_float16(of(wide(halves.low)...)).bits, to_float16(of(wide(halves.high)...)).bits};
}

}  // namespace fovea::machine

inline __half2 __float2half2_rn(float value) {
  return {fovea::to_float16(value).bits, fovea::to_float16(value).bits};
}
inline __half2 __hadd2(__half2 a, __half2 b) {
  return fovea::machine::on_halves([](float x, float y) { return x + y; }, a, b);
}
inline __half2 __hmul2(__half2 a, __half2 b) {
  return fovea::machine::on_halves([](float x, float y) { return x * y; }, a, b);
}
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return fovea::machine::on_halves([](float x, float y, float z) { return x * y + z; }, a, b, c);
}
/// These two give the other number when one is NaN.
inline __half2 __hmax2(__half2 a, __half2 b) {
  return fovea::machine::on_halves([](float x, float y) { return std::fmax(x, y); }, a, b);
}
inline __half2 __hmin2(__half2 a, __half2 b) {
  return fovea::machine::on_halves([](float x, float y) { return std::fmin(x, y); }, a, b);
}
inline __half2 __hmax2_nan(__half2 a, __half2 b) {
  return fovea::machine::on_halves(
      [](float x, float y) { return std::isnan(x) || std::isnan(y) ? NAN : std::fmax(x, y); }, a,
      b);
}

/// The bytes of (y, x) that the four digits of `which` name, the lowest digit's lowest.
inline std::uint32_t __byte_perm(std::uint32_t x, std::uint32_t y, std::uint32_t which) {
  const std::uint64_t bytes = std::uint64_t{y} << 32 | x;
  std::uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t from = which >> (4 * i) & 7U;
    result |= static_cast<std::uint32_t>(bytes >> (8 * from) & 0xffU) << (8 * i);
  }
  return result;
}
