// Exact numbers and their rounding to any float format: what arithmetic and conversions of every
// format and rounding mode are made of.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

namespace emu {

__extension__ using Int128 = __int128;
__extension__ using UInt128 = unsigned __int128;

enum class Rounding : std::uint8_t { kNearestEven, kNearestAway, kZero, kDown, kUp };

/// Float format with a sign bit, exponent bits and fraction bits.
struct FloatFormat {
  /// Meaning of the highest exponent: infinity and NaN; numbers, and NaN where all bits are ones;
  /// only numbers.
  enum class Highest : std::uint8_t { kInfinity, kNan, kNumbers };

  std::uint8_t exponent_bits = 0;
  std::uint8_t fraction_bits = 0;
  Highest highest = Highest::kInfinity;

  [[nodiscard]] constexpr int bits() const { return 1 + exponent_bits + fraction_bits; }
  [[nodiscard]] constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  [[nodiscard]] constexpr int min_exponent() const { return 1 - bias(); }
  [[nodiscard]] constexpr int max_exponent() const {
    return (1 << exponent_bits) - (highest == Highest::kInfinity ? 2 : 1) - bias();
  }
  [[nodiscard]] constexpr std::uint64_t sign() const { return std::uint64_t{1} << (bits() - 1); }
  [[nodiscard]] constexpr std::uint64_t least_normal() const {
    return std::uint64_t{1} << fraction_bits;
  }
  [[nodiscard]] constexpr std::uint64_t unity() const {
    return static_cast<std::uint64_t>(bias()) << fraction_bits;
  }
  [[nodiscard]] constexpr std::uint64_t infinity() const { return sign() - least_normal(); }
  /// Returns the largest finite number.
  [[nodiscard]] constexpr std::uint64_t largest() const {
    return highest == Highest::kInfinity ? infinity() - 1
           : highest == Highest::kNan    ? sign() - 2
                                         : sign() - 1;
  }
  /// Returns the NaN of GPU arithmetic.
  [[nodiscard]] constexpr std::uint64_t nan() const { return sign() - 1; }
  [[nodiscard]] constexpr bool is_nan(std::uint64_t bits) const {
    const std::uint64_t magnitude = bits & (sign() - 1);
    return highest == Highest::kInfinity ? magnitude > infinity()
                                         : highest == Highest::kNan && magnitude == nan();
  }
  [[nodiscard]] constexpr bool is_subnormal(std::uint64_t bits) const {
    const std::uint64_t magnitude = bits & (sign() - 1);
    return magnitude != 0 && magnitude < least_normal();
  }
  /// Returns zero of the same sign for a subnormal number, and any other number unchanged.
  [[nodiscard]] constexpr std::uint64_t flush(std::uint64_t bits) const {
    return is_subnormal(bits) ? bits & sign() : bits;
  }

  bool operator==(const FloatFormat&) const = default;
};

constexpr FloatFormat kF64{11, 52};
constexpr FloatFormat kF32{8, 23};
constexpr FloatFormat kTF32{8, 10};
constexpr FloatFormat kF16{5, 10};
constexpr FloatFormat kBF16{8, 7};
constexpr FloatFormat kE5M2{5, 2};
constexpr FloatFormat kE4M3{4, 3, FloatFormat::Highest::kNan};
constexpr FloatFormat kE2M3{2, 3, FloatFormat::Highest::kNumbers};
constexpr FloatFormat kE3M2{3, 2, FloatFormat::Highest::kNumbers};
constexpr FloatFormat kE2M1{2, 1, FloatFormat::Highest::kNumbers};

/// Number (units + rest) * 2^exponent with its sign, infinity or NaN. The rest lies between 0 and
/// 1, both excluded, if there is one; units then have more bits than any format that the number
/// is rounded to. 64 bits of units are enough for sums, products, quotients and roots of numbers
/// of up to 24 bits, 128 for those of binary64.
template <typename Units>
struct Number {
  enum class Kind : std::uint8_t { kFinite, kInfinite, kNan };

  Kind kind = Kind::kFinite;
  bool is_negative = false;
  bool has_rest = false;
  int exponent = 0;
  Units units = 0;

  [[nodiscard]] bool is_nan() const { return kind == Kind::kNan; }
  [[nodiscard]] bool is_infinite() const { return kind == Kind::kInfinite; }
  [[nodiscard]] bool is_zero() const { return kind == Kind::kFinite && units == 0; }
};

constexpr int bit_width(std::uint64_t units) {
  return static_cast<int>(std::bit_width(units));
}
constexpr int bit_width(UInt128 units) {
  const auto high = static_cast<std::uint64_t>(units >> 64);
  return high != 0 ? 64 + bit_width(high) : bit_width(static_cast<std::uint64_t>(units));
}

template <typename Units>
constexpr Number<Units> decode_float(std::uint64_t bits, FloatFormat format) {
  using Kind = typename Number<Units>::Kind;
  Number<Units> number{.is_negative = (bits & format.sign()) != 0};
  const std::uint64_t magnitude = bits & (format.sign() - 1);
  const auto exponent = static_cast<int>(magnitude >> format.fraction_bits);
  const std::uint64_t fraction = magnitude & (format.least_normal() - 1);
  number.units = exponent == 0 ? fraction : fraction | format.least_normal();
  number.exponent = std::max(exponent, 1) - format.bias() - format.fraction_bits;
  if (format.is_nan(bits)) {
    number.kind = Kind::kNan;
  } else if (format.highest == FloatFormat::Highest::kInfinity && magnitude == format.infinity()) {
    number.kind = Kind::kInfinite;
  }
  return number;
}

/// Returns a number of 2^shift units as large, rounded to whole units.
template <typename Units>
constexpr Units round_units(const Number<Units>& number, int shift, Rounding rounding) {
  constexpr int kBits = 8 * sizeof(Units);
  if (shift <= 0) {
    return number.units << -shift;  // a number with a rest has too many units to come here
  }
  const Units kept = shift < kBits ? number.units >> shift : Units{0};
  const bool has_half = shift <= kBits && (number.units >> (shift - 1) & 1U) != 0;
  const Units below = shift <= kBits ? (Units{1} << (shift - 1)) - 1 : ~Units{0};
  const bool has_rest = number.has_rest || (number.units & below) != 0;
  bool is_up = false;
  switch (rounding) {
    case Rounding::kNearestEven:
      is_up = has_half && (has_rest || (kept & 1U) != 0);
      break;
    case Rounding::kNearestAway:
      is_up = has_half;
      break;
    case Rounding::kZero:
      break;
    case Rounding::kDown:
    case Rounding::kUp:
      is_up = (has_half || has_rest) && number.is_negative == (rounding == Rounding::kDown);
      break;
  }
  return kept + (is_up ? 1U : 0U);
}

/// Rounds to a whole number, which may be a zero with a sign.
template <typename Units>
constexpr Number<Units> round_to_whole(Number<Units> number, Rounding rounding) {
  if (number.kind == Number<Units>::Kind::kFinite && number.exponent < 0) {
    number.units = round_units(number, -number.exponent, rounding);
    number.exponent = 0;
    number.has_rest = false;
  }
  return number;
}

/// Encodes a number, rounded once. What is too large becomes infinity or the largest number, as
/// the rounding has it; always the largest if `is_finite` or the format has no infinity. NaN
/// becomes the largest number if the format has none.
template <typename Units>
constexpr std::uint64_t encode_float(const Number<Units>& number, FloatFormat format,
                                     Rounding rounding, bool is_finite = false) {
  const std::uint64_t sign = number.is_negative ? format.sign() : 0;
  const bool is_unbounded = format.highest == FloatFormat::Highest::kInfinity && !is_finite;
  if (number.is_nan()) {
    return format.highest == FloatFormat::Highest::kNumbers ? format.largest() : format.nan();
  }
  if (number.is_infinite()) {
    return sign | (is_unbounded ? format.infinity() : format.largest());
  }
  if (number.units == 0) {
    return sign;
  }
  const int exponent =
      std::max(number.exponent + bit_width(number.units) - 1, format.min_exponent());
  if (exponent <= format.max_exponent()) {
    const int shift = exponent - format.fraction_bits - number.exponent;
    // A carry out of the fraction increments the exponent.
    const std::uint64_t bits =
        (static_cast<std::uint64_t>(exponent - format.min_exponent()) << format.fraction_bits) +
        static_cast<std::uint64_t>(round_units(number, shift, rounding));
    if (bits <= format.largest()) {
      return sign | bits;
    }
  }
  const bool is_away = rounding == Rounding::kNearestEven || rounding == Rounding::kNearestAway ||
                       rounding == (number.is_negative ? Rounding::kDown : Rounding::kUp);
  return sign | (is_unbounded && is_away ? format.infinity() : format.largest());
}

/// Format of a result, and what happens to it.
struct FloatResult {
  FloatFormat format{};
  Rounding rounding = Rounding::kNearestEven;
  bool flushes = false;    // .ftz
  bool saturates = false;  // .sat: to 0 and 1; NaN becomes 0
  bool has_relu = false;   // .relu: negative numbers become 0
  bool is_finite = false;  // .satfinite

  template <typename Units>
  [[nodiscard]] std::uint64_t encode(const Number<Units>& number) const {
    std::uint64_t bits = encode_float(number, format, rounding, is_finite);
    if (flushes && is_tiny(number)) {
      bits &= format.sign();
    }
    if (saturates) {
      return number.is_negative || number.is_nan() ? 0 : std::min(bits, format.unity());
    }
    return has_relu && number.is_negative && !number.is_nan() ? 0 : bits;
  }

 private:
  // A result is flushed if it is less than the least normal number when it is rounded with an
  // unbounded exponent.
  template <typename Units>
  [[nodiscard]] bool is_tiny(const Number<Units>& number) const {
    if (number.kind != Number<Units>::Kind::kFinite ||
        number.exponent + bit_width(number.units) - 1 >= format.min_exponent()) {
      return false;
    }
    constexpr std::uint8_t kWideExponent = 15;
    const FloatFormat wide{kWideExponent, format.fraction_bits};
    const auto least = static_cast<std::uint64_t>(wide.bias() + format.min_exponent())
                       << wide.fraction_bits;
    return (encode_float(number, wide, rounding) & (wide.sign() - 1)) < least;
  }
};

template <typename Units>
constexpr Number<Units> nan_number() {
  return {.kind = Number<Units>::Kind::kNan};
}

/// Shifts units so that the highest bit that is set is the one of this number.
template <typename Units>
constexpr void normalize(Number<Units>& number, int highest) {
  const int shift = highest + 1 - bit_width(number.units);
  number.units <<= shift;
  number.exponent -= shift;
}

/// Sum of exact numbers. The rounding decides the sign of a zero.
template <typename Units>
constexpr Number<Units> sum(Number<Units> a, Number<Units> b, Rounding rounding) {
  constexpr int kHighest = 8 * sizeof(Units) - 3;  // leaves room for a carry
  if (a.is_nan() || b.is_nan() ||
      (a.is_infinite() && b.is_infinite() && a.is_negative != b.is_negative)) {
    return nan_number<Units>();
  }
  if (a.is_infinite() || b.is_infinite()) {
    return a.is_infinite() ? a : b;
  }
  const bool is_zero_negative =
      a.is_negative == b.is_negative ? a.is_negative : rounding == Rounding::kDown;
  if (a.units == 0 && b.units == 0) {
    return {.is_negative = is_zero_negative};
  }
  if (a.units == 0 || b.units == 0) {
    return a.units == 0 ? b : a;
  }
  normalize(a, kHighest);
  normalize(b, kHighest);
  if (a.exponent < b.exponent || (a.exponent == b.exponent && a.units < b.units)) {
    std::swap(a, b);
  }
  const int shift = a.exponent - b.exponent;
  const bool is_below = shift > kHighest;
  a.has_rest = is_below || (b.units & ((Units{1} << shift) - 1)) != 0;
  const Units added = is_below ? Units{0} : b.units >> shift;
  if (a.is_negative == b.is_negative) {
    a.units += added;
  } else {
    a.units -= added + (a.has_rest ? 1U : 0U);
    a.is_negative = a.units == 0 ? is_zero_negative : a.is_negative;
  }
  return a;
}

template <typename Units>
constexpr Number<Units> product(const Number<Units>& a, const Number<Units>& b) {
  const bool is_negative = a.is_negative != b.is_negative;
  if (a.is_nan() || b.is_nan() || (a.is_infinite() && b.is_zero()) ||
      (b.is_infinite() && a.is_zero())) {
    return nan_number<Units>();
  }
  return {.kind = a.is_infinite() || b.is_infinite() ? Number<Units>::Kind::kInfinite
                                                     : Number<Units>::Kind::kFinite,
          .is_negative = is_negative,
          .exponent = a.exponent + b.exponent,
          .units = a.units * b.units};
}

template <typename Units>
constexpr Number<Units> quotient(Number<Units> a, const Number<Units>& b) {
  using Kind = typename Number<Units>::Kind;
  Number<Units> result{.is_negative = a.is_negative != b.is_negative};
  if (a.is_nan() || b.is_nan() || (a.is_infinite() && b.is_infinite()) ||
      (a.is_zero() && b.is_zero())) {
    return nan_number<Units>();
  }
  if (a.is_infinite() || b.is_zero()) {
    result.kind = Kind::kInfinite;
  } else if (!b.is_infinite() && !a.is_zero()) {
    normalize(a, 8 * sizeof(Units) - 1);
    result.units = a.units / b.units;
    result.has_rest = a.units % b.units != 0;
    result.exponent = a.exponent - b.exponent;
  }
  return result;
}

template <typename Units>
Number<Units> square_root(Number<Units> a) {
  if (a.is_nan() || a.is_zero()) {
    return a;
  }
  if (a.is_negative) {
    return nan_number<Units>();
  }
  if (a.is_infinite()) {
    return a;
  }
  normalize(a, 8 * sizeof(Units) - 3);
  if (a.exponent % 2 != 0) {
    a.units <<= 1U;
    --a.exponent;
  }
  auto root = static_cast<Units>(std::sqrt(static_cast<long double>(a.units)));
  while (root * root > a.units) {
    --root;
  }
  while ((root + 1) * (root + 1) <= a.units) {
    ++root;
  }
  a.has_rest = root * root != a.units;
  a.units = root;
  a.exponent /= 2;
  return a;
}

}  // namespace emu
