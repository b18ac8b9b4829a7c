// Integer arithmetic: add, sub, mul, mad, div, rem, min, max, neg, abs.
#include <algorithm>
#include <array>
#include <type_traits>

#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/operations.hpp"

namespace emu {
namespace {

__extension__ using Int128 = __int128;
__extension__ using UInt128 = unsigned __int128;

template <typename T>
using Unsigned = std::make_unsigned_t<T>;

// Wraps a result around. Narrow operands are promoted to int, in which their sums do not overflow.
template <typename T>
T wrap(auto value) {
  return static_cast<T>(static_cast<Unsigned<T>>(value));
}

using Add = decltype([]<typename T>(T a, T b) { return wrap<T>(Unsigned<T>(a) + Unsigned<T>(b)); });
using Sub = decltype([]<typename T>(T a, T b) { return wrap<T>(Unsigned<T>(a) - Unsigned<T>(b)); });

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
template <typename T>
using TwiceAsWide =
    std::conditional_t<sizeof(T) == 2,
                       std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>,
                       std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;

using MulLow = decltype([](auto a, auto b) { return low_product(a, b); });
using MulHigh = decltype([](auto a, auto b) { return high_product(a, b); });
using MulWide = decltype([]<typename T>(T a, T b) { return TwiceAsWide<T>{a} * b; });
using MadLow = decltype([](auto a, auto b, auto c) { return Add{}(low_product(a, b), c); });
using MadHigh = decltype([](auto a, auto b, auto c) { return Add{}(high_product(a, b), c); });
using MadWide = decltype([]<typename T>(T a, T b, TwiceAsWide<T> c) {
  return Add{}(static_cast<TwiceAsWide<T>>(MulWide{}(a, b)), c);
});

// Division by zero, which PTX does not specify, gives all ones as on GPUs, and so does its
// remainder. The lowest number divided by -1 wraps around.
using Div = decltype([]<typename T>(T a, T b) {
  if (b == 0) {
    return static_cast<T>(~T{0});
  }
  return b == static_cast<T>(-1) && std::is_signed_v<T> ? Sub{}(T{0}, a) : static_cast<T>(a / b);
});
using Rem = decltype([]<typename T>(T a, T b) {
  if (b == 0) {
    return static_cast<T>(~T{0});
  }
  return b == static_cast<T>(-1) && std::is_signed_v<T> ? T{0} : static_cast<T>(a % b);
});
using Min = decltype([](auto a, auto b) { return std::min(a, b); });
using Max = decltype([](auto a, auto b) { return std::max(a, b); });
using Neg = decltype([]<typename T>(T a) { return Sub{}(T{0}, a); });
using Abs = decltype([]<typename T>(T a) { return a < 0 ? Sub{}(T{0}, a) : a; });

// Decodes an instruction with one or two sources.
template <typename F>
void decode_uniform(Decoder& decoder) {
  constexpr bool kIsUnary = std::is_invocable_v<F, int>;
  const Type type = decoder.take_type();
  add_same_type(decoder, type, kIsUnary ? 1 : 2);
  decoder.op().code = pick_integer(decoder, type, []<typename T>() -> Code {
    if constexpr (kIsUnary) {
      return &run_lane_wise<F, T, T>;
    } else {
      return &run_lane_wise<F, T, T, T>;
    }
  });
}

void decode_wide_result(Decoder& decoder, Type type, bool is_mad) {
  decoder.expect_operands(is_mad ? 4 : 3);
  decoder.add(decoder.destination(0, 2 * bits_of(type)));
  decoder.add(decoder.source(1, type));
  decoder.add(decoder.source(2, type));
  const auto pick = [&]<typename T>() -> Code {
    if constexpr (sizeof(T) == 8) {
      decoder.fail("unsupported: no type has twice the width");
    } else {
      using Wide = TwiceAsWide<T>;
      return is_mad ? &run_lane_wise<MadWide, Wide, T, T, Wide>
                    : &run_lane_wise<MulWide, Wide, T, T>;
    }
  };
  decoder.op().code = pick_integer(decoder, type, pick);
  if (is_mad) {
    const bool is_signed_type = is_signed(type);
    decoder.add(decoder.source(3, bits_of(type) == 16
                                      ? (is_signed_type ? Type::kS32 : Type::kU32)
                                      : (is_signed_type ? Type::kS64 : Type::kU64)));
  }
}

void decode_mul(Decoder& decoder) {
  if (decode_packed_or_float(decoder)) {
    return;
  }
  const std::string_view part = decoder.take_one_of({"lo", "hi", "wide"});
  const Type type = decoder.take_type();
  if (part == "wide") {
    decode_wide_result(decoder, type, false);
    return;
  }
  add_same_type(decoder, type, 2);
  decoder.op().code = pick_integer(decoder, type, [&]<typename T>() -> Code {
    return part == "lo" ? &run_lane_wise<MulLow, T, T, T> : &run_lane_wise<MulHigh, T, T, T>;
  });
}

void decode_mad(Decoder& decoder) {
  const std::string_view part = decoder.take_one_of({"lo", "hi", "wide"});
  const Type type = decoder.take_type();
  if (part == "wide") {
    decode_wide_result(decoder, type, true);
    return;
  }
  add_same_type(decoder, type, 3);
  decoder.op().code = pick_integer(decoder, type, [&]<typename T>() -> Code {
    return part == "lo" ? &run_lane_wise<MadLow, T, T, T, T> : &run_lane_wise<MadHigh, T, T, T, T>;
  });
}

template <typename F>
void decode_integer_or_float(Decoder& decoder) {
  if (!decode_packed_or_float(decoder)) {
    decode_uniform<F>(decoder);
  }
}

constexpr std::array kOperations = {
    Operation{"add", &decode_integer_or_float<Add>},
    Operation{"sub", &decode_integer_or_float<Sub>},
    Operation{"mul", &decode_mul},
    Operation{"mad", &decode_mad},
    Operation{"div", &decode_integer_or_float<Div>},
    Operation{"rem", &decode_uniform<Rem>},
    Operation{"min", &decode_integer_or_float<Min>},
    Operation{"max", &decode_integer_or_float<Max>},
    Operation{"neg", &decode_integer_or_float<Neg>},
    Operation{"abs", &decode_integer_or_float<Abs>},
};

}  // namespace

std::span<const Operation> integer_operations() {
  return kOperations;
}

}  // namespace emu
