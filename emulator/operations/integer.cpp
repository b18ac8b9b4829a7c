// Integer arithmetic: add, sub, mul, mad, mul24, mad24, sad, div, rem, min, max, neg, abs.
#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>

#include "emulator/operations/extended.hpp"
#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/operations.hpp"

namespace emu {
namespace {

using Add = decltype([](auto a, auto b) { return wrapping_sum(a, b); });
using Sub = decltype([](auto a, auto b) { return wrapping_difference(a, b); });
// .sat: limits the result to its type.
template <typename F>
struct Saturated {
  std::int32_t operator()(std::int32_t a, std::int32_t b) const {
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(
        F{}(std::int64_t{a}, std::int64_t{b}), std::numeric_limits<std::int32_t>::min(),
        std::numeric_limits<std::int32_t>::max()));
  }
};

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
// mad.hi.sat, of .s32.
using SaturatedMadHigh = decltype([](std::int32_t a, std::int32_t b, std::int32_t c) {
  return Saturated<Add>{}(high_product(a, b), c);
});
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
// .relu: negative results become 0.
template <typename F>
struct Positive {
  template <typename T>
  T operator()(T a, T b) const {
    return std::max(F{}(a, b), T{0});
  }
};
// Applies a function to both 16-bit numbers of a word.
template <typename F, typename T>
struct MapHalves {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b) const {
    const auto half = [&](unsigned place) {
      const T result = F{}(static_cast<T>(a >> place), static_cast<T>(b >> place));
      return std::uint32_t{static_cast<std::uint16_t>(result)} << place;
    };
    return half(0) | half(16);
  }
};
using Neg = decltype([]<typename T>(T a) { return Sub{}(T{0}, a); });
using Abs = decltype([]<typename T>(T a) { return a < 0 ? Sub{}(T{0}, a) : a; });
using SumOfDifference =
    decltype([](auto a, auto b, auto c) { return Add{}(c, a < b ? Sub{}(b, a) : Sub{}(a, b)); });

// Product of the lowest 24 bits of each operand, of which the bits from kFirst on are taken.
template <unsigned kFirst>
struct Mul24 {
  template <typename T>
  T operator()(T a, T b) const {
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    const auto low_24 = [](T value) {
      return Wide{static_cast<T>(static_cast<T>(static_cast<std::uint32_t>(value) << 8U) >> 8U)};
    };
    return static_cast<T>((low_24(a) * low_24(b)) >> kFirst);
  }
};
template <unsigned kFirst>
struct Mad24 {
  template <typename T>
  T operator()(T a, T b, T c) const {
    return Add{}(Mul24<kFirst>{}(a, b), c);
  }
};
using SaturatedMad24 = decltype([](std::int32_t a, std::int32_t b, std::int32_t c) {
  return Saturated<Add>{}(Mul24<16>{}(a, b), c);
});

// Returns the code of an instruction whose operands all have the type.
template <typename F, typename T>
Code same_type_code() {
  if constexpr (std::is_invocable_v<F, T>) {
    return &run_lane_wise<F, T, T>;
  } else if constexpr (std::is_invocable_v<F, T, T>) {
    return &run_lane_wise<F, T, T, T>;
  } else {
    return &run_lane_wise<F, T, T, T, T>;
  }
}
template <typename F>
constexpr std::size_t kSources = std::is_invocable_v<F, int>        ? 1
                                 : std::is_invocable_v<F, int, int> ? 2
                                                                    : 3;

template <typename F>
void decode_uniform(Decoder& decoder) {
  const Type type = decoder.take_type();
  add_same_type(decoder, type, kSources<F>);
  decoder.op().code =
      pick_integer(decoder, type, []<typename T>() -> Code { return same_type_code<F, T>(); });
}

// Decodes .u16x2 and .s16x2.
template <typename F>
void decode_halves(Decoder& decoder) {
  const Type type = decoder.take_type();
  add_same_type(decoder, type, 2);
  using Word = std::uint32_t;
  decoder.op().code = type == Type::kS16x2
                          ? &run_lane_wise<MapHalves<F, std::int16_t>, Word, Word, Word>
                          : &run_lane_wise<MapHalves<F, std::uint16_t>, Word, Word, Word>;
}

bool is_halves(Type type) {
  return type == Type::kS16x2 || type == Type::kU16x2;
}

// Decodes an instruction on .s32 alone.
template <typename F>
void decode_s32(Decoder& decoder) {
  decoder.require("s32");
  add_same_type(decoder, Type::kS32, kSources<F>);
  decoder.op().code = same_type_code<F, std::int32_t>();
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

// Decodes mul or mad.
template <typename Low, typename High, bool kIsMad>
void decode_product(Decoder& decoder) {
  if (decode_float(decoder)) {
    return;
  }
  const std::string_view part = decoder.take_one_of({"lo", "hi", "wide"});
  if (kIsMad && part != "wide" && decoder.take("cc")) {
    decode_extended(decoder, part == "lo" ? Extended::kMadLow : Extended::kMadHigh,
                    {.writes = true});
    return;
  }
  if (kIsMad && part == "hi" && decoder.take("sat")) {
    decode_s32<SaturatedMadHigh>(decoder);
    return;
  }
  if (part == "wide") {
    decode_wide_result(decoder, decoder.take_type(), kIsMad);
  } else if (part == "lo") {
    decode_uniform<Low>(decoder);
  } else {
    decode_uniform<High>(decoder);
  }
}

template <template <unsigned> typename F>
void decode_24_bits(Decoder& decoder) {
  const bool is_low = decoder.take_one_of({"lo", "hi"}) == "lo";
  if constexpr (kSources<F<0>> == 3) {
    if (!is_low && decoder.take("sat")) {
      decode_s32<SaturatedMad24>(decoder);
      return;
    }
  }
  const Type type = decoder.take_type();
  if (type != Type::kS32 && type != Type::kU32) {
    decoder.fail("unsupported type");
  }
  add_same_type(decoder, type, kSources<F<0>>);
  const auto code = [&]<typename T>() -> Code {
    return is_low ? same_type_code<F<0>, T>() : same_type_code<F<16>, T>();
  };
  decoder.op().code = type == Type::kS32 ? code.template operator()<std::int32_t>()
                                         : code.template operator()<std::uint32_t>();
}

template <typename F>
void decode_integer_or_float(Decoder& decoder) {
  if (!decode_float(decoder)) {
    decode_uniform<F>(decoder);
  }
}

template <typename F, Extended kExtended>
void decode_sum(Decoder& decoder) {
  if (decode_float(decoder)) {
    return;
  }
  if (decoder.take("cc")) {
    decode_extended(decoder, kExtended, {.writes = true});
  } else if (decoder.take("sat")) {
    decode_s32<Saturated<F>>(decoder);
  } else if (kExtended == Extended::kAdd && decoder.peek_type() &&
             is_halves(*decoder.peek_type())) {
    decode_halves<F>(decoder);
  } else {
    decode_uniform<F>(decoder);
  }
}

template <typename F>
void decode_extreme_integer(Decoder& decoder) {
  if (decode_float(decoder)) {
    return;
  }
  const Type type = decoder.peek_type().value_or(Type::kB32);
  const bool has_relu = (type == Type::kS32 || type == Type::kS16x2) && decoder.take("relu");
  if (is_halves(type)) {
    has_relu ? decode_halves<Positive<F>>(decoder) : decode_halves<F>(decoder);
  } else if (has_relu) {
    decode_s32<Positive<F>>(decoder);
  } else {
    decode_uniform<F>(decoder);
  }
}

constexpr std::array kOperations = {
    Operation{"add", &decode_sum<Add, Extended::kAdd>},
    Operation{"sub", &decode_sum<Sub, Extended::kSub>},
    Operation{"mul", &decode_product<MulLow, MulHigh, false>},
    Operation{"mad", &decode_product<MadLow, MadHigh, true>},
    Operation{"mul24", &decode_24_bits<Mul24>},
    Operation{"mad24", &decode_24_bits<Mad24>},
    Operation{"sad", &decode_uniform<SumOfDifference>},
    Operation{"div", &decode_integer_or_float<Div>},
    Operation{"rem", &decode_uniform<Rem>},
    Operation{"min", &decode_extreme_integer<Min>},
    Operation{"max", &decode_extreme_integer<Max>},
    Operation{"neg", &decode_integer_or_float<Neg>},
    Operation{"abs", &decode_integer_or_float<Abs>},
};

}  // namespace

std::span<const Operation> integer_operations() {
  return kOperations;
}

}  // namespace emu
