// Moves and selection of values: mov, selp, setp.
#include <algorithm>
#include <array>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "emulator/machine/block.hpp"
#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/operations.hpp"

namespace emu {
namespace {

// Predicate operand: the source of mov, or the selector of selp.
struct PredicateOperand {
  bool is_negated = false;
};

// Slots: the destination, the source.
Outcome run_move_predicate(Warp& warp, const Op& op, Lanes lanes) {
  const Lanes a = warp.read_predicate(op.slots[1], op.get<PredicateOperand>().is_negated);
  warp.write_predicate(op.slots[0], a, lanes, warp.valid(op.slots[1]));
  return Outcome::kDone;
}

// Returns those of the lanes, whose value is not initialised as a whole, of which this part is.
template <typename Whole, typename Part>
Lanes lanes_with_part(const Warp& warp, Slot slot, const Vec<Whole>& whole, Lanes lanes,
                      std::size_t part) {
  Lanes valid = 0;
  const std::uint64_t mask = std::uint64_t{static_cast<Part>(~Part{0})}
                             << 8 * sizeof(Part) * part;
  for_each_lane(lanes, [&](int lane) {
    const std::uint64_t bits = warp.partial_values.written_bits(slot, lane, whole.lanes[lane]);
    valid |= (bits & mask) == mask ? lane_bit(lane) : 0;
  });
  return valid;
}

// Slots: the source. `list`: a destination for each part of it, lowest part first; kNoSlot if the
// part is discarded.
template <typename Whole, typename Part>
Outcome run_unpack(Warp& warp, const Op& op, Lanes lanes) {
  const auto whole = warp.read<Whole>(op.slots[0]);
  const Lanes valid = warp.valid(op.slots[0]);
  for (std::size_t part = 0; part < op.list.size(); ++part) {
    if (op.list[part] == kNoSlot) {
      continue;
    }
    Vec<Part> d;
    for (int i = 0; i < kLanes; ++i) {
      d.lanes[i] = static_cast<Part>(whole.lanes[i] >> (8 * sizeof(Part) * part));
    }
    warp.write(op.list[part], d, lanes,
               valid | lanes_with_part<Whole, Part>(warp, op.slots[0], whole, lanes & ~valid, part));
  }
  return Outcome::kDone;
}

template <typename Whole, typename Part>
Outcome run_pack(Warp& warp, const Op& op, Lanes lanes) {
  Vec<Whole> whole{};
  Lanes valid = kAllLanes;
  for (std::size_t part = 0; part < op.list.size(); ++part) {
    const auto a = warp.read<Part>(op.list[part]);
    valid &= warp.valid(op.list[part]);
    for (int i = 0; i < kLanes; ++i) {
      whole.lanes[i] |=
          static_cast<Whole>(static_cast<Whole>(a.lanes[i]) << (8 * sizeof(Part) * part));
    }
  }
  warp.write(op.slots[0], whole, lanes, valid);
  for_each_lane(lanes & ~valid, [&](int lane) {
    std::uint64_t bits = 0;
    for (std::size_t part = 0; part < op.list.size(); ++part) {
      const std::uint64_t mask = std::uint64_t{static_cast<Part>(~Part{0})}
                                 << 8 * sizeof(Part) * part;
      bits |= (warp.valid(op.list[part]) & lane_bit(lane)) != 0 ? mask : 0;
    }
    warp.partial_values.keep(op.slots[0], lane, whole.lanes[lane], bits);
  });
  return Outcome::kDone;
}

// Decodes a mov with {a, b, ...} as its source or its destination.
void decode_vector_move(Decoder& decoder, Type type) {
  const bool is_unpack = decoder.operand(0).kind == syntax::OperandKind::kVector;
  const syntax::Operand& whole = decoder.operand(is_unpack ? 1 : 0);
  const syntax::Operand& parts = decoder.operand(is_unpack ? 0 : 1);
  const auto count = static_cast<int>(parts.parts.size());
  const int bits = bits_of(type) / count;
  const Type part_type = bit_type(bits);
  if (part_type != Type::kB16 && part_type != Type::kB32) {
    decoder.fail("unsupported size of vector elements");
  }
  decoder.add(is_unpack ? decoder.source(whole, type) : decoder.destination(whole, bits_of(type)));
  for (const syntax::Operand& part : parts.parts) {
    if (part.kind == syntax::OperandKind::kSink) {
      decoder.op().list.push_back(kNoSlot);
    } else {
      decoder.op().list.push_back(is_unpack ? decoder.destination(part, bits)
                                            : decoder.source(part, part_type));
    }
  }
  Code& code = decoder.op().code;
  if (bits_of(type) == 32) {
    code = is_unpack ? &run_unpack<std::uint32_t, std::uint16_t>
                     : &run_pack<std::uint32_t, std::uint16_t>;
  } else if (bits == 16) {
    code = is_unpack ? &run_unpack<std::uint64_t, std::uint16_t>
                     : &run_pack<std::uint64_t, std::uint16_t>;
  } else {
    code = is_unpack ? &run_unpack<std::uint64_t, std::uint32_t>
                     : &run_pack<std::uint64_t, std::uint32_t>;
  }
}

// Reads the clock that the warps of the grid share, and that advances at each read.
template <typename T>
Outcome run_clock(Warp& warp, const Op& op, Lanes lanes) {
  Grid& grid = warp.block().grid();
  grid.clock += 1 + grid.random() % 64;
  warp.fill(op.slots[0], static_cast<T>(grid.clock), lanes);
  return Outcome::kDone;
}

bool is_clock(const syntax::Operand& operand) {
  return operand.kind == syntax::OperandKind::kSpecial &&
         (operand.name == "%clock64" || operand.name == "%clock" || operand.name == "%globaltimer");
}

void decode_mov(Decoder& decoder) {
  const Type type = decoder.take_type();
  decoder.expect_operands(2);
  if (is_clock(decoder.operand(1))) {
    const int bits = decoder.operand(1).name == "%clock" ? 32 : 64;
    if (bits_of(type) != bits || is_float(type)) {
      decoder.fail(
          fmt::format("{} must be read into a register of {} bits", decoder.operand(1).name, bits));
    }
    decoder.add(decoder.destination(0, bits));
    decoder.op().code = bits == 32 ? &run_clock<std::uint32_t> : &run_clock<std::uint64_t>;
    return;
  }
  if (type == Type::kPred) {
    decoder.add(decoder.destination(0, 1));
    decoder.op().details.set(PredicateOperand{.is_negated = decoder.add_predicate(1)});
    decoder.op().code = &run_move_predicate;
    return;
  }
  if (decoder.operand(0).kind == syntax::OperandKind::kVector ||
      decoder.operand(1).kind == syntax::OperandKind::kVector) {
    decode_vector_move(decoder, type);
    return;
  }
  add_same_type(decoder, type, 1);
  decoder.op().code = pick_integer(decoder, bit_type(bits_of(type)), []<typename T>() -> Code {
    return &run_lane_wise<std::identity, T, T>;
  });
}

// Selects the first source where the predicate holds, and the second elsewhere.
template <typename T>
Outcome run_selp(Warp& warp, const Op& op, Lanes lanes) {
  const auto a = warp.read<T>(op.slots[1]);
  const auto b = warp.read<T>(op.slots[2]);
  const Lanes selection = warp.read_predicate(op.slots[3], op.get<PredicateOperand>().is_negated);
  Vec<T> d;
  for (int i = 0; i < kLanes; ++i) {
    d.lanes[i] = (selection >> static_cast<unsigned>(i) & 1U) != 0 ? a.lanes[i] : b.lanes[i];
  }
  const Lanes valid =
      (selection & warp.valid(op.slots[1])) | (~selection & warp.valid(op.slots[2]));
  warp.write(op.slots[0], d, lanes, valid & warp.valid(op.slots[3]));
  return Outcome::kDone;
}

void decode_selp(Decoder& decoder) {
  const Type type = decoder.take_type();
  decoder.expect_operands(4);
  decoder.add(decoder.destination(0, bits_of(type)));
  decoder.add(decoder.source(1, type));
  decoder.add(decoder.source(2, type));
  decoder.op().details.set(PredicateOperand{.is_negated = decoder.add_predicate(3)});
  decoder.op().code = pick_integer(decoder, bit_type(bits_of(type)),
                                   []<typename T>() -> Code { return &run_selp<T>; });
}

// Comparisons: first the ordered ones, which are false for NaN; then the unordered ones, which are
// true for NaN; then num and nan. Integers have the first six.
constexpr std::array<std::string_view, 14> kComparisons = {
    "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
constexpr std::size_t kRelationCount = 6;
constexpr std::size_t kNumComparison = 12;

template <std::size_t kComparison, typename T>
bool compares(T a, T b) {
  const bool is_ordered = a == a && b == b;
  if constexpr (kComparison >= kNumComparison) {
    return is_ordered == (kComparison == kNumComparison);
  } else {
    using Relations = std::tuple<std::equal_to<>, std::not_equal_to<>, std::less<>,
                                 std::less_equal<>, std::greater<>, std::greater_equal<>>;
    const bool has_relation = std::tuple_element_t<kComparison % kRelationCount, Relations>{}(a, b);
    return kComparison < kRelationCount ? is_ordered && has_relation : !is_ordered || has_relation;
  }
}

enum class Combination : std::uint8_t { kNone, kAnd, kOr, kXor };

// Slots: the destination, the two sources, and the predicate that the result is combined with.
struct SetPredicate {
  Combination combination = Combination::kNone;
  bool is_negated = false;  // the predicate is negated
};

template <std::size_t kComparison, typename T>
Outcome run_setp(Warp& warp, const Op& op, Lanes lanes) {
  const auto a = warp.read<T>(op.slots[1]);
  const auto b = warp.read<T>(op.slots[2]);
  Lanes result = 0;
  for (int i = 0; i < kLanes; ++i) {
    result |= static_cast<Lanes>(compares<kComparison>(a.lanes[i], b.lanes[i]))
              << static_cast<unsigned>(i);
  }
  Lanes valid = warp.valid(op.slots[1]) & warp.valid(op.slots[2]);
  const auto& [combination, is_negated] = op.get<SetPredicate>();
  if (combination != Combination::kNone) {
    const Lanes c = warp.read_predicate(op.slots[3], is_negated);
    result = combination == Combination::kAnd  ? result & c
             : combination == Combination::kOr ? result | c
                                               : result ^ c;
    valid &= warp.valid(op.slots[3]);
  }
  warp.write_predicate(op.slots[0], result, lanes, valid);
  return Outcome::kDone;
}

template <typename T>
Code comparison_code(Decoder& decoder, std::size_t comparison) {
  constexpr std::size_t kCount = std::is_floating_point_v<T> ? kComparisons.size() : kRelationCount;
  constexpr auto kCodes = []<std::size_t... kNumbers>(std::index_sequence<kNumbers...>) {
    return std::array<Code, kCount>{&run_setp<kNumbers, T>...};
  }(std::make_index_sequence<kCount>{});
  if (comparison >= kCount) {
    decoder.fail("unsupported comparison of integers");
  }
  return kCodes.at(comparison);
}

void decode_setp(Decoder& decoder) {
  const std::size_t comparison = decoder.take_index_of(kComparisons);
  SetPredicate details{.combination = decoder.take("and")   ? Combination::kAnd
                                      : decoder.take("or")  ? Combination::kOr
                                      : decoder.take("xor") ? Combination::kXor
                                                            : Combination::kNone};
  const bool is_combined = details.combination != Combination::kNone;
  const Type type = decoder.take_type();
  decoder.expect_operands(is_combined ? 4 : 3);
  decoder.add(decoder.destination(0, 1));
  decoder.add(decoder.source(1, type));
  decoder.add(decoder.source(2, type));
  details.is_negated = is_combined && decoder.add_predicate(3);
  decoder.op().details.set(details);
  const auto pick = [&]<typename T>() { return comparison_code<T>(decoder, comparison); };
  decoder.op().code =
      type == Type::kF32 ? pick.template operator()<float>() : pick_integer(decoder, type, pick);
}

constexpr std::array kOperations = {
    Operation{"mov", &decode_mov},
    Operation{"selp", &decode_selp},
    Operation{"setp", &decode_setp},
};

}  // namespace

std::span<const Operation> data_operations() {
  return kOperations;
}

}  // namespace emu
