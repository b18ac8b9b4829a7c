// Values moved and chosen: mov, selp, setp.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "emulator/machine/block.hpp"
#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/operations.hpp"

namespace emu {
namespace {

struct Same {
  template <typename T>
  T operator()(T a) const {
    return a;
  }
};

// A predicate among the operands: of mov the source, of selp what chooses.
struct PredicateOperand {
  bool is_negated = false;
};

Lanes read_predicate(const Warp& warp, Slot slot, bool is_negated) {
  return warp.read_predicate(slot) ^ (is_negated ? kAllLanes : 0);
}

// Slots: the destination, the source.
Outcome run_move_predicate(Warp& warp, const Op& op, Lanes lanes) {
  const Lanes a = read_predicate(warp, op.slots[1], op.get<PredicateOperand>().is_negated);
  warp.write_predicate(op.slots[0], a, lanes, warp.valid(op.slots[1]));
  return Outcome::kDone;
}

// list: destinations of a part of the source each, the lowest part first; kNoSlot for those that
// nobody wants.
template <typename Whole, typename Part>
Outcome run_take_apart(Warp& warp, const Op& op, Lanes lanes) {
  const auto whole = warp.read<Whole>(op.slots[0]);
  for (std::size_t part = 0; part < op.list.size(); ++part) {
    if (op.list[part] == kNoSlot) {
      continue;
    }
    Vec<Part> d;
    for (int i = 0; i < kLanes; ++i) {
      d.lanes[i] = static_cast<Part>(whole.lanes[i] >> (8 * sizeof(Part) * part));
    }
    warp.write(op.list[part], d, lanes, warp.valid(op.slots[0]));
  }
  return Outcome::kDone;
}

template <typename Whole, typename Part>
Outcome run_put_together(Warp& warp, const Op& op, Lanes lanes) {
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
  return Outcome::kDone;
}

// {a, b} on one side.
void decode_move_of_parts(Decoder& decoder, Type type) {
  const bool is_apart = decoder.operand(0).kind == syntax::OperandKind::kVector;
  const syntax::Operand& whole = decoder.operand(is_apart ? 1 : 0);
  const syntax::Operand& parts = decoder.operand(is_apart ? 0 : 1);
  const auto count = static_cast<int>(parts.parts.size());
  const int bits = bits_of(type) / count;
  const Type part_type = bits == 16 ? Type::kB16 : Type::kB32;
  if (bits != bits_of(part_type)) {
    decoder.fail("unsupported size of parts");
  }
  decoder.add(is_apart ? decoder.source(whole, type) : decoder.destination(whole, bits_of(type)));
  for (const syntax::Operand& part : parts.parts) {
    if (part.kind == syntax::OperandKind::kSink) {
      decoder.op().list.push_back(kNoSlot);
    } else {
      decoder.op().list.push_back(is_apart ? decoder.destination(part, bits)
                                           : decoder.source(part, part_type));
    }
  }
  Code& code = decoder.op().code;
  if (bits_of(type) == 32) {
    code = is_apart ? &run_take_apart<std::uint32_t, std::uint16_t>
                    : &run_put_together<std::uint32_t, std::uint16_t>;
  } else if (bits == 16) {
    code = is_apart ? &run_take_apart<std::uint64_t, std::uint16_t>
                    : &run_put_together<std::uint64_t, std::uint16_t>;
  } else {
    code = is_apart ? &run_take_apart<std::uint64_t, std::uint32_t>
                    : &run_put_together<std::uint64_t, std::uint32_t>;
  }
}

Code move_of(Decoder& decoder, int bits) {
  switch (bits) {
    case 16:
      return &run_unary<std::uint16_t, std::uint16_t, Same>;
    case 32:
      return &run_unary<std::uint32_t, std::uint32_t, Same>;
    case 64:
      return &run_unary<std::uint64_t, std::uint64_t, Same>;
    default:
      decoder.fail("unsupported type");
  }
}

// A clock that all warps of the grid read, and that goes on from one reading to the next.
template <typename T>
Outcome run_clock(Warp& warp, const Op& op, Lanes lanes) {
  Grid& grid = warp.block().grid();
  grid.clock += 1 + grid.random() % 64;
  Vec<T> d;
  std::ranges::fill(d.lanes, static_cast<T>(grid.clock));
  warp.write(op.slots[0], d, lanes, kAllLanes);
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
      decoder.fail(fmt::format("{} has {} bits", decoder.operand(1).name, bits));
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
    decode_move_of_parts(decoder, type);
    return;
  }
  add_alike(decoder, type, 1);
  decoder.op().code = move_of(decoder, bits_of(type));
}

// The first where the predicate holds, the second elsewhere.
template <typename T>
Outcome run_selp(Warp& warp, const Op& op, Lanes lanes) {
  const auto a = warp.read<T>(op.slots[1]);
  const auto b = warp.read<T>(op.slots[2]);
  const Lanes chosen = read_predicate(warp, op.slots[3], op.get<PredicateOperand>().is_negated);
  Vec<T> d;
  for (int i = 0; i < kLanes; ++i) {
    d.lanes[i] = (chosen >> static_cast<unsigned>(i) & 1U) != 0 ? a.lanes[i] : b.lanes[i];
  }
  const Lanes valid = (chosen & warp.valid(op.slots[1])) | (~chosen & warp.valid(op.slots[2]));
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
  switch (bits_of(type)) {
    case 16:
      decoder.op().code = &run_selp<std::uint16_t>;
      break;
    case 32:
      decoder.op().code = &run_selp<std::uint32_t>;
      break;
    case 64:
      decoder.op().code = &run_selp<std::uint64_t>;
      break;
    default:
      decoder.fail("unsupported type");
  }
}

// Comparisons. Those of floats hold for numbers alone; those with a U hold for NaN, too.
enum class Comparison : std::uint8_t {
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kEqu,
  kNeu,
  kLtu,
  kLeu,
  kGtu,
  kGeu,
  kNum,
  kNan,
};
constexpr std::array<std::string_view, 14> kComparisons = {
    "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};

template <Comparison kComparison, typename T>
bool holds(T a, T b) {
  const bool is_ordered = a == a && b == b;
  switch (kComparison) {
    case Comparison::kEq:
      return a == b;
    case Comparison::kNe:
      return is_ordered && a != b;
    case Comparison::kLt:
      return a < b;
    case Comparison::kLe:
      return a <= b;
    case Comparison::kGt:
      return a > b;
    case Comparison::kGe:
      return a >= b;
    case Comparison::kEqu:
      return !is_ordered || a == b;
    case Comparison::kNeu:
      return a != b;
    case Comparison::kLtu:
      return !is_ordered || a < b;
    case Comparison::kLeu:
      return !is_ordered || a <= b;
    case Comparison::kGtu:
      return !is_ordered || a > b;
    case Comparison::kGeu:
      return !is_ordered || a >= b;
    case Comparison::kNum:
      return is_ordered;
    case Comparison::kNan:
      return !is_ordered;
  }
}

enum class Combination : std::uint8_t { kNone, kAnd, kOr, kXor };

// Slots: the destination, the two sources, and the predicate that the result is combined with.
struct SetPredicate {
  Combination combination = Combination::kNone;
  bool is_negated = false;  // of the predicate
};

template <Comparison kComparison, typename T>
Outcome run_setp(Warp& warp, const Op& op, Lanes lanes) {
  const auto a = warp.read<T>(op.slots[1]);
  const auto b = warp.read<T>(op.slots[2]);
  Lanes result = 0;
  for (int i = 0; i < kLanes; ++i) {
    result |= static_cast<Lanes>(holds<kComparison>(a.lanes[i], b.lanes[i]))
              << static_cast<unsigned>(i);
  }
  Lanes valid = warp.valid(op.slots[1]) & warp.valid(op.slots[2]);
  const auto& [combination, is_negated] = op.get<SetPredicate>();
  if (combination != Combination::kNone) {
    const Lanes c = read_predicate(warp, op.slots[3], is_negated);
    result = combination == Combination::kAnd  ? result & c
             : combination == Combination::kOr ? result | c
                                               : result ^ c;
    valid &= warp.valid(op.slots[3]);
  }
  warp.write_predicate(op.slots[0], result, lanes, valid);
  return Outcome::kDone;
}

template <typename T>
Code comparison_code(Decoder& decoder, Comparison comparison) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (comparison) {
      case Comparison::kEqu:
        return &run_setp<Comparison::kEqu, T>;
      case Comparison::kNeu:
        return &run_setp<Comparison::kNeu, T>;
      case Comparison::kLtu:
        return &run_setp<Comparison::kLtu, T>;
      case Comparison::kLeu:
        return &run_setp<Comparison::kLeu, T>;
      case Comparison::kGtu:
        return &run_setp<Comparison::kGtu, T>;
      case Comparison::kGeu:
        return &run_setp<Comparison::kGeu, T>;
      case Comparison::kNum:
        return &run_setp<Comparison::kNum, T>;
      case Comparison::kNan:
        return &run_setp<Comparison::kNan, T>;
      default:
        break;
    }
  }
  switch (comparison) {
    case Comparison::kEq:
      return &run_setp<Comparison::kEq, T>;
    case Comparison::kNe:
      return &run_setp<Comparison::kNe, T>;
    case Comparison::kLt:
      return &run_setp<Comparison::kLt, T>;
    case Comparison::kLe:
      return &run_setp<Comparison::kLe, T>;
    case Comparison::kGt:
      return &run_setp<Comparison::kGt, T>;
    case Comparison::kGe:
      return &run_setp<Comparison::kGe, T>;
    default:
      decoder.fail("a comparison of floats");
  }
}

void decode_setp(Decoder& decoder) {
  std::size_t comparison = 0;
  while (comparison < kComparisons.size() && !decoder.take(kComparisons.at(comparison))) {
    ++comparison;
  }
  if (comparison == kComparisons.size()) {
    decoder.fail("unsupported comparison");
  }
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
  const auto how = static_cast<Comparison>(comparison);
  if (type == Type::kF32) {
    decoder.op().code = comparison_code<float>(decoder, how);
  } else {
    decoder.op().code = pick_integer(
        decoder, type, [&]<typename T>() -> Code { return comparison_code<T>(decoder, how); });
  }
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
