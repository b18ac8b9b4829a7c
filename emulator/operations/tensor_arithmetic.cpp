// Floating-point arithmetic of tensor cores: sums of products, truncated instead of rounded.
#include "emulator/operations/tensor_arithmetic.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "emulator/operations/number_formats.hpp"

namespace emu {
namespace {

Parts parts_of_format(const Format& format, std::uint32_t bits) {
  const std::uint32_t ones = (1U << format.exponent_bits) - 1;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const std::uint32_t fraction = bits & ((1U << format.fraction_bits) - 1);
  const std::uint32_t exponent = bits >> format.fraction_bits & ones;
  const bool is_negative = (bits >> (format.exponent_bits + format.fraction_bits) & 1U) != 0;
  Parts parts;
  if (exponent == ones && format.has_infinity) {
    parts.is_nan = fraction != 0;
    parts.is_infinite = fraction == 0;
    parts.significand = 1;
  } else if (exponent == ones && fraction == (1U << format.fraction_bits) - 1) {
    parts.is_nan = format.has_nan_at_maximum;
  }
  if (!parts.is_nan && !parts.is_infinite) {
    parts.significand = exponent == 0 ? fraction : fraction | (1U << format.fraction_bits);
    parts.top = std::max(static_cast<int>(exponent), 1) - bias;
    parts.exponent = parts.top - format.fraction_bits;
  }
  if (is_negative) {
    parts.significand = -parts.significand;
  }
  return parts;
}

// Divides by 2^bits, truncating towards zero.
std::int64_t shift_towards_zero(std::int64_t value, int bits) {
  if (bits <= 0) {
    return value << static_cast<unsigned>(-bits);
  }
  if (bits > 62) {
    return 0;
  }
  const std::int64_t magnitude = std::abs(value) >> static_cast<unsigned>(bits);
  return value < 0 ? -magnitude : magnitude;
}

// Converts sum * 2^exponent to binary32 with `fraction_bits`, truncating towards zero.
float truncate_to_f32(std::int64_t sum, int exponent, int fraction_bits) {
  if (sum == 0) {
    return 0.0F;
  }
  std::int64_t magnitude = std::abs(sum);
  const int width = 64 - std::countl_zero(static_cast<std::uint64_t>(magnitude));
  // Number of bits to drop, including those of subnormal results.
  const int dropped_bits =
      std::max({width - 1 - fraction_bits, -126 - fraction_bits - exponent, 0});
  magnitude = dropped_bits > 62 ? 0 : magnitude >> static_cast<unsigned>(dropped_bits);
  if (magnitude == 0) {
    return 0.0F;  // also for a negative sum
  }
  double value = std::ldexp(static_cast<double>(magnitude), exponent + dropped_bits);
  value = std::min(value, static_cast<double>(std::numeric_limits<float>::max()) * 2);
  const auto result = value > static_cast<double>(std::numeric_limits<float>::max())
                          ? std::numeric_limits<float>::infinity()
                          : static_cast<float>(value);
  return sum < 0 ? -result : result;
}

// Sum before the rounding: NaN, infinite, or sum * 2^unit.
struct FusedSum {
  bool is_nan = false;
  bool is_infinite = false;  // with the sign of `sum`
  std::int64_t sum = 0;
  int unit = 0;
};

FusedSum exact_sum(std::span<const Parts> a, std::span<const Parts> b, const Parts& start,
                   Precision precision) {
  bool is_nan = start.is_nan;
  bool has_positive = start.is_infinite && start.significand > 0;
  bool has_negative = start.is_infinite && start.significand < 0;
  int top = precision.min_top;
  if (!start.is_infinite && start.significand != 0) {
    top = std::max(top, start.top);
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::int64_t product = a[i].significand * b[i].significand;
    is_nan = is_nan || a[i].is_nan || b[i].is_nan;
    if (a[i].is_infinite || b[i].is_infinite) {
      is_nan = is_nan || product == 0;
      has_positive = has_positive || product > 0;
      has_negative = has_negative || product < 0;
    } else if (product != 0) {
      top = std::max(top, a[i].top + b[i].top);
    }
  }
  if (is_nan || (has_positive && has_negative)) {
    return {.is_nan = true};
  }
  if (has_positive || has_negative) {
    return {.is_infinite = true, .sum = has_positive ? 1 : -1};
  }
  const int unit = top - precision.sum_bits;
  std::int64_t sum =
      start.significand != 0 ? shift_towards_zero(start.significand, unit - start.exponent) : 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::int64_t product = a[i].significand * b[i].significand;
    if (product != 0) {
      sum += shift_towards_zero(product, unit - (a[i].exponent + b[i].exponent));
    }
  }
  return {.sum = sum, .unit = unit};
}

}  // namespace

Parts parts_of_f16(std::uint16_t bits) {
  return parts_of_format(format_of(Element::kF16), bits);
}
Parts parts_of_f32(float value) {
  return parts_of_format({8, 23, true, false}, std::bit_cast<std::uint32_t>(value));
}
Parts parts_of(Element element, std::uint32_t bits) {
  return parts_of_format(format_of(element), element == Element::kTF32 ? bits >> 13U : bits);
}

float fused_sum(std::span<const Parts> a, std::span<const Parts> b, float c, Precision precision) {
  const FusedSum result = exact_sum(a, b, parts_of_f32(c), precision);
  if (result.is_nan) {
    return std::bit_cast<float>(0x7FFFFFFFU);
  }
  if (result.is_infinite) {
    return result.sum > 0 ? std::numeric_limits<float>::infinity()
                          : -std::numeric_limits<float>::infinity();
  }
  return truncate_to_f32(result.sum, result.unit, precision.result_bits);
}

std::uint16_t fused_sum_of_f16(std::span<const Parts> a, std::span<const Parts> b, std::uint16_t c,
                               Precision precision) {
  const FusedSum result = exact_sum(a, b, parts_of_f16(c), precision);
  if (result.is_nan) {
    return 0x7FFF;
  }
  if (result.is_infinite) {
    return result.sum > 0 ? 0x7C00 : 0xFC00;
  }
  const std::uint16_t bits =
      f16_bits_of_double(std::ldexp(static_cast<double>(result.sum), result.unit));
  return bits == 0x8000 ? std::uint16_t{0} : bits;
}

}  // namespace emu
