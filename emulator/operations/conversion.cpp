// Type conversions: cvt.
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "emulator/machine/block.hpp"
#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/number_formats.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/registers.hpp"

namespace emu {
namespace {

// Returns the value of the low bits, sign-extended if `has_sign`.
std::uint64_t extend_bits(std::uint64_t value, int bits, bool has_sign) {
  const int unused = 64 - bits;
  const std::uint64_t high = value << static_cast<unsigned>(unused);
  return has_sign ? static_cast<std::uint64_t>(static_cast<std::int64_t>(high) >> unused)
                  : high >> static_cast<unsigned>(unused);
}

// Conversion between integer types.
struct IntegerConversion {
  struct Side {
    int bits = 0;
    int register_bits = 0;
    bool is_signed = false;
  };
  Side from{};
  Side to{};
};

Outcome run_integer(Warp& warp, const Op& op, Lanes lanes) {
  const auto& [from, to] = op.get<IntegerConversion>();
  Vec<std::uint64_t> values = read_bits(warp, op.slots[1], from.register_bits);
  for (std::uint64_t& value : values.lanes) {
    value = extend_bits(value, from.bits, from.is_signed);
    value = extend_bits(value, to.bits, to.is_signed);
  }
  write_bits(warp, op.slots[0], to.register_bits, values, lanes, warp.valid(op.slots[1]));
  return Outcome::kDone;
}

enum class Rounding : std::uint8_t { kNearest, kZero, kDown, kUp };

float round_to_integral(float value, Rounding rounding) {
  switch (rounding) {
    case Rounding::kNearest:
      return std::nearbyint(value);
    case Rounding::kZero:
      return std::trunc(value);
    case Rounding::kDown:
      return std::floor(value);
    case Rounding::kUp:
      return std::ceil(value);
  }
  return value;
}

// Converts a float to an integer. Out-of-range values saturate; NaN becomes 0.
template <typename T, Rounding kRounding>
struct ToInteger {
  T operator()(float value) const {
    if (std::isnan(value)) {
      return 0;
    }
    const double integral = round_to_integral(value, kRounding);
    constexpr auto kMin = static_cast<double>(std::numeric_limits<T>::min());
    constexpr auto kMax = static_cast<double>(std::numeric_limits<T>::max());
    return integral <= kMin   ? std::numeric_limits<T>::min()
           : integral >= kMax ? std::numeric_limits<T>::max()
                              : static_cast<T>(integral);
  }
};
template <Rounding kRounding>
struct RoundToIntegral {
  float operator()(float value) const {
    return canonicalize_nan(round_to_integral(value, kRounding));
  }
};
using ToFloat = decltype([](auto value) { return static_cast<float>(value); });
using FromF16 = decltype([](std::uint16_t bits) { return canonicalize_nan(f16_value(bits)); });
using FromBF16 = decltype([](std::uint16_t bits) { return bf16_value(bits); });
using ToF16 = decltype([](float value) { return f16_bits(value); });
using ToBF16 = decltype([](float value) { return bf16_bits(value); });

std::uint8_t ue8m0_bits_above(float value) {
  return ue8m0_bits(value, true);
}
std::uint8_t ue8m0_bits_below(float value) {
  return ue8m0_bits(value, false);
}

// Packs two floats; the first operand becomes the upper half.
template <auto kBits>
struct ToPair {
  auto operator()(float high, float low) const {
    constexpr unsigned kHalf = 8 * sizeof(kBits(high));
    return std::uint32_t{kBits(high)} << kHalf | kBits(low);
  }
};
template <typename T, auto kValue, auto kBits>
struct PairToPair {
  std::uint32_t operator()(
      std::conditional_t<sizeof(T) == 1, std::uint16_t, std::uint32_t> pair) const {
    return ToPair<kBits>{}(kValue(static_cast<T>(pair >> 8U * sizeof(T))),
                           kValue(static_cast<T>(pair)));
  }
};

void decode_integer(Decoder& decoder, Type to, Type from) {
  Op& op = decoder.op();
  const int from_register = decoder.register_bits(decoder.operand(1), from);
  const int to_register = decoder.register_bits(decoder.operand(0), to);
  if (from_register < bits_of(from) || to_register < bits_of(to)) {
    decoder.fail("a register is narrower than the instruction's type");
  }
  decoder.add(decoder.destination(0, to_register));
  decoder.add(decoder.source(1, bit_type(from_register)));
  op.details.set(IntegerConversion{.from = {bits_of(from), from_register, is_signed(from)},
                                   .to = {bits_of(to), to_register, is_signed(to)}});
  op.code = &run_integer;
}

template <Rounding kRounding>
Code rounding_code(Decoder& decoder, Type to) {
  switch (to) {
    case Type::kF32:
      return &run_lane_wise<RoundToIntegral<kRounding>, float, float>;
    case Type::kS32:
      return &run_lane_wise<ToInteger<std::int32_t, kRounding>, std::int32_t, float>;
    case Type::kU32:
      return &run_lane_wise<ToInteger<std::uint32_t, kRounding>, std::uint32_t, float>;
    default:
      decoder.fail("unsupported conversion");
  }
}

Code from_f32(Decoder& decoder, Type to) {
  const std::string_view rounding = decoder.take_one_of({"rni", "rzi", "rmi", "rpi", "rn"});
  if (rounding == "rni") {
    return rounding_code<Rounding::kNearest>(decoder, to);
  }
  if (rounding == "rzi") {
    return rounding_code<Rounding::kZero>(decoder, to);
  }
  if (rounding == "rmi") {
    return rounding_code<Rounding::kDown>(decoder, to);
  }
  if (rounding == "rpi") {
    return rounding_code<Rounding::kUp>(decoder, to);
  }
  if (to != Type::kF16 && to != Type::kBF16) {
    decoder.fail("unsupported conversion");
  }
  return to == Type::kF16 ? &run_lane_wise<ToF16, std::uint16_t, float>
                          : &run_lane_wise<ToBF16, std::uint16_t, float>;
}

Code to_f32(Decoder& decoder, Type from) {
  if (from == Type::kF16) {
    return &run_lane_wise<FromF16, float, std::uint16_t>;
  }
  if (from == Type::kBF16) {
    decoder.take("rn");  // the conversion is exact with and without .rn
    return &run_lane_wise<FromBF16, float, std::uint16_t>;
  }
  decoder.require("rn");
  return pick_integer(decoder, from,
                      []<typename T>() -> Code { return &run_lane_wise<ToFloat, float, T>; });
}

// Conversion of two floats to a pair (cvt.rn.bf16x2.f32 d, high, low), or of one pair to another.
struct PairConversion {
  Type to;
  Type from;
  std::string_view rounding;
  bool saturates = false;
  Code code;
};
template <auto kBits, typename To>
constexpr Code kFromFloats = &run_lane_wise<ToPair<kBits>, To, float, float>;
template <auto kBits, auto kValue>
constexpr Code kFromWord =
    &run_lane_wise<PairToPair<std::uint16_t, kValue, kBits>, std::uint16_t, std::uint32_t>;
template <auto kBits, auto kValue>
constexpr Code kFromBytes =
    &run_lane_wise<PairToPair<std::uint8_t, kValue, kBits>, std::uint32_t, std::uint16_t>;
constexpr std::array<PairConversion, 13> kPairConversions = {{
    {Type::kF16x2, Type::kF32, "rn", false, kFromFloats<&f16_bits, std::uint32_t>},
    {Type::kBF16x2, Type::kF32, "rn", false, kFromFloats<&bf16_bits, std::uint32_t>},
    {Type::kE4M3x2, Type::kF32, "rn", true, kFromFloats<&e4m3_bits, std::uint16_t>},
    {Type::kE5M2x2, Type::kF32, "rn", true, kFromFloats<&e5m2_bits, std::uint16_t>},
    {Type::kUE8M0x2, Type::kF32, "rp", true, kFromFloats<&ue8m0_bits_above, std::uint16_t>},
    {Type::kUE8M0x2, Type::kF32, "rz", true, kFromFloats<&ue8m0_bits_below, std::uint16_t>},
    {Type::kF16x2, Type::kE4M3x2, "rn", false, kFromBytes<&f16_bits, &e4m3_value>},
    {Type::kF16x2, Type::kE5M2x2, "rn", false, kFromBytes<&f16_bits, &e5m2_value>},
    {Type::kE4M3x2, Type::kF16x2, "rn", true, kFromWord<&e4m3_bits, &f16_value>},
    {Type::kE5M2x2, Type::kF16x2, "rn", true, kFromWord<&e5m2_bits, &f16_value>},
    {Type::kUE8M0x2, Type::kBF16x2, "rp", true, kFromWord<&ue8m0_bits_above, &bf16_value>},
    {Type::kUE8M0x2, Type::kBF16x2, "rz", true, kFromWord<&ue8m0_bits_below, &bf16_value>},
    {Type::kBF16x2, Type::kUE8M0x2, "rn", false, kFromBytes<&bf16_bits, &ue8m0_value>},
}};

// Decodes a conversion of the table above; false if the table has none for these types.
bool decode_pair(Decoder& decoder, Type to, Type from) {
  bool is_known = false;
  for (const PairConversion& conversion : kPairConversions) {
    if (conversion.to != to || conversion.from != from) {
      continue;
    }
    is_known = true;
    if (decoder.take(conversion.rounding)) {
      if (conversion.saturates) {
        decoder.require("satfinite");
      }
      decoder.add_operands(bits_of(to), std::vector(from == Type::kF32 ? 2 : 1, from));
      decoder.op().code = conversion.code;
      return true;
    }
  }
  if (is_known) {
    decoder.fail("unsupported rounding");
  }
  return false;
}

void decode_cvt(Decoder& decoder) {
  const Type to = decoder.take_type();
  const Type from = decoder.take_type();
  if (decode_pair(decoder, to, from)) {
    return;
  }
  decoder.expect_operands(2);
  if (!is_float(to) && !is_float(from)) {
    decode_integer(decoder, to, from);
    return;
  }
  decoder.add_operands(bits_of(to), {from});
  if (from == Type::kF32) {
    decoder.op().code = from_f32(decoder, to);
  } else if (to == Type::kF32) {
    decoder.op().code = to_f32(decoder, from);
  } else {
    decoder.fail("unsupported conversion");
  }
}

constexpr std::array kOperations = {
    Operation{"cvt", &decode_cvt},
};

}  // namespace

std::span<const Operation> conversion_operations() {
  return kOperations;
}

}  // namespace emu
