// Bit fields: bfe, bfi, bfind, fns, szext, bmsk.
#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>

#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/operations.hpp"

namespace emu {
namespace {

using Word = std::uint32_t;

// A number with this many low bits set.
template <typename T>
T low_bits(std::uint32_t count) {
  return count >= 8 * sizeof(T) ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << count) - 1);
}

// First bit or number of bits of a field. Of a 32-bit number it is the operand's low byte; code for
// 64 bits shifts by all of the operand, and 255 is as far as any greater number.
template <typename T>
Word extent(Word operand) {
  constexpr Word kLast = 0xFF;
  return sizeof(T) == 8 ? std::min(operand, kLast) : operand & kLast;
}

// Inserts the lowest `count` bits of a into b, at bit `first`.
using InsertField = decltype([]<typename T>(T a, T b, Word first, Word count) {
  const Word position = extent<T>(first);
  if (position >= 8 * sizeof(T)) {
    return b;
  }
  const auto mask = static_cast<T>(low_bits<T>(extent<T>(count)) << position);
  return static_cast<T>((b & ~mask) | (static_cast<T>(a << position) & mask));
});

// Extracts `count` bits of a from bit `first` on. A field of a signed type is extended by its
// highest bit that lies within a.
using ExtractField = decltype([]<typename T>(T a, Word first, Word count) {
  using U = std::make_unsigned_t<T>;
  constexpr Word kBits = 8 * sizeof(T);
  const Word position = extent<T>(first);
  const Word bits = extent<T>(count);
  if (bits == 0) {
    return T{0};
  }
  const Word last = std::min(position + bits - 1, kBits - 1);
  const bool is_extended = std::is_signed_v<T> && (static_cast<U>(a) >> last & 1U) != 0;
  const U field = position >= kBits ? U{0} : static_cast<U>(static_cast<U>(a) >> position);
  // Bits of the result that lie within both the field and a.
  const U mask = position >= kBits ? U{0} : low_bits<U>(std::min(bits, kBits - position));
  return static_cast<T>((field & mask) | (is_extended ? static_cast<U>(~mask) : U{0}));
});

// Finds the highest bit that differs from the sign; with kIsDistance, how far it is from the
// highest bit of all.
template <bool kIsDistance>
struct FindHighest {
  template <typename T>
  Word operator()(T a) const {
    using U = std::make_unsigned_t<T>;
    const U bits = a < 0 ? static_cast<U>(~a) : static_cast<U>(a);
    if (bits == 0) {
      return ~Word{0};
    }
    const auto distance = static_cast<Word>(std::countl_zero(bits));
    return kIsDistance ? distance : 8 * sizeof(T) - 1 - distance;
  }
};

// Finds the n-th bit that is set, n = |offset|, from bit `base` on, upwards or, if the offset is
// negative, downwards.
using FindSetBit = decltype([](Word mask, Word base, std::int32_t offset) {
  constexpr Word kNone = ~Word{0};
  if (offset == 0) {
    return base < 32 && (mask >> base & 1U) != 0 ? base : kNone;
  }
  Word left = offset > 0 ? static_cast<Word>(offset) : Word{0} - static_cast<Word>(offset);
  for (Word position = base; position < 32; position += offset > 0 ? 1U : ~0U) {
    left -= mask >> position & 1U;
    if (left == 0) {
      return position;
    }
  }
  return kNone;
});

// Extends the lowest bits of a by their sign or by zeros.
template <bool kIsClamped>
struct Extend {
  template <typename T>
  T operator()(T a, Word bits) const {
    if (kIsClamped && bits >= 32) {
      return a;
    }
    const Word count = bits & 31U;
    if (count == 0) {
      return 0;
    }
    return static_cast<T>(static_cast<T>(static_cast<Word>(a) << (32 - count)) >> (32 - count));
  }
};

template <bool kIsClamped>
struct MakeMask {
  Word operator()(Word first, Word count) const {
    if (kIsClamped && first >= 32) {
      return 0;
    }
    return low_bits<Word>(kIsClamped ? count : count & 31U) << (first & 31U);
  }
};

void decode_bfi(Decoder& decoder) {
  const Type type = decoder.take_type();
  if (type != Type::kB32 && type != Type::kB64) {
    decoder.fail("unsupported type");
  }
  decoder.add_operands(bits_of(type), {type, type, Type::kU32, Type::kU32});
  using Long = std::uint64_t;
  decoder.op().code = type == Type::kB32
                          ? &run_lane_wise<InsertField, Word, Word, Word, Word, Word>
                          : &run_lane_wise<InsertField, Long, Long, Long, Word, Word>;
}

// Returns the code of make<T>() for an integer type of 32 or 64 bits.
template <typename Make>
Code pick_long_integer(Decoder& decoder, Type type, Make&& make) {
  if (bits_of(type) < 32) {
    decoder.fail("unsupported type");
  }
  return pick_integer(decoder, type, [&]<typename T>() -> Code {
    if constexpr (sizeof(T) < 4) {
      return nullptr;
    } else {
      return make.template operator()<T>();
    }
  });
}

void decode_bfe(Decoder& decoder) {
  const Type type = decoder.take_type();
  decoder.add_operands(bits_of(type), {type, Type::kU32, Type::kU32});
  decoder.op().code = pick_long_integer(decoder, type, []<typename T>() -> Code {
    return &run_lane_wise<ExtractField, T, T, Word, Word>;
  });
}

void decode_bfind(Decoder& decoder) {
  const bool is_distance = decoder.take("shiftamt");
  const Type type = decoder.take_type();
  decoder.add_operands(32, {type});
  decoder.op().code = pick_long_integer(decoder, type, [&]<typename T>() -> Code {
    return is_distance ? &run_lane_wise<FindHighest<true>, Word, T>
                       : &run_lane_wise<FindHighest<false>, Word, T>;
  });
}

void decode_fns(Decoder& decoder) {
  decoder.require("b32");
  decoder.add_operands(32, {Type::kB32, Type::kB32, Type::kS32});
  decoder.op().code = &run_lane_wise<FindSetBit, Word, Word, Word, std::int32_t>;
}

bool take_clamp(Decoder& decoder) {
  return decoder.take_one_of({"clamp", "wrap"}) == "clamp";
}

void decode_szext(Decoder& decoder) {
  const bool is_clamped = take_clamp(decoder);
  const bool is_signed_type = decoder.take_one_of({"s32", "u32"}) == "s32";
  decoder.add_operands(32, {is_signed_type ? Type::kS32 : Type::kU32, Type::kU32});
  const auto code = [&]<typename T>() -> Code {
    return is_clamped ? &run_lane_wise<Extend<true>, T, T, Word>
                      : &run_lane_wise<Extend<false>, T, T, Word>;
  };
  decoder.op().code =
      is_signed_type ? code.template operator()<std::int32_t>() : code.template operator()<Word>();
}

void decode_bmsk(Decoder& decoder) {
  const bool is_clamped = take_clamp(decoder);
  decoder.require("b32");
  add_same_type(decoder, Type::kB32, 2);
  decoder.op().code = is_clamped ? &run_lane_wise<MakeMask<true>, Word, Word, Word>
                                 : &run_lane_wise<MakeMask<false>, Word, Word, Word>;
}

constexpr std::array kOperations = {
    Operation{"bfe", &decode_bfe},     Operation{"bfi", &decode_bfi},
    Operation{"bfind", &decode_bfind}, Operation{"fns", &decode_fns},
    Operation{"szext", &decode_szext}, Operation{"bmsk", &decode_bmsk},
};

}  // namespace

std::span<const Operation> bit_field_operations() {
  return kOperations;
}

}  // namespace emu
