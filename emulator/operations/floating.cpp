// Floating-point arithmetic on binary32 and on pairs of floats: add, sub, mul, fma, div, sqrt, rcp,
// rsqrt, ex2, lg2, tanh, min, max, copysign.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/number_formats.hpp"
#include "emulator/operations/operations.hpp"

namespace emu {
namespace {

float flush_to_zero(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : value;
}

// Smallest magnitude that rounds to a normal number at 24 bits with an unbounded exponent. .ftz
// flushes smaller results to zero, even those that would round up to the smallest normal number.
constexpr double kMinNormal = std::numeric_limits<float>::min() * (1 - 0x1p-25);

struct Mul {
  float operator()(float a, float b) const { return a * b; }
  static bool is_tiny(float a, float b) { return std::abs(double{a} * b) < kMinNormal; }
};
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
struct Fma {
  float operator()(float a, float b, float c) const { return std::fma(a, b, c); }
  static bool is_tiny(float a, float b, float c) {
    const double product = double{a} * b;
    const double sum = product + c;
    const double part = sum - product;  // the part of the sum that c contributed
    const double error = (product - (sum - part)) + (c - part);
    return std::abs(sum) < kMinNormal ||
           (std::abs(sum) == kMinNormal && std::signbit(error) != std::signbit(sum) && error != 0);
  }
};

using Sqrt = decltype([](float a) { return std::sqrt(a); });
using Reciprocal = decltype([](float a) { return 1.0F / a; });
// Functions that GPUs approximate; the emulator computes them in binary64 and rounds.
using ReciprocalRoot =
    decltype([](float a) { return static_cast<float>(1.0 / std::sqrt(double{a})); });
using PowerOfTwo = decltype([](float a) { return static_cast<float>(std::exp2(double{a})); });
using Logarithm = decltype([](float a) { return static_cast<float>(std::log2(double{a})); });
using Tanh = decltype([](float a) { return static_cast<float>(std::tanh(double{a})); });
using Sine = decltype([](float a) { return static_cast<float>(std::sin(double{a})); });
using Cosine = decltype([](float a) { return static_cast<float>(std::cos(double{a})); });

// Applies the modifiers .ftz and .sat to operands and result.
template <typename F, bool kFlushes, bool kSaturates>
struct WithModifiers {
  float operator()(auto... operands) const {
    float result = kFlushes ? F{}(flush_to_zero(operands)...) : F{}(operands...);
    if constexpr (kFlushes && requires { F::is_tiny(operands...); }) {
      if (F::is_tiny(flush_to_zero(operands)...)) {
        result = std::copysign(0.0F, result);
      }
    } else if constexpr (kFlushes) {
      result = flush_to_zero(result);
    }
    if constexpr (kSaturates) {
      result = result > 0 ? std::min(result, 1.0F) : 0.0F;
    }
    return canonicalize_nan(result);
  }
};

// Decodes a binary32 instruction. Only .rn is supported, which is also the default.
template <typename F, typename... Floats>
void decode_single(Decoder& decoder) {
  decoder.require("f32");
  add_same_type(decoder, Type::kF32, sizeof...(Floats));
  decoder.take("rn");
  const bool flushes = decoder.take("ftz");
  const bool saturates = decoder.take("sat");
  decoder.op().code =
      flushes && saturates ? &run_lane_wise<WithModifiers<F, true, true>, float, Floats...>
      : flushes            ? &run_lane_wise<WithModifiers<F, true, false>, float, Floats...>
      : saturates          ? &run_lane_wise<WithModifiers<F, false, true>, float, Floats...>
                           : &run_lane_wise<WithModifiers<F, false, false>, float, Floats...>;
}

// Decodes a binary32 instruction without rounding and .sat modifiers.
template <typename F>
void decode_sign(Decoder& decoder) {
  const bool flushes = decoder.take("ftz");
  decoder.require("f32");
  add_same_type(decoder, Type::kF32, 1);
  decoder.op().code = flushes ? &run_lane_wise<WithModifiers<F, true, false>, float, float>
                              : &run_lane_wise<WithModifiers<F, false, false>, float, float>;
}

// Combines the first operand's sign with the second operand's magnitude.
using CopySign = decltype([](std::uint32_t sign, std::uint32_t magnitude) {
  return (sign & 0x80000000U) | (magnitude & 0x7FFFFFFFU);
});

void decode_copysign(Decoder& decoder) {
  decoder.require("f32");
  add_same_type(decoder, Type::kF32, 2);
  decoder.op().code = &run_lane_wise<CopySign, std::uint32_t, std::uint32_t, std::uint32_t>;
}

// Adds two numbers in binary64, rounding to odd, so that a second rounding to a shorter format
// gives the correctly rounded sum (Boldo and Melquiond, "Emulation of FMA and correctly rounded
// sums", 2008).
double add_to_odd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) {
    return sum;
  }
  const double b_part = sum - a;
  const double error = (a - (sum - b_part)) + (b - b_part);
  auto bits = std::bit_cast<std::uint64_t>(sum);
  if (error != 0 && (bits & 1U) == 0) {
    const bool rounds_away = (error > 0) == (sum > 0);
    bits = rounds_away ? bits + 1 : bits - 1;
  }
  return std::bit_cast<double>(bits);
}

template <float (*kValue)(std::uint16_t), std::uint16_t (*kBits)(double), typename F>
struct MapPair {
  std::uint32_t operator()(auto... operands) const {
    std::uint32_t result = 0;
    for (std::uint32_t half = 0; half < 32; half += 16) {
      result |= std::uint32_t{kBits(F{}(kValue(static_cast<std::uint16_t>(operands >> half))...))}
                << half;
    }
    return result;
  }
};

// Arithmetic on the elements of a pair: exact in binary64, except that sums round to odd.
using PairAdd = decltype([](float a, float b) { return add_to_odd(a, b); });
using PairSub = decltype([](float a, float b) { return add_to_odd(a, -b); });
using PairMul = decltype([](float a, float b) { return double{a} * double{b}; });
using PairFma =
    decltype([](float a, float b, float c) { return add_to_odd(double{a} * double{b}, c); });

// Decodes an instruction on a pair of binary16 or bfloat16.
template <typename F, typename... Words>
void decode_pair(Decoder& decoder) {
  const Type type = decoder.take_type();
  decoder.take("rn");
  add_same_type(decoder, type, sizeof...(Words));
  using MapF16 = MapPair<&f16_value, &f16_bits_of_double, F>;
  using MapBF16 = MapPair<&bf16_value, &bf16_bits_of_double, F>;
  decoder.op().code = type == Type::kF16x2 ? &run_lane_wise<MapF16, std::uint32_t, Words...>
                                           : &run_lane_wise<MapBF16, std::uint32_t, Words...>;
}

template <typename F, typename... Words>
void decode_pair_or_nan(Decoder& decoder) {
  if (decoder.take("NaN")) {
    decode_pair<OrNan<F>, Words...>(decoder);
  } else {
    decode_pair<F, Words...>(decoder);
  }
}

// Applies a function to both binary32 numbers in 64 bits.
template <typename F>
struct MapSingles {
  std::uint64_t operator()(auto... operands) const {
    std::uint64_t result = 0;
    for (unsigned half = 0; half < 64; half += 32) {
      const float value =
          F{}(std::bit_cast<float>(static_cast<std::uint32_t>(operands >> half))...);
      result |= std::uint64_t{std::bit_cast<std::uint32_t>(value)} << half;
    }
    return result;
  }
};

template <typename F, typename... Words>
void decode_singles(Decoder& decoder) {
  decoder.require("f32x2");
  decoder.take("rn");
  const bool flushes = decoder.take("ftz");
  add_same_type(decoder, Type::kF32x2, sizeof...(Words));
  using Unmodified = MapSingles<WithModifiers<F, false, false>>;
  using FlushingToZero = MapSingles<WithModifiers<F, true, false>>;
  decoder.op().code = flushes ? &run_lane_wise<FlushingToZero, std::uint64_t, Words...>
                              : &run_lane_wise<Unmodified, std::uint64_t, Words...>;
}

bool is_pair(Type type) {
  return type == Type::kF16x2 || type == Type::kBF16x2;
}

using Word = std::uint32_t;   // a pair of 16-bit floats
using Words = std::uint64_t;  // two binary32 numbers

void decode_fma(Decoder& decoder) {
  const Type type = decoder.peek_type().value_or(Type::kB32);
  if (type == Type::kF32x2) {
    decode_singles<Fma, Words, Words, Words>(decoder);
  } else if (is_pair(type)) {
    decoder.require("rn");
    decode_pair<PairFma, Word, Word, Word>(decoder);
  } else {
    decode_single<Fma, float, float, float>(decoder);
  }
}

void decode_tanh(Decoder& decoder) {
  decoder.require("approx");
  if (is_pair(decoder.peek_type().value_or(Type::kB32))) {
    decode_pair<Tanh, Word>(decoder);
    return;
  }
  decoder.require("f32");
  add_same_type(decoder, Type::kF32, 1);
  decoder.op().code = &run_lane_wise<WithModifiers<Tanh, false, false>, float, float>;
}

template <typename F>
void decode_approximate(Decoder& decoder) {
  decoder.require("approx");
  decode_single<F, float>(decoder);
}

template <typename F>
void decode_approximate_or_rounded(Decoder& decoder) {
  if (!decoder.take("approx")) {
    decoder.require("rn");
  }
  decode_single<F, float>(decoder);
}

void decode_div(Decoder& decoder) {
  if (!decoder.take("approx") && !decoder.take("full")) {
    decoder.require("rn");
  }
  decode_single<std::divides<>, float, float>(decoder);
}

// Decoders of a mnemonic that integer types share, one for each kind of float type; null if the
// kind is not supported.
struct FloatOperation {
  std::string_view mnemonic;
  void (*single)(Decoder& decoder) = nullptr;
  void (*pair)(Decoder& decoder) = nullptr;
  void (*singles)(Decoder& decoder) = nullptr;
};
constexpr std::array<FloatOperation, 8> kFloatOperations = {{
    {"add", &decode_single<std::plus<>, float, float>, &decode_pair<PairAdd, Word, Word>,
     &decode_singles<std::plus<>, Words, Words>},
    {"sub", &decode_single<std::minus<>, float, float>, &decode_pair<PairSub, Word, Word>,
     &decode_singles<std::minus<>, Words, Words>},
    {"mul", &decode_single<Mul, float, float>, &decode_pair<PairMul, Word, Word>,
     &decode_singles<Mul, Words, Words>},
    {"div", &decode_div},
    {"min", &decode_single<Min, float, float>, &decode_pair_or_nan<Min, Word, Word>},
    {"max", &decode_single<Max, float, float>, &decode_pair_or_nan<Max, Word, Word>},
    {"neg", &decode_sign<std::negate<>>, &decode_pair<std::negate<>, Word>},
    {"abs", &decode_sign<Abs>, &decode_pair<Abs, Word>},
}};

constexpr std::array kOperations = {
    Operation{"fma", &decode_fma},
    Operation{"copysign", &decode_copysign},
    Operation{"sqrt", &decode_approximate_or_rounded<Sqrt>},
    Operation{"rcp", &decode_approximate_or_rounded<Reciprocal>},
    Operation{"rsqrt", &decode_approximate<ReciprocalRoot>},
    Operation{"ex2", &decode_approximate<PowerOfTwo>},
    Operation{"lg2", &decode_approximate<Logarithm>},
    Operation{"sin", &decode_approximate<Sine>},
    Operation{"cos", &decode_approximate<Cosine>},
    Operation{"tanh", &decode_tanh},
};

}  // namespace

bool decode_packed_or_float(Decoder& decoder) {
  const auto type = decoder.peek_type();
  if (!type || !is_float(*type)) {
    return false;
  }
  const auto* const row =
      std::ranges::find(kFloatOperations, decoder.mnemonic(), &FloatOperation::mnemonic);
  const auto decode = is_pair(*type)          ? row->pair
                      : *type == Type::kF32x2 ? row->singles
                                              : row->single;
  if (decode == nullptr) {
    decoder.fail("unsupported type");
  }
  decode(decoder);
  return true;
}

std::span<const Operation> float_operations() {
  return kOperations;
}

}  // namespace emu
