// Conversions from one type to another: cvt, cvta.
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "emulator/machine/block.hpp"
#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/number_formats.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/registers.hpp"

namespace emu {
namespace {

// The value of the low bits, with their sign.
std::uint64_t extended(std::uint64_t value, int bits, bool has_sign) {
  const int unused = 64 - bits;
  const std::uint64_t high = value << static_cast<unsigned>(unused);
  return has_sign ? static_cast<std::uint64_t>(static_cast<std::int64_t>(high) >> unused)
                  : high >> static_cast<unsigned>(unused);
}

// Between whole numbers.
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
    value = extended(value, from.bits, from.is_signed);
    value = extended(value, to.bits, to.is_signed);
  }
  write_bits(warp, op.slots[0], to.register_bits, values, lanes, warp.valid(op.slots[1]));
  return Outcome::kDone;
}

enum class Rounding : std::uint8_t { kNearest, kZero, kDown, kUp };

float rounded(float value, Rounding rounding) {
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

// What is too large becomes the largest there is; NaN becomes 0.
template <typename T, Rounding kRounding>
struct ToInteger {
  T operator()(float value) const {
    if (std::isnan(value)) {
      return 0;
    }
    const double whole = rounded(value, kRounding);
    constexpr auto kLeast = static_cast<double>(std::numeric_limits<T>::min());
    constexpr auto kMost = static_cast<double>(std::numeric_limits<T>::max());
    return whole <= kLeast  ? std::numeric_limits<T>::min()
           : whole >= kMost ? std::numeric_limits<T>::max()
                            : static_cast<T>(whole);
  }
};
template <Rounding kRounding>
struct ToWhole {
  float operator()(float value) const { return canonical(rounded(value, kRounding)); }
};
struct ToFloat {
  float operator()(auto value) const { return static_cast<float>(value); }
};
struct FromF16 {
  float operator()(std::uint16_t bits) const { return canonical(f16_value(bits)); }
};
struct FromBF16 {
  float operator()(std::uint16_t bits) const { return bf16_value(bits); }
};
struct ToF16 {
  std::uint16_t operator()(float value) const { return f16_bits(value); }
};
struct ToBF16 {
  std::uint16_t operator()(float value) const { return bf16_bits(value); }
};
// Pairs: the first operand becomes the upper half.
struct ToF16Pair {
  std::uint32_t operator()(float high, float low) const {
    return std::uint32_t{f16_bits(high)} << 16U | f16_bits(low);
  }
};
struct ToBF16Pair {
  std::uint32_t operator()(float high, float low) const {
    return std::uint32_t{bf16_bits(high)} << 16U | bf16_bits(low);
  }
};
struct ToE4M3Pair {
  std::uint16_t operator()(float high, float low) const {
    return static_cast<std::uint16_t>(std::uint32_t{e4m3_bits(high)} << 8U | e4m3_bits(low));
  }
};
struct ToE5M2Pair {
  std::uint16_t operator()(float high, float low) const {
    return static_cast<std::uint16_t>(std::uint32_t{e5m2_bits(high)} << 8U | e5m2_bits(low));
  }
};
template <typename ToPair>
struct F16PairTo {
  std::uint16_t operator()(std::uint32_t pair) const {
    return ToPair{}(f16_value(static_cast<std::uint16_t>(pair >> 16U)),
                    f16_value(static_cast<std::uint16_t>(pair)));
  }
};
template <float (*kValue)(std::uint8_t)>
struct BytePairToF16Pair {
  std::uint32_t operator()(std::uint16_t pair) const {
    return ToF16Pair{}(kValue(static_cast<std::uint8_t>(pair >> 8U)),
                       kValue(static_cast<std::uint8_t>(pair)));
  }
};

template <bool kRoundsUp>
struct ToUE8M0Pair {
  std::uint16_t operator()(float high, float low) const {
    return static_cast<std::uint16_t>(std::uint32_t{ue8m0_bits(high, kRoundsUp)} << 8U |
                                      ue8m0_bits(low, kRoundsUp));
  }
  std::uint16_t operator()(std::uint32_t pair) const {
    return (*this)(bf16_value(static_cast<std::uint16_t>(pair >> 16U)),
                   bf16_value(static_cast<std::uint16_t>(pair)));
  }
};
struct UE8M0PairToBF16Pair {
  std::uint32_t operator()(std::uint16_t pair) const {
    return ToBF16Pair{}(ue8m0_value(static_cast<std::uint8_t>(pair >> 8U)),
                        ue8m0_value(static_cast<std::uint8_t>(pair)));
  }
};

void decode_integer(Decoder& decoder, Type to, Type from) {
  Op& op = decoder.op();
  const int from_register = decoder.register_bits(decoder.operand(1), from);
  const int to_register = decoder.register_bits(decoder.operand(0), to);
  if (from_register < bits_of(from) || to_register < bits_of(to)) {
    decoder.fail("a register that is too narrow");
  }
  const auto type_of = [](int bits) {
    return bits == 16 ? Type::kB16 : bits == 32 ? Type::kB32 : Type::kB64;
  };
  decoder.add(decoder.destination(0, to_register));
  decoder.add(decoder.source(1, type_of(from_register)));
  op.details.set(IntegerConversion{.from = {bits_of(from), from_register, is_signed(from)},
                                   .to = {bits_of(to), to_register, is_signed(to)}});
  op.code = &run_integer;
}

template <Rounding kRounding>
Code to_integer(Decoder& decoder, Type to) {
  switch (to) {
    case Type::kS32:
      return &run_unary<std::int32_t, float, ToInteger<std::int32_t, kRounding>>;
    case Type::kU32:
      return &run_unary<std::uint32_t, float, ToInteger<std::uint32_t, kRounding>>;
    default:
      decoder.fail("unsupported conversion");
  }
}

Code from_f32(Decoder& decoder, Type to) {
  const std::string_view rounding = decoder.take_one_of({"rni", "rzi", "rmi", "rpi", "rn"});
  const bool is_whole = to == Type::kF32;
  if (rounding == "rni") {
    return is_whole ? &run_unary<float, float, ToWhole<Rounding::kNearest>>
                    : to_integer<Rounding::kNearest>(decoder, to);
  }
  if (rounding == "rzi") {
    return is_whole ? &run_unary<float, float, ToWhole<Rounding::kZero>>
                    : to_integer<Rounding::kZero>(decoder, to);
  }
  if (rounding == "rmi") {
    return is_whole ? &run_unary<float, float, ToWhole<Rounding::kDown>>
                    : to_integer<Rounding::kDown>(decoder, to);
  }
  if (rounding == "rpi") {
    return is_whole ? &run_unary<float, float, ToWhole<Rounding::kUp>>
                    : to_integer<Rounding::kUp>(decoder, to);
  }
  switch (to) {
    case Type::kF16:
      return &run_unary<std::uint16_t, float, ToF16>;
    case Type::kBF16:
      return &run_unary<std::uint16_t, float, ToBF16>;
    default:
      decoder.fail("unsupported conversion");
  }
}

Code to_f32(Decoder& decoder, Type from) {
  switch (from) {
    case Type::kF16:
      return &run_unary<float, std::uint16_t, FromF16>;
    case Type::kBF16:
      decoder.take("rn");  // exact with and without it
      return &run_unary<float, std::uint16_t, FromBF16>;
    default:
      break;
  }
  decoder.require("rn");
  return pick_integer(decoder, from,
                      []<typename T>() -> Code { return &run_unary<float, T, ToFloat>; });
}

// cvt.rn.bf16x2.f32 d, high, low.
void decode_pair(Decoder& decoder, Type to) {
  const bool is_power = to == Type::kUE8M0x2;
  const bool rounds_up = is_power && decoder.take_one_of({"rp", "rz"}) == "rp";
  if (!is_power) {
    decoder.require("rn");
  }
  decoder.expect_operands(3);
  decoder.add(decoder.destination(0, bits_of(to)));
  decoder.add(decoder.source(1, Type::kF32));
  decoder.add(decoder.source(2, Type::kF32));
  switch (to) {
    case Type::kF16x2:
      decoder.op().code = &run_binary<std::uint32_t, float, float, ToF16Pair>;
      break;
    case Type::kBF16x2:
      decoder.op().code = &run_binary<std::uint32_t, float, float, ToBF16Pair>;
      break;
    case Type::kE4M3x2:
      decoder.require("satfinite");
      decoder.op().code = &run_binary<std::uint16_t, float, float, ToE4M3Pair>;
      break;
    case Type::kE5M2x2:
      decoder.require("satfinite");
      decoder.op().code = &run_binary<std::uint16_t, float, float, ToE5M2Pair>;
      break;
    case Type::kUE8M0x2:
      decoder.require("satfinite");
      decoder.op().code = rounds_up ? &run_binary<std::uint16_t, float, float, ToUE8M0Pair<true>>
                                    : &run_binary<std::uint16_t, float, float, ToUE8M0Pair<false>>;
      break;
    default:
      decoder.fail("unsupported conversion");
  }
}

void decode_cvt(Decoder& decoder) {
  const Type to = decoder.take_type();
  const Type from = decoder.take_type();
  if (bits_of(to) > 1 && from == Type::kF32 && decoder.instruction().operands.size() == 3) {
    decode_pair(decoder, to);
    return;
  }
  decoder.expect_operands(2);
  if (!is_float(to) && !is_float(from)) {
    decode_integer(decoder, to, from);
    return;
  }
  decoder.add(decoder.destination(0, bits_of(to)));
  decoder.add(decoder.source(1, from));
  const auto is_bytes = [](Type type) { return type == Type::kE4M3x2 || type == Type::kE5M2x2; };
  if (to == Type::kF16x2 && is_bytes(from)) {
    decoder.require("rn");
    decoder.op().code =
        from == Type::kE4M3x2
            ? &run_unary<std::uint32_t, std::uint16_t, BytePairToF16Pair<&e4m3_value>>
            : &run_unary<std::uint32_t, std::uint16_t, BytePairToF16Pair<&e5m2_value>>;
  } else if (is_bytes(to) && from == Type::kF16x2) {
    decoder.require("rn");
    decoder.require("satfinite");
    decoder.op().code = to == Type::kE4M3x2
                            ? &run_unary<std::uint16_t, std::uint32_t, F16PairTo<ToE4M3Pair>>
                            : &run_unary<std::uint16_t, std::uint32_t, F16PairTo<ToE5M2Pair>>;
  } else if (to == Type::kUE8M0x2 && from == Type::kBF16x2) {
    const bool rounds_up = decoder.take_one_of({"rp", "rz"}) == "rp";
    decoder.require("satfinite");
    decoder.op().code = rounds_up ? &run_unary<std::uint16_t, std::uint32_t, ToUE8M0Pair<true>>
                                  : &run_unary<std::uint16_t, std::uint32_t, ToUE8M0Pair<false>>;
  } else if (to == Type::kBF16x2 && from == Type::kUE8M0x2) {
    decoder.require("rn");
    decoder.op().code = &run_unary<std::uint32_t, std::uint16_t, UE8M0PairToBF16Pair>;
  } else if (from == Type::kF32) {
    decoder.op().code = from_f32(decoder, to);
  } else if (to == Type::kF32) {
    decoder.op().code = to_f32(decoder, from);
  } else {
    decoder.fail("unsupported conversion");
  }
}

struct SpaceConversion {
  std::uint64_t distance = 0;  // added to the address
};

Outcome run_cvta(Warp& warp, const Op& op, Lanes lanes) {
  auto values = warp.read<std::uint64_t>(op.slots[1]);
  for (std::uint64_t& value : values.lanes) {
    value += op.get<SpaceConversion>().distance;
  }
  warp.write(op.slots[0], values, lanes, warp.valid(op.slots[1]));
  return Outcome::kDone;
}

void decode_cvta(Decoder& decoder) {
  const bool is_to = decoder.take("to");
  const std::string_view space =
      decoder.take_one_of({"global", "shared", "local", "param", "const"});
  decoder.take_one_of({"u64"});
  add_alike(decoder, Type::kB64, 1);
  const std::uint64_t window = space == "shared"  ? kSharedWindow
                               : space == "local" ? kLocalWindow
                               : space == "param" ? kParameterWindow
                                                  : 0;
  decoder.op().details.set(SpaceConversion{.distance = is_to ? std::uint64_t{0} - window : window});
  decoder.op().code = &run_cvta;
}

constexpr std::array kOperations = {
    Operation{"cvt", &decode_cvt},
    Operation{"cvta", &decode_cvta},
};

}  // namespace

std::span<const Operation> conversion_operations() {
  return kOperations;
}

}  // namespace emu
