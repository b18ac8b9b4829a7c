// Floats: arithmetic of binary32, and of pairs of 16-bit floats; fma, div, sqrt, rcp, rsqrt, ex2,
// lg2, tanh, copysign.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/number_formats.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/packed.hpp"

namespace emu {
namespace {

float flushed(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : value;
}

// What is less becomes less than the least normal number when it is rounded to 24 bits, however
// small its exponent. .ftz makes zero of that, though as a subnormal number it may be rounded up.
constexpr double kLeastNormal = std::numeric_limits<float>::min() * (1 - 0x1p-25);

struct Add {
  double operator()(double a, double b) const { return a + b; }
  float operator()(float a, float b) const { return a + b; }
};
struct Sub {
  double operator()(double a, double b) const { return a - b; }
  float operator()(float a, float b) const { return a - b; }
};
struct Mul {
  double operator()(double a, double b) const { return a * b; }
  float operator()(float a, float b) const { return a * b; }
  static bool is_tiny(float a, float b) { return std::abs(double{a} * b) < kLeastNormal; }
};
struct Div {
  float operator()(float a, float b) const { return a / b; }
};
// The one that is a number; -0 is less than 0.
struct Min {
  float operator()(float a, float b) const {
    if (std::isnan(a) || std::isnan(b)) {
      return std::isnan(a) ? b : a;
    }
    return a < b || (a == b && std::signbit(a)) ? a : b;
  }
};
struct Max {
  float operator()(float a, float b) const {
    if (std::isnan(a) || std::isnan(b)) {
      return std::isnan(a) ? b : a;
    }
    return a > b || (a == b && !std::signbit(a)) ? a : b;
  }
};
// .NaN: a NaN if one of them is.
template <typename F>
struct OrNan {
  float operator()(float a, float b) const {
    return std::isnan(a) || std::isnan(b) ? std::numeric_limits<float>::quiet_NaN() : F{}(a, b);
  }
};
struct Neg {
  float operator()(float a) const { return -a; }
};
struct Abs {
  float operator()(float a) const { return std::abs(a); }
};
struct Fma {
  float operator()(float a, float b, float c) const { return std::fma(a, b, c); }
  static bool is_tiny(float a, float b, float c) {
    const double product = double{a} * b;
    const double sum = product + c;
    const double part = sum - product;  // of the sum, what c has given
    const double error = (product - (sum - part)) + (c - part);
    return std::abs(sum) < kLeastNormal || (std::abs(sum) == kLeastNormal &&
                                            std::signbit(error) != std::signbit(sum) && error != 0);
  }
};

struct Sqrt {
  float operator()(float a) const { return std::sqrt(a); }
};
struct Reciprocal {
  float operator()(float a) const { return 1.0F / a; }
};
// Where GPUs approximate, the emulator rounds what binary64 gives.
struct ReciprocalRoot {
  float operator()(float a) const { return static_cast<float>(1.0 / std::sqrt(double{a})); }
};
struct PowerOfTwo {
  float operator()(float a) const { return static_cast<float>(std::exp2(double{a})); }
};
struct Logarithm {
  float operator()(float a) const { return static_cast<float>(std::log2(double{a})); }
};
struct Tanh {
  float operator()(float a) const { return static_cast<float>(std::tanh(double{a})); }
};
struct Sine {
  float operator()(float a) const { return static_cast<float>(std::sin(double{a})); }
};
struct Cosine {
  float operator()(float a) const { return static_cast<float>(std::cos(double{a})); }
};

// Applies the modifiers .ftz and .sat to operands and result.
template <typename F, bool kFlushes, bool kSaturates>
struct Modified {
  float operator()(auto... operands) const {
    float result = kFlushes ? F{}(flushed(operands)...) : F{}(operands...);
    if constexpr (kFlushes && requires { F::is_tiny(operands...); }) {
      if (F::is_tiny(flushed(operands)...)) {
        result = std::copysign(0.0F, result);
      }
    } else if constexpr (kFlushes) {
      result = flushed(result);
    }
    if constexpr (kSaturates) {
      result = result > 0 ? std::min(result, 1.0F) : 0.0F;
    }
    return canonical(result);
  }
};

struct Modifiers {
  bool flushes = false;
  bool saturates = false;
};

// .rn alone is known of the roundings, and is what is meant where none is said.
Modifiers take_modifiers(Decoder& decoder) {
  decoder.take("rn");
  const bool flushes = decoder.take("ftz");
  return {.flushes = flushes, .saturates = decoder.take("sat")};
}

template <template <typename> class Run, typename F>
Code with_modifiers(Modifiers modifiers) {
  if (modifiers.flushes) {
    return modifiers.saturates ? Run<Modified<F, true, true>>::kCode
                               : Run<Modified<F, true, false>>::kCode;
  }
  return modifiers.saturates ? Run<Modified<F, false, true>>::kCode
                             : Run<Modified<F, false, false>>::kCode;
}

template <typename F>
struct Unary {
  static constexpr Code kCode = &run_unary<float, float, F>;
};
template <typename F>
struct Binary {
  static constexpr Code kCode = &run_binary<float, float, float, F>;
};
template <typename F>
struct Ternary {
  static constexpr Code kCode = &run_ternary<float, float, float, float, F>;
};

template <typename F>
void decode_unary_f32(Decoder& decoder) {
  decoder.require("f32");
  add_alike(decoder, Type::kF32, 1);
  decoder.op().code = with_modifiers<Unary, F>(take_modifiers(decoder));
}

// Decodes what has neither a rounding nor .sat.
template <typename F>
void decode_sign_f32(Decoder& decoder) {
  const Modifiers modifiers{.flushes = decoder.take("ftz")};
  decoder.require("f32");
  add_alike(decoder, Type::kF32, 1);
  decoder.op().code = with_modifiers<Unary, F>(modifiers);
}

template <typename F>
void decode_binary_f32(Decoder& decoder) {
  decoder.require("f32");
  add_alike(decoder, Type::kF32, 2);
  decoder.op().code = with_modifiers<Binary, F>(take_modifiers(decoder));
}

struct CopySign {  // the first one's sign, the second one's magnitude
  std::uint32_t operator()(std::uint32_t sign, std::uint32_t magnitude) const {
    return (sign & 0x80000000U) | (magnitude & 0x7FFFFFFFU);
  }
};

void decode_copysign(Decoder& decoder) {
  decoder.require("f32");
  add_alike(decoder, Type::kF32, 2);
  decoder.op().code = &run_binary<std::uint32_t, std::uint32_t, std::uint32_t, CopySign>;
}

// A sum of two numbers in binary64, rounded to odd: so that to round it once more to a shorter
// format gives what one rounding gives (Boldo and Melquiond, "Emulation of FMA and correctly
// rounded sums", 2008).
double sum_to_odd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) {
    return sum;
  }
  const double b_part = sum - a;
  const double error = (a - (sum - b_part)) + (b - b_part);
  auto bits = std::bit_cast<std::uint64_t>(sum);
  if (error != 0 && (bits & 1U) == 0) {
    const bool is_away = (error > 0) == (sum > 0);
    bits = is_away ? bits + 1 : bits - 1;
  }
  return std::bit_cast<double>(bits);
}

struct F16 {
  static float value(std::uint32_t bits) { return f16_value(static_cast<std::uint16_t>(bits)); }
  static std::uint32_t bits(double value) { return f16_bits_of_double(value); }
};
struct BF16 {
  static float value(std::uint32_t bits) { return bf16_value(static_cast<std::uint16_t>(bits)); }
  static std::uint32_t bits(double value) { return bf16_bits_of_double(value); }
};

template <typename Format, typename F>
struct OfPair {
  std::uint32_t operator()(auto... operands) const {
    std::uint32_t result = 0;
    for (std::uint32_t half = 0; half < 32; half += 16) {
      result |= Format::bits(F{}(Format::value(operands >> half & 0xFFFFU)...)) << half;
    }
    return result;
  }
};

// Exact in binary64, but for sums, which are rounded to odd.
struct PairAdd {
  double operator()(float a, float b) const { return sum_to_odd(a, b); }
};
struct PairSub {
  double operator()(float a, float b) const { return sum_to_odd(a, -b); }
};
struct PairMul {
  double operator()(float a, float b) const { return double{a} * double{b}; }
};
struct PairFma {
  double operator()(float a, float b, float c) const {
    return sum_to_odd(double{a} * double{b}, c);
  }
};

template <typename F>
Code pair_unary(Type type) {
  using Word = std::uint32_t;
  return type == Type::kF16x2 ? &run_unary<Word, Word, OfPair<F16, F>>
                              : &run_unary<Word, Word, OfPair<BF16, F>>;
}

template <typename F>
Code pair_binary(Type type) {
  using Word = std::uint32_t;
  return type == Type::kF16x2 ? &run_binary<Word, Word, Word, OfPair<F16, F>>
                              : &run_binary<Word, Word, Word, OfPair<BF16, F>>;
}

void decode_pair(Decoder& decoder, Type type) {
  decoder.take("rn");
  const std::string_view name = decoder.mnemonic();
  if (name == "neg" || name == "abs") {
    add_alike(decoder, type, 1);
    decoder.op().code = name == "neg" ? pair_unary<Neg>(type) : pair_unary<Abs>(type);
    return;
  }
  add_alike(decoder, type, 2);
  Code& code = decoder.op().code;
  if (name == "add") {
    code = pair_binary<PairAdd>(type);
  } else if (name == "sub") {
    code = pair_binary<PairSub>(type);
  } else if (name == "mul") {
    code = pair_binary<PairMul>(type);
  } else if (name == "min") {
    code = decoder.take("NaN") ? pair_binary<OrNan<Min>>(type) : pair_binary<Min>(type);
  } else if (name == "max") {
    code = decoder.take("NaN") ? pair_binary<OrNan<Max>>(type) : pair_binary<Max>(type);
  } else {
    decoder.fail("unsupported for pairs");
  }
}

// Two of binary32 in 64 bits.
template <typename F>
struct OfFloats {
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

template <typename F>
void decode_floats(Decoder& decoder, std::size_t sources) {
  using Words = std::uint64_t;
  decoder.take("rn");
  const bool flushes = decoder.take("ftz");
  add_alike(decoder, Type::kF32x2, sources);
  using Plain = OfFloats<Modified<F, false, false>>;
  using Flushing = OfFloats<Modified<F, true, false>>;
  if constexpr (requires { F{}(1.0F, 1.0F, 1.0F); }) {
    decoder.op().code = flushes ? &run_ternary<Words, Words, Words, Words, Flushing>
                                : &run_ternary<Words, Words, Words, Words, Plain>;
  } else {
    decoder.op().code = flushes ? &run_binary<Words, Words, Words, Flushing>
                                : &run_binary<Words, Words, Words, Plain>;
  }
}

void decode_fma(Decoder& decoder) {
  const Type type = decoder.take_type();
  if (type == Type::kF32x2) {
    decode_floats<Fma>(decoder, 3);
    return;
  }
  if (type == Type::kF16x2 || type == Type::kBF16x2) {
    using Word = std::uint32_t;
    decoder.require("rn");
    add_alike(decoder, type, 3);
    decoder.op().code = type == Type::kF16x2
                            ? &run_ternary<Word, Word, Word, Word, OfPair<F16, PairFma>>
                            : &run_ternary<Word, Word, Word, Word, OfPair<BF16, PairFma>>;
    return;
  }
  if (type != Type::kF32) {
    decoder.fail("unsupported type");
  }
  add_alike(decoder, Type::kF32, 3);
  decoder.op().code = with_modifiers<Ternary, Fma>(take_modifiers(decoder));
}

void decode_tanh(Decoder& decoder) {
  decoder.require("approx");
  const Type type = decoder.take_type();
  add_alike(decoder, type, 1);
  if (type == Type::kF32) {
    decoder.op().code = &run_unary<float, float, Modified<Tanh, false, false>>;
  } else if (type == Type::kF16x2 || type == Type::kBF16x2) {
    decoder.op().code = pair_unary<Tanh>(type);
  } else {
    decoder.fail("unsupported type");
  }
}

template <typename F>
void decode_approximate(Decoder& decoder) {
  decoder.require("approx");
  decode_unary_f32<F>(decoder);
}

void decode_reciprocal(Decoder& decoder) {
  if (!decoder.take("approx")) {
    decoder.require("rn");
  }
  decode_unary_f32<Reciprocal>(decoder);
}

void decode_sqrt(Decoder& decoder) {
  if (!decoder.take("approx")) {
    decoder.require("rn");
  }
  decode_unary_f32<Sqrt>(decoder);
}

constexpr std::array kOperations = {
    Operation{"fma", &decode_fma},
    Operation{"copysign", &decode_copysign},
    Operation{"sqrt", &decode_sqrt},
    Operation{"rcp", &decode_reciprocal},
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
  const std::string_view name = decoder.mnemonic();
  if (*type == Type::kF16x2 || *type == Type::kBF16x2) {
    decode_pair(decoder, decoder.take_type());
  } else if (*type == Type::kF32x2) {
    decoder.take("f32x2");
    if (name == "add") {
      decode_floats<Add>(decoder, 2);
    } else if (name == "sub") {
      decode_floats<Sub>(decoder, 2);
    } else if (name == "mul") {
      decode_floats<Mul>(decoder, 2);
    } else {
      decoder.fail("unsupported type");
    }
  } else if (name == "add") {
    decode_binary_f32<Add>(decoder);
  } else if (name == "sub") {
    decode_binary_f32<Sub>(decoder);
  } else if (name == "mul") {
    decode_binary_f32<Mul>(decoder);
  } else if (name == "div") {
    if (!decoder.take("approx") && !decoder.take("full")) {
      decoder.require("rn");
    }
    decode_binary_f32<Div>(decoder);
  } else if (name == "min") {
    decode_binary_f32<Min>(decoder);
  } else if (name == "max") {
    decode_binary_f32<Max>(decoder);
  } else {
    name == "neg" ? decode_sign_f32<Neg>(decoder) : decode_sign_f32<Abs>(decoder);
  }
  return true;
}

std::span<const Operation> float_operations() {
  return kOperations;
}

}  // namespace emu
