// The short float formats by a table of all their values.
#include "emulator/captures/formats.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>

namespace captures {

const ShortFormat kBinary16{5, 10, true, 0x7FFF};
const ShortFormat kBFloat16{8, 7, true, 0x7FFF};
const ShortFormat kE4M3{4, 3, false, 0x7F};
const ShortFormat kE5M2{5, 2, true, 0x7F};

namespace {

// All finite numbers of at least 0, by their bits.
const std::vector<long double>& table_of(const ShortFormat& format) {
  static std::mutex mutex;
  static std::map<int, std::vector<long double>> tables;
  const std::lock_guard lock(mutex);
  std::vector<long double>& table = tables[format.exponent_bits * 16 + format.fraction_bits];
  if (table.empty()) {
    const std::uint32_t steps = 1U << static_cast<unsigned>(format.fraction_bits);
    const std::uint32_t exponents =
        (1U << static_cast<unsigned>(format.exponent_bits)) - (format.has_infinity ? 1U : 0U);
    const int bias = (1 << (format.exponent_bits - 1)) - 1;
    for (std::uint32_t bits = 0; bits < exponents * steps - (format.has_infinity ? 0U : 1U);
         ++bits) {
      const std::uint32_t exponent = bits / steps;
      const std::uint32_t significand = bits % steps + (exponent == 0 ? 0 : steps);
      table.push_back(
          std::ldexp(static_cast<long double>(significand),
                     static_cast<int>(std::max(exponent, 1U)) - bias - format.fraction_bits));
    }
  }
  return table;
}

}  // namespace

long double ShortFormat::value(std::uint32_t bits) const {
  const std::vector<long double>& table = table_of(*this);
  const std::uint32_t sign = 1U << static_cast<unsigned>(exponent_bits + fraction_bits);
  const std::uint32_t magnitude = bits & (sign - 1);
  long double number = std::numeric_limits<long double>::quiet_NaN();
  if (magnitude < table.size()) {
    number = table[magnitude];
  } else if (has_infinity && magnitude == table.size()) {
    number = std::numeric_limits<long double>::infinity();
  }
  return (bits & sign) != 0 ? -number : number;
}

std::uint32_t ShortFormat::nearest(long double value, bool saturates) const {
  if (std::isnan(value)) {
    return nan;
  }
  const std::vector<long double>& table = table_of(*this);
  const std::uint32_t sign =
      std::signbit(value) ? 1U << static_cast<unsigned>(exponent_bits + fraction_bits) : 0;
  const long double magnitude = std::abs(value);
  const auto largest = static_cast<std::uint32_t>(table.size() - 1);
  const auto above = static_cast<std::uint32_t>(
      std::lower_bound(table.begin(), table.end(), magnitude) - table.begin());
  if (above > largest) {
    const long double half_step = (table[largest] - table[largest - 1]) / 2;
    const bool is_far = magnitude >= table[largest] + half_step;
    return sign | (is_far && !saturates && has_infinity ? largest + 1 : largest);
  }
  if (above == 0 || table[above] == magnitude) {
    return sign | above;
  }
  const long double to_above = table[above] - magnitude;
  const long double to_below = magnitude - table[above - 1];
  const bool goes_up = to_above < to_below || (to_above == to_below && above % 2 == 0);
  return sign | (goes_up ? above : above - 1);
}

}  // namespace captures
