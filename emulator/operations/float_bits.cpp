// Instructions that choose among floats, or change or test their bits: min, max, neg, abs,
// copysign, testp.
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <type_traits>

#include "emulator/operations/floating.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/registers.hpp"

namespace emu {
namespace {

using Min = decltype([](float a, float b) { return lesser_number(a, b); });
using Max = decltype([](float a, float b) { return greater_number(a, b); });
// Minimum or maximum with .NaN: NaN if an operand is NaN.
template <typename F>
struct OrNan {
  float operator()(float a, float b) const {
    return std::isnan(a) || std::isnan(b) ? std::numeric_limits<float>::quiet_NaN() : F{}(a, b);
  }
};
using Abs = decltype([](float a) { return std::abs(a); });

// Slots: the destination, then two or three sources.
struct Extreme {
  FloatElements elements{};
  std::size_t sources = 2;
  bool is_max = false;
  bool keeps_nan = false;         // .NaN
  bool takes_magnitudes = false;  // .abs
  bool has_sign_product = false;  // .xorsign
  bool flushes = false;

  [[nodiscard]] std::uint64_t choose(std::uint64_t a, std::uint64_t b) const {
    const FloatFormat format = elements.format;
    const std::uint64_t all = format.sign() | (format.sign() - 1);
    if (format.is_nan(a) || format.is_nan(b)) {
      const bool is_nan = keeps_nan || (format.is_nan(a) && format.is_nan(b));
      return is_nan             ? (format == kF64 ? quiet_nan(b, format) : format.nan())
             : format.is_nan(a) ? b
                                : a;
    }
    // Gives unsigned numbers that have the order of the floats, -0 before 0.
    const auto key = [&](std::uint64_t bits) {
      return (bits & format.sign()) != 0 ? ~bits & all : bits | format.sign();
    };
    return (key(a) < key(b)) != is_max ? a : b;
  }

  [[nodiscard]] std::uint64_t compute(const std::array<std::uint64_t, 3>& operands) const {
    const FloatFormat format = elements.format;
    const std::uint64_t all = format.sign() | (format.sign() - 1);
    const auto operand = [&](std::size_t i) {
      const std::uint64_t bits = operands.at(i) & (takes_magnitudes ? all ^ format.sign() : all);
      return flushes ? format.flush(bits) : bits;
    };
    std::uint64_t chosen = operand(0);
    for (std::size_t i = 1; i < sources; ++i) {
      chosen = choose(chosen, operand(i));
    }
    return has_sign_product && !format.is_nan(chosen)
               ? chosen | ((operands[0] ^ operands[1]) & format.sign())
               : chosen;
  }
};

Outcome run_extreme(Warp& warp, const Op& op, Lanes lanes) {
  const auto& extreme = op.get<Extreme>();
  const int bits = extreme.elements.bits();
  std::array<Vec<std::uint64_t>, 3> sources{};
  Lanes valid = kAllLanes;
  for (std::size_t i = 0; i < extreme.sources; ++i) {
    sources.at(i) = read_bits(warp, op.slots[i + 1], bits);
    valid &= warp.valid(op.slots[i + 1]);
  }
  Vec<std::uint64_t> results{};
  for_each_lane(lanes, [&](int lane) {
    for (int place = 0; place < bits; place += extreme.elements.format.bits()) {
      results.lanes[lane] |=
          extreme.compute({sources[0].lanes[lane] >> place, sources[1].lanes[lane] >> place,
                           sources[2].lanes[lane] >> place})
          << place;
    }
  });
  write_bits(warp, op.slots[0], bits, results, lanes, valid);
  return Outcome::kDone;
}

template <typename F>
void decode_extreme(Decoder& decoder) {
  const Type type = decoder.take_type();
  Extreme extreme{.elements = float_elements(decoder, type), .is_max = std::is_same_v<F, Max>};
  if (type == Type::kF32x2) {
    decoder.fail("unsupported type");
  }
  if (type == Type::kF32 && decoder.instruction().operands.size() == 4) {
    extreme.sources = 3;
  }
  extreme.flushes = take_flush(decoder, type);
  if (type != Type::kF64) {
    extreme.keeps_nan = decoder.take("NaN");
    extreme.has_sign_product = extreme.sources == 2 && decoder.take("xorsign");
    extreme.takes_magnitudes =
        (extreme.has_sign_product || extreme.sources == 3) && decoder.take("abs");
  }
  if (extreme.has_sign_product && !extreme.takes_magnitudes) {
    decoder.fail("expected .abs behind .xorsign");
  }
  add_same_type(decoder, type, extreme.sources);
  if (type == Type::kF32 && extreme.sources == 2 && !extreme.has_sign_product) {
    const auto code = [&]<typename G>() -> Code {
      return extreme.flushes ? &run_lane_wise<WithModifiers<G, true, false>, float, float, float>
                             : &run_lane_wise<WithModifiers<G, false, false>, float, float, float>;
    };
    decoder.op().code =
        extreme.keeps_nan ? code.template operator()<OrNan<F>>() : code.template operator()<F>();
    return;
  }
  decoder.op().details.set(extreme);
  decoder.op().code = &run_extreme;
}

// Instruction that changes the sign of numbers alone. The NaN of GPU arithmetic stands for those of
// 16-bit floats; those of binary64, which are added to zero, become quiet.
struct SignChange {
  FloatElements elements{};
  bool is_abs = false;
  bool flushes = false;

  [[nodiscard]] std::uint64_t compute(std::uint64_t operand) const {
    const FloatFormat format = elements.format;
    const std::uint64_t bits = operand & (format.sign() | (format.sign() - 1));
    if (format.is_nan(bits)) {
      return format == kF64 ? quiet_nan(bits, format) : format.nan();
    }
    const std::uint64_t changed = is_abs ? bits & ~format.sign() : bits ^ format.sign();
    return flushes ? format.flush(changed) : changed;
  }
};

Outcome run_sign_change(Warp& warp, const Op& op, Lanes lanes) {
  const auto& change = op.get<SignChange>();
  Vec<std::uint64_t> values = read_bits(warp, op.slots[1], change.elements.bits());
  for_each_lane(lanes, [&](int lane) {
    const std::uint64_t operands = values.lanes[lane];
    values.lanes[lane] = 0;
    for (int place = 0; place < change.elements.bits(); place += change.elements.format.bits()) {
      values.lanes[lane] |= change.compute(operands >> place) << place;
    }
  });
  write_bits(warp, op.slots[0], change.elements.bits(), values, lanes, warp.valid(op.slots[1]));
  return Outcome::kDone;
}

template <typename F>
void decode_sign_change(Decoder& decoder) {
  const Type type = decoder.take_type();
  SignChange change{.elements = float_elements(decoder, type),
                    .is_abs = std::is_same_v<F, Abs>,
                    .flushes = take_flush(decoder, type)};
  if (type == Type::kF32x2) {
    decoder.fail("unsupported type");
  }
  add_same_type(decoder, type, 1);
  if (type == Type::kF32) {
    decoder.op().code = change.flushes
                            ? &run_lane_wise<WithModifiers<F, true, false>, float, float>
                            : &run_lane_wise<WithModifiers<F, false, false>, float, float>;
    return;
  }
  decoder.op().details.set(change);
  decoder.op().code = &run_sign_change;
}

// Combines the first operand's sign with the second operand's magnitude.
using CopySign = decltype([]<typename T>(T sign, T magnitude) {
  constexpr T kSign = T{1} << (8 * sizeof(T) - 1);
  return (sign & kSign) | (magnitude & ~kSign);
});

void decode_copysign(Decoder& decoder) {
  const bool is_double = decoder.peek_type() == Type::kF64;
  decoder.require(is_double ? "f64" : "f32");
  add_same_type(decoder, is_double ? Type::kF64 : Type::kF32, 2);
  using Words = std::uint64_t;
  using Word = std::uint32_t;
  decoder.op().code = is_double ? &run_lane_wise<CopySign, Words, Words, Words>
                                : &run_lane_wise<CopySign, Word, Word, Word>;
}

enum class Property : std::uint8_t {
  kFinite,
  kInfinite,
  kNumber,
  kNotANumber,
  kNormal,
  kSubnormal,
};
constexpr std::array<std::string_view, 6> kProperties = {"finite",     "infinite", "number",
                                                         "notanumber", "normal",   "subnormal"};

struct PropertyTest {
  FloatElements elements{};
  Property property{};

  [[nodiscard]] bool holds(std::uint64_t bits) const {
    const FloatFormat format = elements.format;
    const bool is_infinite = (bits & ~format.sign()) == format.infinity();
    const bool is_nan = format.is_nan(bits);
    const bool is_subnormal = format.is_subnormal(bits);
    switch (property) {
      case Property::kFinite:
        return !is_infinite && !is_nan;
      case Property::kInfinite:
        return is_infinite;
      case Property::kNumber:
        return !is_nan;
      case Property::kNotANumber:
        return is_nan;
      case Property::kNormal:
        return !is_infinite && !is_nan && !is_subnormal;
      case Property::kSubnormal:
        return is_subnormal;
    }
    return false;
  }
};

Outcome run_testp(Warp& warp, const Op& op, Lanes lanes) {
  const auto& test = op.get<PropertyTest>();
  const Vec<std::uint64_t> values = read_bits(warp, op.slots[1], test.elements.bits());
  Lanes holding = 0;
  for_each_lane(lanes,
                [&](int lane) { holding |= test.holds(values.lanes[lane]) ? lane_bit(lane) : 0; });
  warp.write_predicate(op.slots[0], holding, lanes, warp.valid(op.slots[1]));
  return Outcome::kDone;
}

void decode_testp(Decoder& decoder) {
  const auto property = static_cast<Property>(decoder.take_index_of(kProperties));
  const Type type = decoder.take_type();
  if (type != Type::kF32 && type != Type::kF64) {
    decoder.fail("unsupported type");
  }
  decoder.add_operands(1, {type});
  decoder.op().details.set(
      PropertyTest{.elements = float_elements(decoder, type), .property = property});
  decoder.op().code = &run_testp;
}

constexpr std::array kOperations = {
    Operation{"copysign", &decode_copysign},
    Operation{"testp", &decode_testp},
};

}  // namespace

void decode_float_min(Decoder& decoder) {
  decode_extreme<Min>(decoder);
}
void decode_float_max(Decoder& decoder) {
  decode_extreme<Max>(decoder);
}
void decode_float_neg(Decoder& decoder) {
  decode_sign_change<std::negate<>>(decoder);
}
void decode_float_abs(Decoder& decoder) {
  decode_sign_change<Abs>(decoder);
}

std::span<const Operation> float_bit_operations() {
  return kOperations;
}

}  // namespace emu
