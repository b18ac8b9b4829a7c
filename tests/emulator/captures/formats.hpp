// The short float formats by a table of all their values: what is nearest is looked up.
#pragma once

#include <cstdint>
#include <vector>

namespace captures {

struct ShortFormat {
  int exponent_bits = 0;
  int fraction_bits = 0;
  bool has_infinity = true;  // else all ones alone are NaN
  std::uint32_t nan = 0;     // what a GPU makes

  [[nodiscard]] int bits() const { return 1 + exponent_bits + fraction_bits; }
  /// The number that the bits stand for.
  [[nodiscard]] long double value(std::uint32_t bits) const;
  /// The bits of the nearest number, the even one of two; with `saturates`, the largest one in
  /// place of infinity.
  [[nodiscard]] std::uint32_t nearest(long double value, bool saturates = false) const;
};

extern const ShortFormat kBinary16;
extern const ShortFormat kBFloat16;
extern const ShortFormat kE4M3;
extern const ShortFormat kE5M2;

}  // namespace captures
