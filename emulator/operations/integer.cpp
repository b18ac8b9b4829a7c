// Whole numbers and bits: add, sub, mul, mad, div, rem, min, max, neg, abs, and, or, xor, not, shl,
// shr, bfi, bfe, prmt, popc, clz, brev.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <type_traits>

#include "emulator/operations/lane_wise.hpp"
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

// What a division by zero gives is not specified; all ones is what GPUs give.
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
      return a;
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
struct And {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <typename T>
  T operator()(T a) const {
    return static_cast<T>(~a);
  }
};

// Shifts by more than the width shift everything out.
struct Shl {
  template <typename T>
  T operator()(T a, std::uint32_t by) const {
    return by >= 8 * sizeof(T) ? T{0} : static_cast<T>(a << by);
  }
};
struct Shr {
  template <typename T>
  T operator()(T a, std::uint32_t by) const {
    if (by >= 8 * sizeof(T)) {
      return a < 0 ? static_cast<T>(-1) : T{0};
    }
    return static_cast<T>(a >> by);
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

template <typename F>
void decode_shift(Decoder& decoder) {
  const Type type = decoder.take_type();
  decoder.expect_operands(3);
  decoder.add(decoder.destination(0, bits_of(type)));
  decoder.add(decoder.source(1, type));
  decoder.add(decoder.source(2, Type::kU32));
  decoder.op().code = pick_integer(
      decoder, type, []<typename T>() -> Code { return &run_binary<T, T, std::uint32_t, F>; });
}

enum class Logic : std::uint8_t { kAnd, kOr, kXor, kNot };

template <Logic kLogic>
Outcome run_predicates(Warp& warp, const Op& op, Lanes lanes) {
  const Lanes a = warp.read_predicate(op.slots[1]) ^ (op.details[0] != 0 ? kAllLanes : 0);
  if constexpr (kLogic == Logic::kNot) {
    warp.write_predicate(op.slots[0], ~a, lanes, warp.valid(op.slots[1]));
  } else {
    const Lanes b = warp.read_predicate(op.slots[2]) ^ (op.details[1] != 0 ? kAllLanes : 0);
    const Lanes result = kLogic == Logic::kAnd ? a & b : kLogic == Logic::kOr ? a | b : a ^ b;
    warp.write_predicate(op.slots[0], result, lanes,
                         warp.valid(op.slots[1]) & warp.valid(op.slots[2]));
  }
  return Outcome::kDone;
}

template <Logic kLogic, typename F>
void decode_logic(Decoder& decoder) {
  constexpr std::size_t kSources = kLogic == Logic::kNot ? 1 : 2;
  const Type type = decoder.take_type();
  if (type == Type::kPred) {
    decoder.expect_operands(kSources + 1);
    decoder.add(decoder.destination(0, 1));
    for (std::size_t i = 0; i < kSources; ++i) {
      bool is_negated = false;
      decoder.add(decoder.predicate(decoder.operand(i + 1), is_negated));
      decoder.op().details.at(i) = is_negated ? 1 : 0;
    }
    decoder.op().code = &run_predicates<kLogic>;
    return;
  }
  add_alike(decoder, type, kSources);
  decoder.op().code = pick_integer(decoder, type, []<typename T>() -> Code {
    if constexpr (kLogic == Logic::kNot) {
      return &run_unary<T, T, F>;
    } else {
      return &run_binary<T, T, T, F>;
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

// Puts the lowest `count` bits of a into b, from `first` on.
Outcome run_bfi(Warp& warp, const Op& op, Lanes lanes) {
  const auto a = warp.read<std::uint32_t>(op.slots[1]);
  const auto b = warp.read<std::uint32_t>(op.slots[2]);
  const auto first = warp.read<std::uint32_t>(op.slots[3]);
  const auto count = warp.read<std::uint32_t>(op.slots[4]);
  Vec<std::uint32_t> d;
  Lanes valid = kAllLanes;
  for (std::size_t source = 1; source <= 4; ++source) {
    valid &= warp.valid(op.slots.at(source));
  }
  for (int i = 0; i < kLanes; ++i) {
    const std::uint32_t from = first.at[i] & 0xFFU;
    const std::uint32_t bits = count.at[i] & 0xFFU;
    const std::uint64_t ones = bits >= 32 ? 0xFFFFFFFFU : (std::uint64_t{1} << bits) - 1;
    const std::uint32_t mask = from >= 32 ? 0 : static_cast<std::uint32_t>(ones << from);
    const std::uint32_t moved = from >= 32 ? 0 : a.at[i] << from;
    d.at[i] = (b.at[i] & ~mask) | (moved & mask);
  }
  warp.write(op.slots[0], d, lanes, valid);
  return Outcome::kDone;
}

void decode_bfi(Decoder& decoder) {
  decoder.require("b32");
  decoder.expect_operands(5);
  decoder.add(decoder.destination(0, 32));
  for (std::size_t i = 1; i < 5; ++i) {
    decoder.add(decoder.source(i, Type::kB32));
  }
  decoder.op().code = &run_bfi;
}

// Takes four bytes of the eight in a and b. A selector's highest bit spreads the byte's sign.
struct Permute {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b, std::uint32_t selectors) const {
    const std::uint64_t both = std::uint64_t{b} << 32U | a;
    std::uint32_t result = 0;
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t selector = selectors >> (4 * i) & 0xFU;
      std::uint32_t byte = static_cast<std::uint32_t>(both >> (8 * (selector & 7U))) & 0xFFU;
      if ((selector & 8U) != 0) {
        byte = (byte & 0x80U) != 0 ? 0xFFU : 0;
      }
      result |= byte << (8 * i);
    }
    return result;
  }
};

void decode_prmt(Decoder& decoder) {
  decoder.require("b32");
  add_alike(decoder, Type::kB32, 3);
  decoder.op().code =
      &run_ternary<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, Permute>;
}

struct CountOnes {
  std::uint32_t operator()(std::uint32_t a) const {
    return static_cast<std::uint32_t>(std::popcount(a));
  }
};
struct CountLeadingZeros {
  std::uint32_t operator()(std::uint32_t a) const {
    return static_cast<std::uint32_t>(std::countl_zero(a));
  }
};
struct ReverseBits {
  std::uint32_t operator()(std::uint32_t a) const {
    std::uint32_t result = 0;
    for (int i = 0; i < 32; ++i) {
      result = result << 1U | (a & 1U);
      a >>= 1U;
    }
    return result;
  }
};

template <typename F>
void decode_bits(Decoder& decoder) {
  decoder.require("b32");
  add_alike(decoder, Type::kB32, 1);
  decoder.op().code = &run_unary<std::uint32_t, std::uint32_t, F>;
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
    Operation{"and", &decode_logic<Logic::kAnd, And>},
    Operation{"or", &decode_logic<Logic::kOr, Or>},
    Operation{"xor", &decode_logic<Logic::kXor, Xor>},
    Operation{"not", &decode_logic<Logic::kNot, Not>},
    Operation{"shl", &decode_shift<Shl>},
    Operation{"shr", &decode_shift<Shr>},
    Operation{"bfi", &decode_bfi},
    Operation{"prmt", &decode_prmt},
    Operation{"popc", &decode_bits<CountOnes>},
    Operation{"clz", &decode_bits<CountLeadingZeros>},
    Operation{"brev", &decode_bits<ReverseBits>},
};

}  // namespace

std::span<const Operation> integer_operations() {
  return kOperations;
}

}  // namespace emu
