// Type conversions of single numbers: cvt.
#include "emulator/operations/conversion.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#include "emulator/machine/block.hpp"
#include "emulator/operations/floating.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/registers.hpp"

namespace emu {
namespace {

// Rounding modifiers of cvt: those to integers and those to floats.
struct RoundingName {
  std::string_view name;
  Rounding rounding;
};
constexpr std::array<RoundingName, 4> kIntegerRoundings = {{{"rni", Rounding::kNearestEven},
                                                            {"rzi", Rounding::kZero},
                                                            {"rmi", Rounding::kDown},
                                                            {"rpi", Rounding::kUp}}};
constexpr std::array<RoundingName, 5> kFloatRoundings = {{{"rn", Rounding::kNearestEven},
                                                          {"rz", Rounding::kZero},
                                                          {"rm", Rounding::kDown},
                                                          {"rp", Rounding::kUp},
                                                          {"rna", Rounding::kNearestAway}}};

template <std::size_t kCount>
const RoundingName* take_rounding_of(Decoder& decoder,
                                     const std::array<RoundingName, kCount>& names) {
  const auto* const row = std::ranges::find_if(
      names, [&](const RoundingName& name) { return decoder.take(name.name); });
  return row == names.end() ? nullptr : row;
}

// Conversion between integers and floats.
struct Conversion {
  struct Side {
    FloatFormat format{};  // no bits: an integer
    std::uint8_t bits = 0;
    std::uint8_t register_bits = 0;
    bool is_signed = false;
    bool flushes = false;

    [[nodiscard]] bool is_float() const { return format.exponent_bits != 0; }
  };
  Side from{};
  Side to{};
  FloatResult result{};       // to a float
  bool rounds_whole = false;  // rounds to a whole number first

  [[nodiscard]] Number<std::uint64_t> decode(std::uint64_t bits) const {
    if (from.is_float()) {
      return decode_float<std::uint64_t>(from.flushes ? from.format.flush(bits) : bits,
                                         from.format);
    }
    const std::uint64_t value = extend_bits(bits, from.bits, from.is_signed);
    const bool is_negative = from.is_signed && static_cast<std::int64_t>(value) < 0;
    return {.is_negative = is_negative, .units = is_negative ? 0 - value : value};
  }

  // Saturates. NaN becomes 0, or the highest bit alone if one side has 64 bits.
  [[nodiscard]] std::uint64_t encode_integer(const Number<std::uint64_t>& number) const {
    const auto highest = std::uint64_t{1} << (to.bits - 1);
    if (number.is_nan()) {
      return to.bits < 64 && from.bits < 64 ? 0 : to.is_signed ? 0 - highest : highest;
    }
    const bool is_too_large = number.is_infinite() ||
                              (number.units != 0 && number.exponent + bit_width(number.units) > 64);
    const std::uint64_t magnitude =
        is_too_large ? ~std::uint64_t{0} : number.units << std::max(number.exponent, 0);
    if (number.is_negative) {
      return to.is_signed ? 0 - std::min(magnitude, highest) : 0;
    }
    return std::min(magnitude, to.is_signed ? highest - 1 : highest - 1 + highest);
  }

  // NaN of a conversion from or to binary64, which keeps the sign and the upper payload.
  [[nodiscard]] std::uint64_t convert_payload(std::uint64_t bits) const {
    const std::uint64_t payload = bits & (from.format.least_normal() - 1);
    const int shift = to.format.fraction_bits - from.format.fraction_bits;
    const std::uint64_t sign = (bits & from.format.sign()) != 0 ? to.format.sign() : 0;
    return quiet_nan(
        sign | to.format.infinity() | (shift >= 0 ? payload << shift : payload >> -shift),
        to.format);
  }

  // Returns a register with 13 bits below the number. Sums of bits make .rna, as ptxas has it, so
  // that NaN is cut off, which may leave infinity, and gets a smaller payload from .satfinite.
  [[nodiscard]] std::uint64_t encode_tf32(std::uint64_t bits,
                                          const Number<std::uint64_t>& number) const {
    constexpr int kUnused = kF32.fraction_bits - kTF32.fraction_bits;
    const bool is_cut = number.is_nan() && result.rounding == Rounding::kNearestAway;
    const std::uint64_t upper = is_cut ? (bits & 0xFFFFFFFFU) >> kUnused : result.encode(number);
    return (upper - (is_cut && result.is_finite ? 1U : 0U)) << kUnused;
  }

  [[nodiscard]] std::uint64_t convert(std::uint64_t bits) const {
    Number<std::uint64_t> number = decode(bits);
    if (rounds_whole) {
      number = round_to_whole(number, result.rounding);
    }
    if (to.format == kTF32) {
      return encode_tf32(bits, number);
    }
    if (number.is_nan() && to.is_float() && !result.saturates &&
        (from.format == kF64 || to.format == kF64)) {
      return convert_payload(bits);
    }
    return to.is_float() ? result.encode(number) : encode_integer(number);
  }
};

// Conversion between integers that wraps around, and a copy of binary64.
Outcome run_integer(Warp& warp, const Op& op, Lanes lanes) {
  const auto& [from, to, result, rounds_whole] = op.get<Conversion>();
  const auto convert = [&](std::uint64_t value) {
    return extend_bits(extend_bits(value, from.bits, from.is_signed), to.bits, to.is_signed);
  };
  const Vec<std::uint64_t> sources = read_bits(warp, op.slots[1], from.register_bits);
  Vec<std::uint64_t> values;
  for (int i = 0; i < kLanes; ++i) {
    values.lanes[i] = convert(sources.lanes[i]);
  }
  const Lanes valid = warp.valid(op.slots[1]);
  Lanes whole = valid;
  const Lanes unknown = lanes & ~valid;
  Vec<std::uint64_t> written;
  const std::uint64_t mask = ~std::uint64_t{0} >> (64U - static_cast<unsigned>(to.register_bits));
  // A bit is of none that was not written where the conversion of these is 0.
  for_each_lane(unknown, [&](int lane) {
    const std::uint64_t bits =
        warp.partial_values.written_bits(op.slots[1], lane, sources.lanes[lane]);
    written.lanes[lane] = bits == 0 ? 0 : ~convert(~bits) & mask;
    whole |= written.lanes[lane] == mask ? lane_bit(lane) : 0;
  });
  write_bits(warp, op.slots[0], to.register_bits, values, lanes, whole);
  for_each_lane(unknown & ~whole, [&](int lane) {
    warp.partial_values.keep(op.slots[0], lane, values.lanes[lane] & mask, written.lanes[lane]);
  });
  return Outcome::kDone;
}

Outcome run_conversion(Warp& warp, const Op& op, Lanes lanes) {
  const auto& conversion = op.get<Conversion>();
  Vec<std::uint64_t> values = read_bits(warp, op.slots[1], conversion.from.register_bits);
  for_each_lane(lanes,
                [&](int lane) { values.lanes[lane] = conversion.convert(values.lanes[lane]); });
  write_bits(warp, op.slots[0], conversion.to.register_bits, values, lanes,
             warp.valid(op.slots[1]));
  return Outcome::kDone;
}

// Rounds to a whole number, as an integer or a float. Out-of-range values saturate; NaN becomes 0.
template <typename T, Rounding kRounding>
struct ToWhole {
  T operator()(float value) const {
    const float whole = kRounding == Rounding::kZero   ? std::trunc(value)
                        : kRounding == Rounding::kDown ? std::floor(value)
                        : kRounding == Rounding::kUp   ? std::ceil(value)
                                                       : std::nearbyint(value);
    if constexpr (std::is_floating_point_v<T>) {
      return canonicalize_nan(whole);
    } else {
      constexpr auto kMin = static_cast<double>(std::numeric_limits<T>::min());
      constexpr auto kMax = static_cast<double>(std::numeric_limits<T>::max());
      return std::isnan(whole) ? 0
             : whole <= kMin   ? std::numeric_limits<T>::min()
             : whole >= kMax   ? std::numeric_limits<T>::max()
                               : static_cast<T>(whole);
    }
  }
};
using ToFloat = decltype([](auto value) { return static_cast<float>(value); });
using ToDouble = decltype([](auto value) { return static_cast<double>(value); });
using FromF16 = decltype([](std::uint16_t bits) { return canonicalize_nan(f16_value(bits)); });
using FromBF16 = decltype([](std::uint16_t bits) { return bf16_value(bits); });
using ToF16 = decltype([](float value) { return f16_bits(value); });
using ToBF16 = decltype([](float value) { return bf16_bits(value); });

// Conversions without other modifiers that the host makes faster, of registers of their size.
struct FastConversion {
  Type to;
  Type from;
  Code code;
  Rounding rounding = Rounding::kNearestEven;
  bool rounds_whole = false;
};
template <typename F, typename To, typename From>
constexpr FastConversion fast(Type to, Type from) {
  return {to, from, &run_lane_wise<F, To, From>};
}
template <typename T, Rounding kRounding>
constexpr FastConversion fast_whole(Type to) {
  return {to, Type::kF32, &run_lane_wise<ToWhole<T, kRounding>, T, float>, kRounding, true};
}
constexpr std::array kFastConversions = {
    fast<ToFloat, float, std::uint16_t>(Type::kF32, Type::kU16),
    fast<ToFloat, float, std::int16_t>(Type::kF32, Type::kS16),
    fast<ToFloat, float, std::uint32_t>(Type::kF32, Type::kU32),
    fast<ToFloat, float, std::int32_t>(Type::kF32, Type::kS32),
    fast<ToFloat, float, std::uint64_t>(Type::kF32, Type::kU64),
    fast<ToFloat, float, std::int64_t>(Type::kF32, Type::kS64),
    fast<ToDouble, double, std::int32_t>(Type::kF64, Type::kS32),
    fast<ToDouble, double, float>(Type::kF64, Type::kF32),
    fast<FromF16, float, std::uint16_t>(Type::kF32, Type::kF16),
    fast<FromBF16, float, std::uint16_t>(Type::kF32, Type::kBF16),
    fast<ToF16, std::uint16_t, float>(Type::kF16, Type::kF32),
    fast<ToBF16, std::uint16_t, float>(Type::kBF16, Type::kF32),
    fast_whole<float, Rounding::kNearestEven>(Type::kF32),
    fast_whole<float, Rounding::kZero>(Type::kF32),
    fast_whole<float, Rounding::kDown>(Type::kF32),
    fast_whole<float, Rounding::kUp>(Type::kF32),
    fast_whole<std::int32_t, Rounding::kNearestEven>(Type::kS32),
    fast_whole<std::int32_t, Rounding::kZero>(Type::kS32),
    fast_whole<std::int32_t, Rounding::kDown>(Type::kS32),
    fast_whole<std::int32_t, Rounding::kUp>(Type::kS32),
    fast_whole<std::uint32_t, Rounding::kNearestEven>(Type::kU32),
    fast_whole<std::uint32_t, Rounding::kZero>(Type::kU32),
    fast_whole<std::uint32_t, Rounding::kDown>(Type::kU32),
    fast_whole<std::uint32_t, Rounding::kUp>(Type::kU32),
};

FloatFormat format_of(const Decoder& decoder, Type type) {
  if (type == Type::kTF32) {
    return kTF32;
  }
  const FloatElements elements = float_elements(decoder, type);
  if (elements.count != 1) {
    decoder.fail("unsupported conversion");
  }
  return elements.format;
}

// Describes a side by its type and its register. Registers may be wider than integers.
Conversion::Side side_of(const Decoder& decoder, std::size_t operand, Type type) {
  const int register_bits = decoder.register_bits(decoder.operand(operand), type);
  if (register_bits < bits_of(type)) {
    decoder.fail("a register is narrower than the instruction's type");
  }
  if (bits_of(type) < 8 || register_bits > 64) {
    decoder.fail("unsupported type");
  }
  return {.format = is_float(type) ? format_of(decoder, type) : FloatFormat{},
          .bits = static_cast<std::uint8_t>(bits_of(type)),
          .register_bits = static_cast<std::uint8_t>(register_bits),
          .is_signed = is_signed(type)};
}

// Takes the rounding, of which conversions to another float type that is no wider, and those
// between floats and integers, must name one.
void take_conversion_rounding(Decoder& decoder, Conversion& conversion, bool is_same_type) {
  const auto& [from, to, result, rounds_whole] = conversion;
  const RoundingName* rounding = nullptr;
  if (from.is_float() && (!to.is_float() || is_same_type)) {
    rounding = take_rounding_of(decoder, kIntegerRoundings);
    conversion.rounds_whole = rounding != nullptr;
  }
  if (rounding == nullptr && to.is_float()) {
    rounding = take_rounding_of(decoder, kFloatRoundings);
  }
  if (rounding != nullptr) {
    conversion.result.rounding = rounding->rounding;
    if (to.format == kTF32 ? rounding->name == "rm" || rounding->name == "rp"
                           : rounding->name == "rna") {
      decoder.fail("unsupported rounding");
    }
    return;
  }
  const bool is_exact =
      from.is_float() == to.is_float() && (!from.is_float() || is_same_type ||
                                           (from.format.exponent_bits <= to.format.exponent_bits &&
                                            from.format.fraction_bits <= to.format.fraction_bits));
  if (!is_exact) {
    decoder.fail("expected a rounding modifier");
  }
}

// Fails for combinations of modifiers and types that are not there.
void check_conversion(const Decoder& decoder, const Conversion& conversion) {
  const auto& [from, to, result, rounds_whole] = conversion;
  const bool has_other_rounding =
      result.rounding != Rounding::kNearestEven && result.rounding != Rounding::kZero;
  if (has_other_rounding && (result.has_relu || (result.is_finite && to.format != kTF32))) {
    decoder.fail(".relu and .satfinite need .rn or .rz");
  }
  if ((from.format == kBF16 && !to.is_float() && to.bits < 32) ||
      (to.format == kBF16 && !from.is_float() && from.bits < 16)) {
    decoder.fail("unsupported conversion");
  }
}

void decode_cvt(Decoder& decoder) {
  if (decoder.take("pack")) {
    decode_pack(decoder);
    return;
  }
  const Type to = decoder.take_type();
  const Type from = decoder.take_type();
  if (decode_packed_conversion(decoder, to, from)) {
    return;
  }
  decoder.expect_operands(2);
  Conversion conversion{.from = side_of(decoder, 1, from), .to = side_of(decoder, 0, to)};
  FloatResult& result = conversion.result;
  take_conversion_rounding(decoder, conversion, to == from);
  const bool flushes =
      (to == Type::kF32 || from == Type::kF32) && to != Type::kTF32 && decoder.take("ftz");
  conversion.from.flushes = flushes && from == Type::kF32;
  result.format = conversion.to.format;
  result.flushes = flushes && to == Type::kF32;
  const bool saturates =
      to != Type::kTF32 && to != Type::kBF16 && from != Type::kBF16 && decoder.take("sat");
  result.saturates = saturates && conversion.to.is_float();
  if (from == Type::kF32 && (to == Type::kF16 || to == Type::kBF16 || to == Type::kTF32)) {
    result.has_relu = decoder.take("relu");
    result.is_finite = decoder.take("satfinite");
  }
  check_conversion(decoder, conversion);
  decoder.add(decoder.destination(0, conversion.to.register_bits));
  const int from_register = conversion.from.register_bits;
  decoder.add(decoder.source(1, from_register == bits_of(from) ? from : bit_type(from_register)));
  Op& op = decoder.op();
  op.details.set(conversion);
  const bool is_copy = to == from && to == Type::kF64 && !conversion.rounds_whole;
  if (((!conversion.from.is_float() && !conversion.to.is_float()) || is_copy) && !saturates) {
    op.code = &run_integer;
    return;
  }
  const bool is_plain = !flushes && !saturates && !result.has_relu && !result.is_finite &&
                        conversion.from.bits == from_register &&
                        conversion.to.bits == conversion.to.register_bits;
  const auto* const fast = std::ranges::find_if(kFastConversions, [&](const FastConversion& row) {
    return row.to == to && row.from == from && row.rounding == result.rounding &&
           row.rounds_whole == conversion.rounds_whole;
  });
  op.code = is_plain && fast != kFastConversions.end() ? fast->code : &run_conversion;
}

constexpr std::array kOperations = {
    Operation{"cvt", &decode_cvt},
};

}  // namespace

std::span<const Operation> conversion_operations() {
  return kOperations;
}

}  // namespace emu
