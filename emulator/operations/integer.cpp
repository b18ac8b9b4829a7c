// Whole numbers: add, sub, mul, mad, div, rem, min, max, neg, abs.
#include <algorithm>
#include <array>
#include <type_traits>

#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/packed.hpp"

namespace emu {
namespace {

__extension__ using Int128 = __int128;
__extension__ using UInt128 = unsigned __int128;

template <typename T>
using Unsigned = std::make_unsigned_t<T>;

// Sums wrap around; narrow types are computed in `unsigned`, where they do not overflow.
template <typename T>
T wrapped(auto value) {
  return static_cast<T>(static_cast<Unsigned<T>>(value));
}

struct Add {
  template <typename T>
  T operator()(T a, T b) const {
    return wrapped<T>(Unsigned<T>(a) + Unsigned<T>(b));
  }
};
struct Sub {
  template <typename T>
  T operator()(T a, T b) const {
    return wrapped<T>(Unsigned<T>(a) - Unsigned<T>(b));
  }
};

template <typename T>
T low_product(T a, T b) {
  using U = std::conditional_t<sizeof(T) < 4, std::uint32_t, Unsigned<T>>;
  return wrapped<T>(static_cast<U>(a) * static_cast<U>(b));
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
struct TwiceAsWide;
template <>
struct TwiceAsWide<std::uint16_t> {
  using Is = std::uint32_t;
};
template <>
struct TwiceAsWide<std::int16_t> {
  using Is = std::int32_t;
};
template <>
struct TwiceAsWide<std::uint32_t> {
  using Is = std::uint64_t;
};
template <>
struct TwiceAsWide<std::int32_t> {
  using Is = std::int64_t;
};

struct MulLow {
  template <typename T>
  T operator()(T a, T b) const {
    return low_product(a, b);
  }
};
struct MulHigh {
  template <typename T>
  T operator()(T a, T b) const {
    return high_product(a, b);
  }
};
struct MulWide {
  template <typename T>
  auto operator()(T a, T b) const {
    using Wide = typename TwiceAsWide<T>::Is;
    return static_cast<Wide>(static_cast<Wide>(a) * static_cast<Wide>(b));
  }
};
struct MadLow {
  template <typename T>
  T operator()(T a, T b, T c) const {
    return Add{}(low_product(a, b), c);
  }
};
struct MadHigh {
  template <typename T>
  T operator()(T a, T b, T c) const {
    return Add{}(high_product(a, b), c);
  }
};
struct MadWide {
  template <typename T, typename Wide>
  Wide operator()(T a, T b, Wide c) const {
    return Add{}(static_cast<Wide>(MulWide{}(a, b)), c);
  }
};

// What a division by zero gives is not specified; all ones is what GPUs give, as the rest too.
struct Div {
  template <typename T>
  T operator()(T a, T b) const {
    if (b == 0) {
      return static_cast<T>(~T{0});
    }
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) {
        return Sub{}(T{0}, a);
      }
    }
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <typename T>
  T operator()(T a, T b) const {
    if (b == 0) {
      return static_cast<T>(~T{0});
    }
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) {
        return 0;
      }
    }
    return static_cast<T>(a % b);
  }
};
struct Min {
  template <typename T>
  T operator()(T a, T b) const {
    return std::min(a, b);
  }
};
struct Max {
  template <typename T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};
struct Neg {
  template <typename T>
  T operator()(T a) const {
    return Sub{}(T{0}, a);
  }
};
struct Abs {
  template <typename T>
  T operator()(T a) const {
    return a < 0 ? Sub{}(T{0}, a) : a;
  }
};
template <typename F>
void decode_binary(Decoder& decoder) {
  const Type type = decoder.take_type();
  add_alike(decoder, type, 2);
  decoder.op().code =
      pick_integer(decoder, type, []<typename T>() -> Code { return &run_binary<T, T, T, F>; });
}

template <typename F>
void decode_unary(Decoder& decoder) {
  const Type type = decoder.take_type();
  add_alike(decoder, type, 1);
  decoder.op().code =
      pick_integer(decoder, type, []<typename T>() -> Code { return &run_unary<T, T, F>; });
}

void decode_wide_result(Decoder& decoder, Type type, bool is_mad) {
  decoder.expect_operands(is_mad ? 4 : 3);
  decoder.add(decoder.destination(0, 2 * bits_of(type)));
  decoder.add(decoder.source(1, type));
  decoder.add(decoder.source(2, type));
  const auto pick = [&]<typename T>() -> Code {
    if constexpr (sizeof(T) == 8) {
      decoder.fail("no type is twice as wide");
    } else {
      using Wide = typename TwiceAsWide<T>::Is;
      if (is_mad) {
        return &run_ternary<Wide, T, T, Wide, MadWide>;
      }
      return &run_binary<Wide, T, T, MulWide>;
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
  add_alike(decoder, type, 2);
  decoder.op().code = pick_integer(decoder, type, [&]<typename T>() -> Code {
    return part == "lo" ? &run_binary<T, T, T, MulLow> : &run_binary<T, T, T, MulHigh>;
  });
}

void decode_mad(Decoder& decoder) {
  const std::string_view part = decoder.take_one_of({"lo", "hi", "wide"});
  const Type type = decoder.take_type();
  if (part == "wide") {
    decode_wide_result(decoder, type, true);
    return;
  }
  add_alike(decoder, type, 3);
  decoder.op().code = pick_integer(decoder, type, [&]<typename T>() -> Code {
    return part == "lo" ? &run_ternary<T, T, T, T, MadLow> : &run_ternary<T, T, T, T, MadHigh>;
  });
}

template <typename F>
void decode_also_of_floats(Decoder& decoder) {
  if (!decode_packed_or_float(decoder)) {
    decode_binary<F>(decoder);
  }
}

template <typename F>
void decode_unary_also_of_floats(Decoder& decoder) {
  if (!decode_packed_or_float(decoder)) {
    decode_unary<F>(decoder);
  }
}

constexpr std::array kOperations = {
    Operation{"add", &decode_also_of_floats<Add>},
    Operation{"sub", &decode_also_of_floats<Sub>},
    Operation{"mul", &decode_mul},
    Operation{"mad", &decode_mad},
    Operation{"div", &decode_also_of_floats<Div>},
    Operation{"rem", &decode_binary<Rem>},
    Operation{"min", &decode_also_of_floats<Min>},
    Operation{"max", &decode_also_of_floats<Max>},
    Operation{"neg", &decode_unary_also_of_floats<Neg>},
    Operation{"abs", &decode_unary_also_of_floats<Abs>},
};

}  // namespace

std::span<const Operation> integer_operations() {
  return kOperations;
}

}  // namespace emu
