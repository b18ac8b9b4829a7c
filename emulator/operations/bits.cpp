// Bit operations: and, or, xor, not, shl, shr, bfi, prmt, popc, clz, brev.
#include <array>
#include <bit>
#include <functional>

#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/operations.hpp"

namespace emu {
namespace {

// Shift by at least the width: all bits are shifted out.
using Shl = decltype([]<typename T>(T a, std::uint32_t distance) {
  return distance >= 8 * sizeof(T) ? T{0} : static_cast<T>(a << distance);
});
using Shr = decltype([]<typename T>(T a, std::uint32_t distance) {
  if (distance >= 8 * sizeof(T)) {
    return a < 0 ? static_cast<T>(-1) : T{0};
  }
  return static_cast<T>(a >> distance);
});

template <typename F>
void decode_shift(Decoder& decoder) {
  const Type type = decoder.take_type();
  decoder.add_operands(bits_of(type), {type, Type::kU32});
  decoder.op().code = pick_integer(
      decoder, type, []<typename T>() -> Code { return &run_lane_wise<F, T, T, std::uint32_t>; });
}

// Slots: the destination and one or two sources.
struct PredicateLogic {
  std::array<bool, 2> is_negated{};  // for each source
};

template <typename F, std::size_t kSources>
Outcome run_predicates(Warp& warp, const Op& op, Lanes lanes) {
  const auto& is_negated = op.get<PredicateLogic>().is_negated;
  const Lanes a = warp.read_predicate(op.slots[1], is_negated[0]);
  if constexpr (kSources == 1) {
    warp.write_predicate(op.slots[0], F{}(a), lanes, warp.valid(op.slots[1]));
  } else {
    const Lanes b = warp.read_predicate(op.slots[2], is_negated[1]);
    const Lanes all_a = a | ~warp.valid(op.slots[1]);
    const Lanes all_b = b | ~warp.valid(op.slots[2]);
    const Lanes known_a = a & warp.valid(op.slots[1]);
    const Lanes known_b = b & warp.valid(op.slots[2]);
    // A lane is initialised where its result is the same for either value of what is not.
    const Lanes low = F{}(known_a, known_b);
    const Lanes differs = (low ^ F{}(all_a, all_b)) | (low ^ F{}(known_a, all_b)) |
                          (low ^ F{}(all_a, known_b));
    warp.write_predicate(op.slots[0], F{}(a, b), lanes, ~differs);
  }
  return Outcome::kDone;
}

template <typename F, std::size_t kSources>
void decode_logic(Decoder& decoder) {
  const Type type = decoder.take_type();
  if (type == Type::kPred) {
    decoder.expect_operands(kSources + 1);
    decoder.add(decoder.destination(0, 1));
    PredicateLogic logic;
    for (std::size_t i = 0; i < kSources; ++i) {
      logic.is_negated.at(i) = decoder.add_predicate(i + 1);
    }
    decoder.op().details.set(logic);
    decoder.op().code = &run_predicates<F, kSources>;
    return;
  }
  add_same_type(decoder, type, kSources);
  decoder.op().code = pick_integer(decoder, type, []<typename T>() -> Code {
    if constexpr (kSources == 1) {
      return &run_lane_wise<F, T, T>;
    } else {
      return &run_lane_wise<F, T, T, T>;
    }
  });
}

// Inserts the lowest `count` bits of a into b, at bit `first`.
using InsertField =
    decltype([](std::uint32_t a, std::uint32_t b, std::uint32_t first, std::uint32_t count) {
      const std::uint32_t position = first & 0xFFU;
      const std::uint32_t bits = count & 0xFFU;
      const std::uint64_t field_mask = bits >= 32 ? 0xFFFFFFFFU : (std::uint64_t{1} << bits) - 1;
      const std::uint32_t mask =
          position >= 32 ? 0 : static_cast<std::uint32_t>(field_mask << position);
      const std::uint32_t shifted = position >= 32 ? 0 : a << position;
      return (b & ~mask) | (shifted & mask);
    });

// Selects four of the eight bytes in a and b. A selector's highest bit replicates the byte's sign.
using Permute = decltype([](std::uint32_t a, std::uint32_t b, std::uint32_t selectors) {
  const std::uint64_t bytes = std::uint64_t{b} << 32U | a;
  std::uint32_t result = 0;
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t selector = selectors >> (4 * i) & 0xFU;
    std::uint32_t byte = static_cast<std::uint32_t>(bytes >> (8 * (selector & 7U))) & 0xFFU;
    if ((selector & 8U) != 0) {
      byte = (byte & 0x80U) != 0 ? 0xFFU : 0;
    }
    result |= byte << (8 * i);
  }
  return result;
});

using CountOnes = decltype([](std::uint32_t a) { return std::popcount(a); });
using CountLeadingZeros = decltype([](std::uint32_t a) { return std::countl_zero(a); });
using ReverseBits = decltype([](std::uint32_t a) {
  std::uint32_t result = 0;
  for (int i = 0; i < 32; ++i) {
    result = result << 1U | (a & 1U);
    a >>= 1U;
  }
  return result;
});

// Decodes an instruction whose operands are all 32-bit words.
template <typename F, typename... Words>
void decode_words(Decoder& decoder) {
  decoder.require("b32");
  add_same_type(decoder, Type::kB32, sizeof...(Words));
  decoder.op().code = &run_lane_wise<F, std::uint32_t, Words...>;
}

using Word = std::uint32_t;
constexpr std::array kOperations = {
    Operation{"and", &decode_logic<std::bit_and<>, 2>},
    Operation{"or", &decode_logic<std::bit_or<>, 2>},
    Operation{"xor", &decode_logic<std::bit_xor<>, 2>},
    Operation{"not", &decode_logic<std::bit_not<>, 1>},
    Operation{"shl", &decode_shift<Shl>},
    Operation{"shr", &decode_shift<Shr>},
    Operation{"bfi", &decode_words<InsertField, Word, Word, Word, Word>},
    Operation{"prmt", &decode_words<Permute, Word, Word, Word>},
    Operation{"popc", &decode_words<CountOnes, Word>},
    Operation{"clz", &decode_words<CountLeadingZeros, Word>},
    Operation{"brev", &decode_words<ReverseBits, Word>},
};

}  // namespace

std::span<const Operation> bit_operations() {
  return kOperations;
}

}  // namespace emu
