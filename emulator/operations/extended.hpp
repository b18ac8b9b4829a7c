// Integer arithmetic that wraps around, and arithmetic with a carry.
#pragma once

#include <cstdint>
#include <type_traits>

#include "emulator/operations/exact_number.hpp"
#include "emulator/program/decoder.hpp"

namespace emu {

template <typename T>
using Unsigned = std::make_unsigned_t<T>;

// Wraps a result around. Narrow operands are promoted to int, in which their sums do not overflow.
template <typename T>
T wrap(auto value) {
  return static_cast<T>(static_cast<Unsigned<T>>(value));
}
template <typename T>
T wrapping_sum(T a, T b) {
  return wrap<T>(Unsigned<T>(a) + Unsigned<T>(b));
}
template <typename T>
T wrapping_difference(T a, T b) {
  return wrap<T>(Unsigned<T>(a) - Unsigned<T>(b));
}

/// Lower and upper half of a product.
template <typename T>
T low_product(T a, T b) {
  using U = std::conditional_t<sizeof(T) < 4, std::uint32_t, Unsigned<T>>;
  return wrap<T>(static_cast<U>(a) * static_cast<U>(b));
}
template <typename T>
T high_product(T a, T b) {
  if constexpr (sizeof(T) == 8) {
    using Wide = std::conditional_t<std::is_signed_v<T>, Int128, UInt128>;
    return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> 64);
  } else {
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    return static_cast<T>((Wide{a} * Wide{b}) >> (8 * sizeof(T)));
  }
}

/// An instruction of extended precision, and whether it reads and writes the carry.
enum class Extended : std::uint8_t { kAdd, kSub, kMadLow, kMadHigh };
struct CarryUse {
  bool reads = false;
  bool writes = false;
};
/// Decodes add.cc, addc and the like; their modifiers but for the type have been taken.
void decode_extended(Decoder& decoder, Extended extended, CarryUse use);

}  // namespace emu
