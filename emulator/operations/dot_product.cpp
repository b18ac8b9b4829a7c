// Dot products of small integers in words: dp4a, dp2a.
#include <array>

#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/operations.hpp"

namespace emu {
namespace {

using Word = std::uint32_t;

// Part `index` of a word, whose parts have the size of T, as a word.
template <typename T>
Word part(Word word, unsigned index) {
  return static_cast<Word>(static_cast<T>(word >> (8 * sizeof(T) * index)));
}

// Products of A's parts with as many bytes B from byte kFirst on.
template <typename A, typename B, unsigned kFirst>
struct DotProduct {
  Word operator()(Word a, Word b, Word c) const {
    for (unsigned i = 0; i < sizeof(Word) / sizeof(A); ++i) {
      c += part<A>(a, i) * part<B>(b, kFirst + i);
    }
    return c;
  }
};

template <typename Signed, typename UnsignedPart, unsigned kFirst>
Code dot_product_code(bool is_a_signed, bool is_b_signed) {
  const auto code = [&]<typename A>() -> Code {
    return is_b_signed
               ? &run_lane_wise<DotProduct<A, std::int8_t, kFirst>, Word, Word, Word, Word>
               : &run_lane_wise<DotProduct<A, std::uint8_t, kFirst>, Word, Word, Word, Word>;
  };
  return is_a_signed ? code.template operator()<Signed>()
                     : code.template operator()<UnsignedPart>();
}

// Takes the type of an operand's parts; true if they are signed.
bool take_sign(Decoder& decoder) {
  const Type type = decoder.take_type();
  if (type != Type::kS32 && type != Type::kU32) {
    decoder.fail("unsupported type");
  }
  return type == Type::kS32;
}

void decode_dp4a(Decoder& decoder) {
  const bool is_a_signed = take_sign(decoder);
  const bool is_b_signed = take_sign(decoder);
  add_same_type(decoder, Type::kB32, 3);
  decoder.op().code = dot_product_code<std::int8_t, std::uint8_t, 0>(is_a_signed, is_b_signed);
}

void decode_dp2a(Decoder& decoder) {
  const bool is_low = decoder.take_one_of({"lo", "hi"}) == "lo";
  const bool is_a_signed = take_sign(decoder);
  const bool is_b_signed = take_sign(decoder);
  add_same_type(decoder, Type::kB32, 3);
  decoder.op().code =
      is_low ? dot_product_code<std::int16_t, std::uint16_t, 0>(is_a_signed, is_b_signed)
             : dot_product_code<std::int16_t, std::uint16_t, 2>(is_a_signed, is_b_signed);
}

constexpr std::array kOperations = {
    Operation{"dp4a", &decode_dp4a},
    Operation{"dp2a", &decode_dp2a},
};

}  // namespace

std::span<const Operation> dot_product_operations() {
  return kOperations;
}

}  // namespace emu
