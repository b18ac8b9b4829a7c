// Comparison and selection: setp, set, selp, slct.
#include <algorithm>
#include <array>
#include <functional>
#include <type_traits>

#include "emulator/operations/floating.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/registers.hpp"

namespace emu {
namespace {

enum class Relation : std::uint8_t { kEqual, kLess, kLessOrEqual, kDiffers, kOrdered };

// A comparison is a relation between its operands, maybe swapped, or the opposite of one. So those
// that hold for NaN, as .ltu, are opposites of those that do not, as .ge.
struct Comparison {
  std::string_view name;
  Relation relation{};
  bool is_swapped = false;
  bool is_opposite = false;
};
constexpr std::array<Comparison, 18> kComparisons = {{
    {"eq", Relation::kEqual},
    {"ne", Relation::kDiffers},
    {"lt", Relation::kLess},
    {"le", Relation::kLessOrEqual},
    {"gt", Relation::kLess, true},
    {"ge", Relation::kLessOrEqual, true},
    {"lo", Relation::kLess},
    {"ls", Relation::kLessOrEqual},
    {"hi", Relation::kLess, true},
    {"hs", Relation::kLessOrEqual, true},
    {"equ", Relation::kDiffers, false, true},
    {"neu", Relation::kEqual, false, true},
    {"ltu", Relation::kLessOrEqual, true, true},
    {"leu", Relation::kLess, true, true},
    {"gtu", Relation::kLessOrEqual, false, true},
    {"geu", Relation::kLess, false, true},
    {"num", Relation::kOrdered},
    {"nan", Relation::kOrdered, false, true},
}};
constexpr std::ptrdiff_t kSignedNames = 6;     // names from here on are of unsigned integers alone,
constexpr std::ptrdiff_t kUnsignedNames = 10;  // and from here on of floats

// False for NaN.
template <Relation kRelation, typename T>
bool holds(T a, T b) {
  switch (kRelation) {
    case Relation::kEqual:
      return a == b;
    case Relation::kLess:
      return a < b;
    case Relation::kLessOrEqual:
      return a <= b;
    case Relation::kDiffers:
      return a < b || a > b;
    case Relation::kOrdered:
      return a == a && b == b;
  }
}

template <Relation kRelation, typename T>
Lanes holding_lanes(const Vec<T>& a, const Vec<T>& b) {
  Lanes result = 0;
  for (int i = 0; i < kLanes; ++i) {
    result |= static_cast<Lanes>(holds<kRelation>(a.lanes[i], b.lanes[i]))
              << static_cast<unsigned>(i);
  }
  return result;
}

enum class Combination : std::uint8_t { kNone, kAnd, kOr, kXor };

// Slots: the destination, the operands of the relation, the predicate that the result is combined
// with, and the second destination of setp.
struct Test {
  Lanes inverted = 0;  // ones for the opposite of the relation
  Combination combination = Combination::kNone;
  bool is_negated = false;  // the predicate is negated

  [[nodiscard]] Lanes combine(const Warp& warp, const Op& op, Lanes result) const {
    if (combination == Combination::kNone) {
      return result;
    }
    const Lanes c = warp.read_predicate(op.slots[3], is_negated);
    return combination == Combination::kAnd  ? result & c
           : combination == Combination::kOr ? result | c
                                             : result ^ c;
  }
  // Lanes whose result is initialised. `holds` says whether the relation does, before it is
  // combined: where either of the two decides alone, the other one need not be initialised.
  [[nodiscard]] Lanes valid(const Warp& warp, const Op& op, Lanes holds) const {
    const Lanes compared = warp.valid(op.slots[1]) & warp.valid(op.slots[2]);
    if (combination == Combination::kNone) {
      return compared;
    }
    const Lanes c = warp.read_predicate(op.slots[3], is_negated);
    const Lanes combined = warp.valid(op.slots[3]);
    const Lanes decides = combination == Combination::kAnd  ? (compared & ~holds) | (combined & ~c)
                          : combination == Combination::kOr ? (compared & holds) | (combined & c)
                                                            : 0;
    return (compared & combined) | decides;
  }
};
constexpr std::size_t kSecondDestination = 4;

template <Relation kRelation, typename T>
Outcome run_setp(Warp& warp, const Op& op, Lanes lanes) {
  const auto& test = op.get<Test>();
  const Lanes result =
      holding_lanes<kRelation>(warp.read<T>(op.slots[1]), warp.read<T>(op.slots[2])) ^
      test.inverted;
  warp.write_predicate(op.slots[0], test.combine(warp, op, result), lanes,
                       test.valid(warp, op, result));
  return Outcome::kDone;
}

// Test of every type and form, which looks up at run time what run_setp knows at compile time.
struct GeneralTest {
  Test test{};
  Type type{};
  Relation relation{};
  FloatElements elements{};       // of a float type
  bool flushes = false;           // .ftz
  std::uint64_t true_value = 0;   // set: each element's result
  std::uint8_t element_bits = 0;  // set: place of the second element's result
  std::uint8_t result_bits = 0;   // set: of the destination
};

template <typename T>
Lanes holding_lanes(Relation relation, const Vec<T>& a, const Vec<T>& b) {
  switch (relation) {
    case Relation::kEqual:
      return holding_lanes<Relation::kEqual>(a, b);
    case Relation::kLess:
      return holding_lanes<Relation::kLess>(a, b);
    case Relation::kLessOrEqual:
      return holding_lanes<Relation::kLessOrEqual>(a, b);
    case Relation::kDiffers:
      return holding_lanes<Relation::kDiffers>(a, b);
    case Relation::kOrdered:
      return holding_lanes<Relation::kOrdered>(a, b);
  }
  return 0;
}

// Reads an element of floats of up to 32 bits.
Vec<float> read_floats(const Warp& warp, Slot slot, const GeneralTest& test, int element) {
  const auto& [format, count] = test.elements;
  const auto bits = read_bits(warp, slot, format.bits() * count);
  Vec<float> values;
  for (int i = 0; i < kLanes; ++i) {
    const std::uint64_t element_bits = bits.lanes[i] >> (element * format.bits());
    const std::uint64_t number = test.flushes ? format.flush(element_bits) : element_bits;
    values.lanes[i] = format == kF16    ? f16_value(static_cast<std::uint16_t>(number))
                      : format == kBF16 ? bf16_value(static_cast<std::uint16_t>(number))
                                        : std::bit_cast<float>(static_cast<std::uint32_t>(number));
  }
  return values;
}

Lanes run_relation(const Warp& warp, const Op& op, const GeneralTest& test, int element) {
  const auto of_type = [&]<typename T>() {
    return holding_lanes(test.relation, warp.read<T>(op.slots[1]), warp.read<T>(op.slots[2]));
  };
  switch (test.type) {
    case Type::kB16:
    case Type::kU16:
      return of_type.template operator()<std::uint16_t>();
    case Type::kS16:
      return of_type.template operator()<std::int16_t>();
    case Type::kB32:
    case Type::kU32:
      return of_type.template operator()<std::uint32_t>();
    case Type::kS32:
      return of_type.template operator()<std::int32_t>();
    case Type::kB64:
    case Type::kU64:
      return of_type.template operator()<std::uint64_t>();
    case Type::kS64:
      return of_type.template operator()<std::int64_t>();
    case Type::kF64:
      return of_type.template operator()<double>();
    default:
      return holding_lanes(test.relation, read_floats(warp, op.slots[1], test, element),
                           read_floats(warp, op.slots[2], test, element));
  }
}

// A second destination is given the opposite, or of a pair the result of its upper half.
Outcome run_general_setp(Warp& warp, const Op& op, Lanes lanes) {
  const auto& general = op.get<GeneralTest>();
  const Test& test = general.test;
  const Lanes first = run_relation(warp, op, general, 0) ^ test.inverted;
  const Lanes second =
      general.elements.count == 2 ? run_relation(warp, op, general, 1) ^ test.inverted : ~first;
  const Lanes valid = test.valid(warp, op, first) & test.valid(warp, op, second);
  const Lanes results[] = {test.combine(warp, op, first), test.combine(warp, op, second)};
  if (op.slots[0] != kNoSlot) {
    warp.write_predicate(op.slots[0], results[0], lanes, valid);
  }
  if (op.slots[kSecondDestination] != kNoSlot) {
    warp.write_predicate(op.slots[kSecondDestination], results[1], lanes, valid);
  }
  return Outcome::kDone;
}

Outcome run_set(Warp& warp, const Op& op, Lanes lanes) {
  const auto& general = op.get<GeneralTest>();
  Vec<std::uint64_t> results{};
  for (int element = 0; element < std::max(general.elements.count, 1); ++element) {
    const Lanes result = general.test.combine(
        warp, op, run_relation(warp, op, general, element) ^ general.test.inverted);
    for_each_lane(result, [&](int lane) {
      results.lanes[lane] |= general.true_value << (element * general.element_bits);
    });
  }
  const Lanes valid = general.test.valid(warp, op, 0) & general.test.valid(warp, op, kAllLanes);
  write_bits(warp, op.slots[0], general.result_bits, results, lanes, valid);
  return Outcome::kDone;
}

const Comparison& take_comparison(Decoder& decoder) {
  const auto* const comparison = std::ranges::find_if(
      kComparisons, [&](const Comparison& row) { return decoder.take(row.name); });
  if (comparison == kComparisons.end()) {
    decoder.fail("expected a comparison");
  }
  return *comparison;
}

// Takes the type of the operands, and what else the instruction says of the comparison.
GeneralTest take_test(Decoder& decoder, const Comparison& comparison) {
  const Type type = decoder.take_type();
  GeneralTest general{.type = type, .relation = comparison.relation};
  if (is_float(type)) {
    general.elements = float_elements(decoder, type);
    general.flushes = take_flush(decoder, type);
  } else {  // fails for types that are no plain integers
    static_cast<void>(pick_integer(decoder, type, []<typename T>() -> Code { return nullptr; }));
  }
  const auto index = &comparison - kComparisons.data();
  const bool is_allowed = is_float(type)    ? index < kSignedNames || index >= kUnsignedNames
                          : is_signed(type) ? index < kSignedNames
                                            : index < kUnsignedNames;
  if (!is_allowed || type == Type::kF32x2) {
    decoder.fail("unsupported comparison of this type");
  }
  general.test.inverted = comparison.is_opposite ? kAllLanes : 0;
  general.test.combination = decoder.take("and")   ? Combination::kAnd
                             : decoder.take("or")  ? Combination::kOr
                             : decoder.take("xor") ? Combination::kXor
                                                   : Combination::kNone;
  decoder.expect_operands(general.test.combination == Combination::kNone ? 3 : 4);
  return general;
}

// Adds the operands behind the destination.
void add_tested(Decoder& decoder, const Comparison& comparison, GeneralTest& general) {
  decoder.add(decoder.source(comparison.is_swapped ? 2 : 1, general.type));
  decoder.add(decoder.source(comparison.is_swapped ? 1 : 2, general.type));
  if (general.test.combination != Combination::kNone) {
    general.test.is_negated = decoder.add_predicate(3);
  }
}

template <typename T>
Code setp_code(Relation relation) {
  switch (relation) {
    case Relation::kEqual:
      return &run_setp<Relation::kEqual, T>;
    case Relation::kLess:
      return &run_setp<Relation::kLess, T>;
    case Relation::kLessOrEqual:
      return &run_setp<Relation::kLessOrEqual, T>;
    case Relation::kDiffers:
      return &run_setp<Relation::kDiffers, T>;
    case Relation::kOrdered:
      return &run_setp<Relation::kOrdered, T>;
  }
  return nullptr;
}

// Returns the code for one destination and a type that the host compares; null for all others.
Code simple_code(Decoder& decoder, const GeneralTest& general) {
  if (general.type == Type::kF32) {
    return general.flushes ? nullptr : setp_code<float>(general.relation);
  }
  if (general.type == Type::kF64) {
    return setp_code<double>(general.relation);
  }
  return is_float(general.type) ? nullptr : pick_integer(decoder, general.type, [&]<typename T>() {
    return setp_code<T>(general.relation);
  });
}

void decode_setp(Decoder& decoder) {
  const Comparison& comparison = take_comparison(decoder);
  GeneralTest general = take_test(decoder, comparison);
  const syntax::Operand& destination = decoder.operand(0);
  const bool has_two = destination.kind == syntax::OperandKind::kPair;
  if (general.elements.count == 2 && !has_two) {
    decoder.fail("expected two predicates for the result");
  }
  const auto predicate = [&](const syntax::Operand& operand) {
    return operand.kind == syntax::OperandKind::kSink ? kNoSlot : decoder.destination(operand, 1);
  };
  decoder.add(has_two ? predicate(destination.parts[0]) : decoder.destination(0, 1));
  add_tested(decoder, comparison, general);
  Op& op = decoder.op();
  if (has_two) {
    op.slots[kSecondDestination] = predicate(destination.parts[1]);
  } else if (const Code code = simple_code(decoder, general)) {
    op.details.set(general.test);
    op.code = code;
    return;
  }
  op.details.set(general);
  op.code = &run_general_setp;
}

void decode_set(Decoder& decoder) {
  const Comparison& comparison = take_comparison(decoder);
  const Type to = decoder.take_type();
  GeneralTest general = take_test(decoder, comparison);
  const bool is_pair = general.elements.count == 2;
  general.result_bits = static_cast<std::uint8_t>(bits_of(to));
  general.element_bits = static_cast<std::uint8_t>(is_pair ? bits_of(to) / 2 : bits_of(to));
  if (is_float(to)) {
    const FloatElements elements = float_elements(decoder, to);
    if (elements.count != std::max(general.elements.count, 1) || to == Type::kF64) {
      decoder.fail("unsupported type of the result");
    }
    general.true_value = elements.format.unity();
  } else if (bits_of(to) == 32 || (bits_of(to) == 16 && !is_pair)) {
    general.true_value = (std::uint64_t{1} << general.element_bits) - 1;
  } else {
    decoder.fail("unsupported type of the result");
  }
  decoder.add(decoder.destination(0, bits_of(to)));
  add_tested(decoder, comparison, general);
  decoder.op().details.set(general);
  decoder.op().code = &run_set;
}

// Selector of selp.
struct Selector {
  bool is_negated = false;
};

// Selects the first source where the predicate holds, and the second elsewhere.
template <typename T>
void write_selected(Warp& warp, const Op& op, Lanes lanes, Lanes selection) {
  const auto a = warp.read<T>(op.slots[1]);
  const auto b = warp.read<T>(op.slots[2]);
  Vec<T> d;
  for (int i = 0; i < kLanes; ++i) {
    d.lanes[i] = (selection >> static_cast<unsigned>(i) & 1U) != 0 ? a.lanes[i] : b.lanes[i];
  }
  const Lanes is_known = warp.valid(op.slots[3]);
  const Lanes valid =
      is_known & ((selection & warp.valid(op.slots[1])) | (~selection & warp.valid(op.slots[2])));
  warp.write(op.slots[0], d, lanes, valid);
  for_each_lane(lanes & ~valid, [&](int lane) {
    const Slot source = op.slots[(selection & lane_bit(lane)) != 0 ? 1 : 2];
    warp.partial_values.keep(op.slots[0], lane, d.lanes[lane],
                             (is_known & lane_bit(lane)) == 0
                                 ? 0
                                 : warp.partial_values.written_bits(source, lane, d.lanes[lane]));
  });
}

template <typename T>
Outcome run_selp(Warp& warp, const Op& op, Lanes lanes) {
  write_selected<T>(warp, op, lanes,
                    warp.read_predicate(op.slots[3], op.get<Selector>().is_negated));
  return Outcome::kDone;
}

// Adds the destination and the two sources, of which one is selected.
void add_selected(Decoder& decoder, Type type) {
  decoder.expect_operands(4);
  decoder.add(decoder.destination(0, bits_of(type)));
  decoder.add(decoder.source(1, type));
  decoder.add(decoder.source(2, type));
}

void decode_selp(Decoder& decoder) {
  const Type type = decoder.take_type();
  add_selected(decoder, type);
  decoder.op().details.set(Selector{.is_negated = decoder.add_predicate(3)});
  decoder.op().code = pick_integer(decoder, bit_type(bits_of(type)),
                                   []<typename T>() -> Code { return &run_selp<T>; });
}

// Selects the first source where the third is not negative; with .ftz, no subnormal number is.
template <typename T, typename Sign, bool kFlushes = false>
Outcome run_slct(Warp& warp, const Op& op, Lanes lanes) {
  const auto c = warp.read<Sign>(op.slots[3]);
  Lanes selection = 0;
  for (int i = 0; i < kLanes; ++i) {
    const Sign sign =
        kFlushes ? static_cast<Sign>(flush_to_zero(static_cast<float>(c.lanes[i]))) : c.lanes[i];
    selection |= static_cast<Lanes>(sign >= 0) << static_cast<unsigned>(i);
  }
  write_selected<T>(warp, op, lanes, selection);
  return Outcome::kDone;
}

void decode_slct(Decoder& decoder) {
  const Type type = decoder.take_type();
  const Type sign = decoder.take_type();
  if (sign != Type::kS32 && sign != Type::kF32) {
    decoder.fail("unsupported type of the third source");
  }
  const bool flushes = sign == Type::kF32 && decoder.take("ftz");
  add_selected(decoder, type);
  decoder.add(decoder.source(3, sign));
  decoder.op().code = pick_integer(decoder, bit_type(bits_of(type)), [&]<typename T>() -> Code {
    return sign == Type::kS32 ? &run_slct<T, std::int32_t>
           : flushes          ? &run_slct<T, float, true>
                              : &run_slct<T, float>;
  });
}

constexpr std::array kOperations = {
    Operation{"setp", &decode_setp},
    Operation{"set", &decode_set},
    Operation{"selp", &decode_selp},
    Operation{"slct", &decode_slct},
};

}  // namespace

std::span<const Operation> comparison_operations() {
  return kOperations;
}

}  // namespace emu
