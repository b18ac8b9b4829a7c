// Bit operations: and, or, xor, not, cnot, lop3, shl, shr, shf, prmt, popc, clz, brev.
#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <type_traits>
#include <utility>

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
    const Lanes differs =
        (low ^ F{}(all_a, all_b)) | (low ^ F{}(known_a, all_b)) | (low ^ F{}(all_a, known_b));
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

using IsZero = decltype([]<typename T>(T a) { return static_cast<T>(a == 0 ? 1 : 0); });

// Any function of three bits, which the table gives for each of their combinations. Slots: the
// destination, which may be kNoSlot, the sources, and if there are predicates, their source and
// their destination.
struct LookUp {
  std::uint8_t table = 0;
  enum class Combination : std::uint8_t { kNone, kOr, kAnd };
  Combination combination = Combination::kNone;
  bool is_negated = false;
};
constexpr std::size_t kLookUpPredicate = 4;
constexpr std::size_t kLookUpResult = 5;

Outcome run_lop3(Warp& warp, const Op& op, Lanes lanes) {
  const auto& [table, combination, is_negated] = op.get<LookUp>();
  const auto a = warp.read<std::uint32_t>(op.slots[1]);
  const auto b = warp.read<std::uint32_t>(op.slots[2]);
  const auto c = warp.read<std::uint32_t>(op.slots[3]);
  Lanes valid = warp.valid(op.slots[1]) & warp.valid(op.slots[2]) & warp.valid(op.slots[3]);
  Vec<std::uint32_t> results{};
  for (unsigned row = 0; row < 8; ++row) {
    if ((table >> row & 1U) == 0) {
      continue;
    }
    const std::uint32_t not_a = (row & 4U) != 0 ? 0 : ~0U;
    const std::uint32_t not_b = (row & 2U) != 0 ? 0 : ~0U;
    const std::uint32_t not_c = (row & 1U) != 0 ? 0 : ~0U;
    for (int i = 0; i < kLanes; ++i) {
      results.lanes[i] |= (a.lanes[i] ^ not_a) & (b.lanes[i] ^ not_b) & (c.lanes[i] ^ not_c);
    }
  }
  if (op.slots[0] != kNoSlot) {
    warp.write(op.slots[0], results, lanes, valid);
  }
  if (combination != LookUp::Combination::kNone) {
    Lanes is_any = 0;
    for (int i = 0; i < kLanes; ++i) {
      is_any |= static_cast<Lanes>(results.lanes[i] != 0) << static_cast<unsigned>(i);
    }
    const Lanes q = warp.read_predicate(op.slots[kLookUpPredicate], is_negated);
    valid &= warp.valid(op.slots[kLookUpPredicate]);
    warp.write_predicate(op.slots[kLookUpResult],
                         combination == LookUp::Combination::kOr ? is_any | q : is_any & q, lanes,
                         valid);
  }
  return Outcome::kDone;
}

void decode_lop3(Decoder& decoder) {
  LookUp look_up{.combination = decoder.take("or")    ? LookUp::Combination::kOr
                                : decoder.take("and") ? LookUp::Combination::kAnd
                                                      : LookUp::Combination::kNone};
  const bool has_predicate = look_up.combination != LookUp::Combination::kNone;
  decoder.require("b32");
  decoder.expect_operands(has_predicate ? 6 : 5);
  const syntax::Operand& result = decoder.operand(0);
  if (has_predicate && result.kind != syntax::OperandKind::kPair) {
    decoder.fail("expected a register and a predicate for the results");
  }
  const syntax::Operand& word = has_predicate ? result.parts[0] : result;
  const bool is_dropped = has_predicate && word.kind == syntax::OperandKind::kSink;
  decoder.add(is_dropped ? kNoSlot : decoder.destination(word, 32));
  for (std::size_t i = 1; i <= 3; ++i) {
    decoder.add(decoder.source(i, Type::kB32));
  }
  look_up.table = decoder.small_immediate(4);
  if (has_predicate) {
    look_up.is_negated = decoder.add_predicate(5);
    decoder.add(decoder.destination(result.parts[1], 1));
  }
  decoder.op().details.set(look_up);
  decoder.op().code = &run_lop3;
}

// Shifts of the words b and a as one number: the upper word of a shift to the left, the lower word
// of one to the right.
template <bool kIsLeft, bool kIsClamped>
struct FunnelShift {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b, std::uint32_t distance) const {
    const std::uint64_t words = std::uint64_t{b} << 32U | a;
    const std::uint32_t n = kIsClamped ? std::min(distance, 32U) : distance & 31U;
    return static_cast<std::uint32_t>(kIsLeft ? words << n >> 32U : words >> n);
  }
};

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

// Modes of prmt have a selector for each value of the lowest two bits of c.
struct PermuteMode {
  std::string_view name;
  std::array<std::uint16_t, 4> selectors;
};
constexpr std::array<PermuteMode, 6> kPermuteModes = {{
    {"f4e", {0x3210, 0x4321, 0x5432, 0x6543}},
    {"b4e", {0x5670, 0x6701, 0x7012, 0x0123}},
    {"rc8", {0x0000, 0x1111, 0x2222, 0x3333}},
    {"ecl", {0x3210, 0x3211, 0x3222, 0x3333}},
    {"ecr", {0x0000, 0x1110, 0x2210, 0x3210}},
    {"rc16", {0x1010, 0x3232, 0x1010, 0x3232}},
}};
template <std::size_t kMode>
struct PermuteByMode {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b, std::uint32_t c) const {
    return Permute{}(a, b, kPermuteModes[kMode].selectors[c & 3U]);
  }
};

using CountOnes = decltype([](auto a) { return std::popcount(a); });
using CountLeadingZeros = decltype([](auto a) { return std::countl_zero(a); });
using ReverseBits = decltype([]<typename T>(T a) {
  T result = 0;
  for (std::size_t i = 0; i < 8 * sizeof(T); ++i) {
    result = static_cast<T>(result << 1U | (a & 1U));
    a >>= 1U;
  }
  return result;
});

using Word = std::uint32_t;
using LongWord = std::uint64_t;

void add_words(Decoder& decoder, std::size_t sources, Code code) {
  decoder.require("b32");
  add_same_type(decoder, Type::kB32, sources);
  decoder.op().code = code;
}

void decode_shf(Decoder& decoder) {
  const bool is_left = decoder.take_one_of({"l", "r"}) == "l";
  const bool is_clamped = decoder.take_one_of({"clamp", "wrap"}) == "clamp";
  const auto code = [&]<bool kIsLeft>() -> Code {
    return is_clamped ? &run_lane_wise<FunnelShift<kIsLeft, true>, Word, Word, Word, Word>
                      : &run_lane_wise<FunnelShift<kIsLeft, false>, Word, Word, Word, Word>;
  };
  add_words(decoder, 3,
            is_left ? code.template operator()<true>() : code.template operator()<false>());
}

void decode_prmt(Decoder& decoder) {
  Code code = &run_lane_wise<Permute, Word, Word, Word, Word>;
  [&]<std::size_t... kModes>(std::index_sequence<kModes...>) {
    ((decoder.take(kPermuteModes[kModes].name)
          ? void(code = &run_lane_wise<PermuteByMode<kModes>, Word, Word, Word, Word>)
          : void()),
     ...);
  }(std::make_index_sequence<kPermuteModes.size()>());
  add_words(decoder, 3, code);
}

// Decodes an instruction with one source, whose result is a word, or has the source's size.
template <typename F, bool kResultIsWord>
void decode_count(Decoder& decoder) {
  const Type type = decoder.take_type();
  if (type != Type::kB32 && type != Type::kB64) {
    decoder.fail("unsupported type");
  }
  decoder.add_operands(kResultIsWord ? 32 : bits_of(type), {type});
  decoder.op().code =
      type == Type::kB32
          ? &run_lane_wise<F, Word, Word>
          : &run_lane_wise<F, std::conditional_t<kResultIsWord, Word, LongWord>, LongWord>;
}

void decode_cnot(Decoder& decoder) {
  const Type type = decoder.take_type();
  add_same_type(decoder, type, 1);
  decoder.op().code = pick_integer(
      decoder, type, []<typename T>() -> Code { return &run_lane_wise<IsZero, T, T>; });
}

constexpr std::array kOperations = {
    Operation{"and", &decode_logic<std::bit_and<>, 2>},
    Operation{"or", &decode_logic<std::bit_or<>, 2>},
    Operation{"xor", &decode_logic<std::bit_xor<>, 2>},
    Operation{"not", &decode_logic<std::bit_not<>, 1>},
    Operation{"cnot", &decode_cnot},
    Operation{"lop3", &decode_lop3},
    Operation{"shl", &decode_shift<Shl>},
    Operation{"shr", &decode_shift<Shr>},
    Operation{"shf", &decode_shf},
    Operation{"prmt", &decode_prmt},
    Operation{"popc", &decode_count<CountOnes, true>},
    Operation{"clz", &decode_count<CountLeadingZeros, true>},
    Operation{"brev", &decode_count<ReverseBits, false>},
};

}  // namespace

std::span<const Operation> bit_operations() {
  return kOperations;
}

}  // namespace emu
