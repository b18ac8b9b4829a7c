// Functions that GPUs approximate: rcp, sqrt, rsqrt, ex2, lg2, sin, cos and tanh with .approx. The
// emulator computes them in binary64 and rounds.
#include <array>
#include <bit>
#include <cmath>

#include "emulator/operations/floating.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/registers.hpp"

namespace emu {
namespace {

template <double (*kFunction)(double)>
struct Single {
  float operator()(float a) const { return static_cast<float>(kFunction(a)); }
};
// The functions of the standard library are overloaded, which template arguments cannot be.
double square_root_of(double a) {
  return std::sqrt(a);
}
double power_of_two(double a) {
  return std::exp2(a);
}
double logarithm(double a) {
  return std::log2(a);
}
double sine(double a) {
  return std::sin(a);
}
double cosine(double a) {
  return std::cos(a);
}
double hyperbolic_tangent(double a) {
  return std::tanh(a);
}
double reciprocal(double a) {
  return 1.0 / a;
}
double reciprocal_root(double a) {
  return 1.0 / std::sqrt(a);
}

struct Approximation {
  FloatElements elements{};
  bool flushes = false;
};

double double_of(std::uint64_t bits, FloatFormat format) {
  const auto number = decode_float<std::uint64_t>(bits, format);
  return std::bit_cast<double>(encode_float(number, kF64, Rounding::kNearestEven));
}

// A function of 16-bit floats.
template <double (*kFunction)(double)>
Outcome run_approximation(Warp& warp, const Op& op, Lanes lanes) {
  const auto& [elements, flushes] = op.get<Approximation>();
  const FloatFormat format = elements.format;
  const FloatResult result{.format = format, .flushes = flushes};
  Vec<std::uint64_t> values = read_bits(warp, op.slots[1], elements.bits());
  for_each_lane(lanes, [&](int lane) {
    const std::uint64_t operands = values.lanes[lane];
    values.lanes[lane] = 0;
    for (int place = 0; place < elements.bits(); place += format.bits()) {
      const std::uint64_t operand = operands >> place;
      const double value = kFunction(double_of(flushes ? format.flush(operand) : operand, format));
      values.lanes[lane] |=
          result.encode(decode_float<std::uint64_t>(std::bit_cast<std::uint64_t>(value), kF64))
          << place;
    }
  });
  write_bits(warp, op.slots[0], elements.bits(), values, lanes, warp.valid(op.slots[1]));
  return Outcome::kDone;
}

// Function of the upper half of a binary64 number, which computes the upper half of its result.
template <double (*kFunction)(double)>
struct UpperHalf {
  std::uint64_t operator()(std::uint64_t a) const {
    constexpr std::uint64_t kNan = 0x7FFFFFFF00000000;
    constexpr std::uint64_t kUpper = 0xFFFFFFFF00000000;
    const double operand = std::bit_cast<double>(kF64.flush(a & kUpper));
    const double value = kFunction(operand);
    return std::isnan(value) ? kNan : kF64.flush(std::bit_cast<std::uint64_t>(value)) & kUpper;
  }
};

template <double (*kFunction)(double)>
void decode_single(Decoder& decoder) {
  decoder.require("f32");
  const bool flushes = decoder.take("ftz");
  add_same_type(decoder, Type::kF32, 1);
  decoder.op().code =
      flushes ? &run_lane_wise<WithModifiers<Single<kFunction>, true, false>, float, float>
              : &run_lane_wise<WithModifiers<Single<kFunction>, false, false>, float, float>;
}

// Decodes a function of 16-bit floats.
template <double (*kFunction)(double)>
void decode_short(Decoder& decoder, bool flushes) {
  const Type type = decoder.take_type();
  const FloatElements elements = float_elements(decoder, type);
  if (elements.format != kF16 && elements.format != kBF16) {
    decoder.fail("unsupported type");
  }
  add_same_type(decoder, type, 1);
  decoder.op().details.set(Approximation{.elements = elements, .flushes = flushes});
  decoder.op().code = &run_approximation<kFunction>;
}

template <double (*kFunction)(double)>
void decode_upper_half(Decoder& decoder) {
  decoder.require("f64");
  add_same_type(decoder, Type::kF64, 1);
  decoder.op().code = &run_lane_wise<UpperHalf<kFunction>, std::uint64_t, std::uint64_t>;
}

template <double (*kFunction)(double)>
void decode_approximate(Decoder& decoder) {
  decoder.require("approx");
  decode_single<kFunction>(decoder);
}

void decode_ex2(Decoder& decoder) {
  decoder.require("approx");
  const auto type = decoder.peek_type();
  if (type == Type::kF32) {
    decode_single<&power_of_two>(decoder);
    return;
  }
  if (type == Type::kBF16 || type == Type::kBF16x2) {
    decoder.require("ftz");
    decode_short<&power_of_two>(decoder, true);
  } else {
    decode_short<&power_of_two>(decoder, false);
  }
}

void decode_tanh(Decoder& decoder) {
  decoder.require("approx");
  if (decoder.peek_type() == Type::kF32) {
    decoder.require("f32");
    add_same_type(decoder, Type::kF32, 1);
    decoder.op().code =
        &run_lane_wise<WithModifiers<Single<&hyperbolic_tangent>, false, false>, float, float>;
  } else {
    decode_short<&hyperbolic_tangent>(decoder, false);
  }
}

using DoubleRoot = decltype([](double a) { return reciprocal_root(a); });

void decode_rsqrt(Decoder& decoder) {
  decoder.require("approx");
  if (decoder.peek_type() != Type::kF64) {
    decode_single<&reciprocal_root>(decoder);
  } else if (decoder.take("ftz")) {
    decode_upper_half<&reciprocal_root>(decoder);
  } else {
    decoder.require("f64");
    add_same_type(decoder, Type::kF64, 1);
    decoder.op().code = &run_lane_wise<DoubleRoot, double, double>;
  }
}

constexpr std::array kOperations = {
    Operation{"rsqrt", &decode_rsqrt},
    Operation{"ex2", &decode_ex2},
    Operation{"lg2", &decode_approximate<&logarithm>},
    Operation{"sin", &decode_approximate<&sine>},
    Operation{"cos", &decode_approximate<&cosine>},
    Operation{"tanh", &decode_tanh},
};

}  // namespace

void decode_approximate_rcp(Decoder& decoder) {
  if (decoder.peek_type() == Type::kF64) {
    decoder.require("ftz");
    decode_upper_half<&reciprocal>(decoder);
  } else {
    decode_single<&reciprocal>(decoder);
  }
}

void decode_approximate_sqrt(Decoder& decoder) {
  decode_single<&square_root_of>(decoder);
}

std::span<const Operation> float_function_operations() {
  return kOperations;
}

}  // namespace emu
