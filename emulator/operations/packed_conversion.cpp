// Conversions of several numbers at once: cvt to and from pairs of floats, cvt.pack.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <vector>

#include "emulator/operations/conversion.hpp"
#include "emulator/operations/exact_number.hpp"
#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/number_formats.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/registers.hpp"

namespace emu {
namespace {

// Pair of floats in a register, each in so many bits, of which the highest may be unused.
struct Pair {
  Type type;
  FloatFormat format;
  int element_bits;
};
constexpr std::array<Pair, 7> kPairs = {{
    {Type::kF16x2, kF16, 16},
    {Type::kBF16x2, kBF16, 16},
    {Type::kE4M3x2, kE4M3, 8},
    {Type::kE5M2x2, kE5M2, 8},
    {Type::kE2M3x2, kE2M3, 8},
    {Type::kE3M2x2, kE3M2, 8},
    {Type::kE2M1x2, kE2M1, 4},
}};
const Pair* find_pair(Type type) {
  const auto* const row = std::ranges::find(kPairs, type, &Pair::type);
  return row == kPairs.end() ? nullptr : row;
}

// Slots: the destination, and a pair, or two binary32 numbers, of which the first becomes the upper
// half.
struct PairConversion {
  FloatFormat from{};
  FloatResult result{};
  int from_bits = 0;  // of an element
  int to_bits = 0;
};

// kFrom and kTo are the formats if the compiler is to know them, which is faster.
template <FloatFormat kFrom = FloatFormat{}, FloatFormat kTo = FloatFormat{}>
Outcome run_pair(Warp& warp, const Op& op, Lanes lanes) {
  auto [from, result, from_bits, to_bits] = op.get<PairConversion>();
  if constexpr (kFrom != FloatFormat{}) {
    from = kFrom;
    result.format = kTo;
  }
  const bool is_one_register = op.slots[2] == kNoSlot;
  const auto first = read_bits(warp, op.slots[1], is_one_register ? 2 * from_bits : 32);
  const auto second = is_one_register ? first : read_bits(warp, op.slots[2], 32);
  Vec<std::uint64_t> results{};
  for_each_lane(lanes, [&](int lane) {
    const std::uint64_t high = first.lanes[lane] >> (is_one_register ? from_bits : 0);
    const auto convert = [&](std::uint64_t bits) {
      return result.encode(decode_float<std::uint64_t>(bits, from));
    };
    results.lanes[lane] = convert(high) << to_bits | convert(second.lanes[lane]);
  });
  write_bits(warp, op.slots[0], 2 * to_bits, results, lanes,
             warp.valid(op.slots[1]) & (is_one_register ? kAllLanes : warp.valid(op.slots[2])));
  return Outcome::kDone;
}

struct CommonPair {
  FloatFormat from;
  FloatFormat to;
  Code code;
};
template <FloatFormat kFrom, FloatFormat kTo>
constexpr CommonPair kCommonPair = {kFrom, kTo, &run_pair<kFrom, kTo>};
constexpr std::array kCommonPairs = {kCommonPair<kE4M3, kF16>, kCommonPair<kE5M2, kF16>,
                                     kCommonPair<kF32, kE4M3>, kCommonPair<kF32, kE5M2>};

// Conversions of UE8M0, which has no sign and no zero.
std::uint8_t ue8m0_bits_above(float value) {
  return ue8m0_bits(value, true);
}
std::uint8_t ue8m0_bits_below(float value) {
  return ue8m0_bits(value, false);
}
template <auto kBits>
struct ToPair {
  auto operator()(float high, float low) const {
    constexpr unsigned kHalf = 8 * sizeof(kBits(high));
    return std::uint32_t{kBits(high)} << kHalf | kBits(low);
  }
};
using ToUE8M0Above = decltype([](std::uint32_t pair) {
  return ToPair<&ue8m0_bits_above>{}(bf16_value(static_cast<std::uint16_t>(pair >> 16U)),
                                     bf16_value(static_cast<std::uint16_t>(pair)));
});
using ToUE8M0Below = decltype([](std::uint32_t pair) {
  return ToPair<&ue8m0_bits_below>{}(bf16_value(static_cast<std::uint16_t>(pair >> 16U)),
                                     bf16_value(static_cast<std::uint16_t>(pair)));
});
using FromUE8M0 = decltype([](std::uint16_t pair) {
  return ToPair<&bf16_bits>{}(ue8m0_value(static_cast<std::uint8_t>(pair >> 8U)),
                              ue8m0_value(static_cast<std::uint8_t>(pair)));
});

template <auto kBits, typename To>
constexpr Code kFromFloats = &run_lane_wise<ToPair<kBits>, To, float, float>;

struct UE8M0Conversion {
  Type to;
  Type from;
  std::string_view rounding;
  Code code;
};
constexpr std::array<UE8M0Conversion, 5> kUE8M0Conversions = {{
    {Type::kUE8M0x2, Type::kF32, "rp", kFromFloats<&ue8m0_bits_above, std::uint16_t>},
    {Type::kUE8M0x2, Type::kF32, "rz", kFromFloats<&ue8m0_bits_below, std::uint16_t>},
    {Type::kUE8M0x2, Type::kBF16x2, "rp",
     &run_lane_wise<ToUE8M0Above, std::uint16_t, std::uint32_t>},
    {Type::kUE8M0x2, Type::kBF16x2, "rz",
     &run_lane_wise<ToUE8M0Below, std::uint16_t, std::uint32_t>},
    {Type::kBF16x2, Type::kUE8M0x2, "rn", &run_lane_wise<FromUE8M0, std::uint32_t, std::uint16_t>},
}};

Code ue8m0_code(Decoder& decoder, Type to, Type from) {
  for (const UE8M0Conversion& row : kUE8M0Conversions) {
    if (row.to == to && row.from == from && decoder.take(row.rounding)) {
      if (to == Type::kUE8M0x2) {
        decoder.require("satfinite");
      }
      return row.code;
    }
  }
  decoder.fail("unsupported conversion or rounding");
}

// Describes a conversion of the formats above; nothing if they have none.
std::optional<PairConversion> pair_conversion(Decoder& decoder, Type to, Type from) {
  const Pair* const target = find_pair(to);
  const Pair* const source = find_pair(from);
  const bool is_short = target != nullptr && target->element_bits < 16;
  const bool is_known =
      target != nullptr &&
      (from == Type::kF32 ||
       (source != nullptr &&
        (is_short ? source->element_bits == 16 : to == Type::kF16x2 && source->element_bits < 16)));
  if (!is_known) {
    return std::nullopt;
  }
  PairConversion conversion{.from = source == nullptr ? kF32 : source->format,
                            .from_bits = source == nullptr ? 32 : source->element_bits,
                            .to_bits = target->element_bits};
  FloatResult& result = conversion.result;
  result.format = target->format;
  if (from == Type::kF32 && !is_short && decoder.take("rz")) {
    result.rounding = Rounding::kZero;
  } else {
    decoder.require("rn");
  }
  result.has_relu = decoder.take("relu");
  if (is_short) {
    decoder.require("satfinite");
    result.is_finite = true;
  } else {
    result.is_finite = from == Type::kF32 && decoder.take("satfinite");
  }
  return conversion;
}

// Integers with so many bits that cvt.pack makes.
struct PackedInteger {
  std::string_view name;
  int bits;
  bool is_signed;
};
constexpr std::array<PackedInteger, 8> kPackedIntegers = {{{"s16", 16, true},
                                                           {"u16", 16, false},
                                                           {"s8", 8, true},
                                                           {"u8", 8, false},
                                                           {"s4", 4, true},
                                                           {"u4", 4, false},
                                                           {"s2", 2, true},
                                                           {"u2", 2, false}}};

// Slots: the destination, two integers, the second of which becomes the lowest bits, and what
// becomes the bits above both, if they do not fill the word.
Outcome run_pack_integers(Warp& warp, const Op& op, Lanes lanes) {
  const auto& [name, bits, is_signed] = op.get<PackedInteger>();
  const int lowest = is_signed ? -(1 << (bits - 1)) : 0;
  const int highest = lowest + (1 << bits) - 1;
  const bool has_rest = op.slots[3] != kNoSlot;
  const auto a = warp.read<std::int32_t>(op.slots[1]);
  const auto b = warp.read<std::int32_t>(op.slots[2]);
  const auto c = warp.read<std::uint32_t>(op.slots[has_rest ? 3 : 1]);
  const auto part = [&](std::int32_t value) {
    return static_cast<std::uint32_t>(std::clamp(value, lowest, highest)) & ((1U << bits) - 1);
  };
  Vec<std::uint32_t> results;
  for (int i = 0; i < kLanes; ++i) {
    results.lanes[i] =
        part(a.lanes[i]) << bits | part(b.lanes[i]) | (has_rest ? c.lanes[i] << (2 * bits) : 0);
  }
  warp.write(op.slots[0], results, lanes,
             warp.valid(op.slots[1]) & warp.valid(op.slots[2]) &
                 (has_rest ? warp.valid(op.slots[3]) : kAllLanes));
  return Outcome::kDone;
}

}  // namespace

bool decode_packed_conversion(Decoder& decoder, Type to, Type from) {
  const auto add_operands = [&] {
    decoder.add_operands(bits_of(to), std::vector(from == Type::kF32 ? 2 : 1, from));
  };
  if (to == Type::kUE8M0x2 || from == Type::kUE8M0x2) {
    decoder.op().code = ue8m0_code(decoder, to, from);
    add_operands();
    return true;
  }
  const auto conversion = pair_conversion(decoder, to, from);
  if (!conversion) {
    return false;
  }
  add_operands();
  const FloatResult& result = conversion->result;
  const bool is_plain =
      result.rounding == Rounding::kNearestEven && !result.has_relu && !result.is_finite;
  if (is_plain && from == Type::kF32) {
    decoder.op().code = to == Type::kF16x2 ? kFromFloats<&f16_bits, std::uint32_t>
                                           : kFromFloats<&bf16_bits, std::uint32_t>;
  } else {
    decoder.op().details.set(*conversion);
    const auto* const row = std::ranges::find_if(kCommonPairs, [&](const CommonPair& pair) {
      return pair.from == conversion->from && pair.to == result.format;
    });
    decoder.op().code = row == kCommonPairs.end() ? &run_pair<> : row->code;
  }
  return true;
}

void decode_pack(Decoder& decoder) {
  decoder.require("sat");
  const auto* const packed = std::ranges::find_if(
      kPackedIntegers, [&](const PackedInteger& row) { return decoder.take(row.name); });
  if (packed == kPackedIntegers.end()) {
    decoder.fail("unsupported type");
  }
  decoder.require("s32");
  if (packed->bits == 16) {
    decoder.add_operands(32, {Type::kS32, Type::kS32});
  } else {
    decoder.require("b32");
    decoder.add_operands(32, {Type::kS32, Type::kS32, Type::kB32});
  }
  decoder.op().details.set(*packed);
  decoder.op().code = &run_pack_integers;
}

}  // namespace emu
