// Arithmetic on floats of all formats and rounding modes: add, sub, mul, fma, mad, div, rcp, sqrt.
#include "emulator/operations/floating.hpp"

#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <utility>

#include "emulator/operations/operations.hpp"
#include "emulator/operations/registers.hpp"

namespace emu {
namespace {

// Smallest magnitude that rounds to a normal number at 24 bits with an unbounded exponent. .ftz
// flushes smaller results to zero, even those that would round up to the smallest normal number.
constexpr double kMinNormal = std::numeric_limits<float>::min() * (1 - 0x1p-25);

// An instruction has a function that the host computes, for .rn of binary32 and binary64, and one
// of exact numbers, for all other formats and rounding modes. It must name the rounding mode or
// not, and is only there for binary32 and binary64 or for 16-bit and packed formats, too. Of
// several NaN of binary64 the result is the first one in kNanOrder: the hardware's, or that of the
// code that ptxas makes.
struct Add {
  static constexpr std::size_t kSources = 2;
  static constexpr std::array<std::size_t, kSources> kNanOrder = {1, 0};
  static constexpr bool kNamesRounding = false;
  static constexpr bool kIsUnpacked = false;
  auto operator()(auto a, auto b) const { return a + b; }
  template <typename Units>
  static Number<Units> exact(const Number<Units>& a, const Number<Units>& b, Rounding rounding) {
    return sum(a, b, rounding);
  }
};
struct Sub {
  static constexpr std::size_t kSources = 2;
  static constexpr std::array<std::size_t, kSources> kNanOrder = {1, 0};
  static constexpr bool kNamesRounding = false;
  static constexpr bool kIsUnpacked = false;
  auto operator()(auto a, auto b) const { return a - b; }
  template <typename Units>
  static Number<Units> exact(const Number<Units>& a, Number<Units> b, Rounding rounding) {
    b.is_negative = !b.is_negative;
    return sum(a, b, rounding);
  }
};
struct Mul {
  static constexpr std::size_t kSources = 2;
  static constexpr std::array<std::size_t, kSources> kNanOrder = {1, 0};
  static constexpr bool kNamesRounding = false;
  static constexpr bool kIsUnpacked = false;
  auto operator()(auto a, auto b) const { return a * b; }
  static bool is_tiny(float a, float b) { return std::abs(double{a} * b) < kMinNormal; }
  template <typename Units>
  static Number<Units> exact(const Number<Units>& a, const Number<Units>& b,
                             Rounding /*rounding*/) {
    return product(a, b);
  }
};
struct Fma {
  static constexpr std::size_t kSources = 3;
  static constexpr std::array<std::size_t, kSources> kNanOrder = {1, 2, 0};
  static constexpr bool kNamesRounding = true;
  static constexpr bool kIsUnpacked = false;
  auto operator()(auto a, auto b, auto c) const { return std::fma(a, b, c); }
  static bool is_tiny(float a, float b, float c) {
    const double product = double{a} * b;
    const double sum = product + c;
    const double part = sum - product;  // the part of the sum that c contributed
    const double error = (product - (sum - part)) + (c - part);
    return std::abs(sum) < kMinNormal ||
           (std::abs(sum) == kMinNormal && std::signbit(error) != std::signbit(sum) && error != 0);
  }
  template <typename Units>
  static Number<Units> exact(const Number<Units>& a, const Number<Units>& b, const Number<Units>& c,
                             Rounding rounding) {
    return sum(product(a, b), c, rounding);
  }
};
struct Div {
  static constexpr std::size_t kSources = 2;
  static constexpr std::array<std::size_t, kSources> kNanOrder = {0, 1};
  static constexpr bool kNamesRounding = true;
  static constexpr bool kIsUnpacked = true;
  auto operator()(auto a, auto b) const { return a / b; }
  template <typename Units>
  static Number<Units> exact(const Number<Units>& a, const Number<Units>& b,
                             Rounding /*rounding*/) {
    return quotient(a, b);
  }
};
struct Reciprocal {
  static constexpr std::size_t kSources = 1;
  static constexpr std::array<std::size_t, kSources> kNanOrder = {0};
  static constexpr bool kNamesRounding = true;
  static constexpr bool kIsUnpacked = true;
  template <typename T>
  T operator()(T a) const {
    return T{1} / a;
  }
  template <typename Units>
  static Number<Units> exact(const Number<Units>& a, Rounding /*rounding*/) {
    return quotient(Number<Units>{.units = 1}, a);
  }
};
struct SquareRoot {
  static constexpr std::size_t kSources = 1;
  static constexpr std::array<std::size_t, kSources> kNanOrder = {0};
  static constexpr bool kNamesRounding = true;
  static constexpr bool kIsUnpacked = true;
  auto operator()(auto a) const { return std::sqrt(a); }
  template <typename Units>
  static Number<Units> exact(const Number<Units>& a, Rounding /*rounding*/) {
    return square_root(a);
  }
};

// Slots: the destination, then the sources, whose formats may be shorter than the result's.
struct ExactArithmetic {
  FloatResult result{};
  std::array<FloatFormat, 3> sources{};
  int count = 1;  // numbers in a register
};

// Returns the NaN of an operation of binary64, which keeps the payload of one of its operands.
template <typename F>
std::uint64_t nan_of_binary64(const std::array<std::uint64_t, F::kSources>& sources) {
  constexpr std::uint64_t kInvalid = 0xFFF8000000000000;
  for (const std::size_t i : F::kNanOrder) {
    if (kF64.is_nan(sources[i])) {
      return quiet_nan(sources[i], kF64);
    }
  }
  return kInvalid;
}

// Function of binary64 that the host computes, but for NaN, of which it may choose another one.
template <typename F>
struct WithPayload {
  double operator()(auto... operands) const {
    const double result = F{}(operands...);
    return std::isnan(result) ? std::bit_cast<double>(
                                    nan_of_binary64<F>({std::bit_cast<std::uint64_t>(operands)...}))
                              : result;
  }
};

// kFormat is the format of all operands, rounded to nearest, if the compiler is to know it, which
// is faster.
template <typename F, typename Units, FloatFormat kFormat = FloatFormat{}>
Outcome run_exact(Warp& warp, const Op& op, Lanes lanes) {
  auto [result, formats, count] = op.get<ExactArithmetic>();
  if constexpr (kFormat != FloatFormat{}) {
    result.format = kFormat;
    result.rounding = Rounding::kNearestEven;
    formats.fill(kFormat);
  }
  std::array<Vec<std::uint64_t>, F::kSources> registers;
  Lanes valid = kAllLanes;
  for (std::size_t i = 0; i < F::kSources; ++i) {
    registers[i] = read_bits(warp, op.slots[i + 1], formats[i].bits() * count);
    valid &= warp.valid(op.slots[i + 1]);
  }
  Vec<std::uint64_t> results{};
  const auto compute = [&]<std::size_t... kIndices>(int lane, int element,
                                                    std::index_sequence<kIndices...>) {
    const std::array<std::uint64_t, F::kSources> sources{registers[kIndices].lanes[lane] >>
                                                         (element * formats[kIndices].bits())...};
    const auto number = [&](std::size_t i) {
      return decode_float<Units>(result.flushes ? formats[i].flush(sources[i]) : sources[i],
                                 formats[i]);
    };
    const Number<Units> exact = F::exact(number(kIndices)..., result.rounding);
    if constexpr (sizeof(Units) > sizeof(std::uint64_t)) {
      if (exact.is_nan()) {
        return nan_of_binary64<F>(sources);
      }
    }
    return result.encode(exact);
  };
  for_each_lane(lanes, [&](int lane) {
    for (int element = 0; element < count; ++element) {
      results.lanes[lane] |= compute(lane, element, std::make_index_sequence<F::kSources>())
                             << (element * result.format.bits());
    }
  });
  write_bits(warp, op.slots[0], result.format.bits() * count, results, lanes, valid);
  return Outcome::kDone;
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

template <std::size_t, typename T>
using Repeated = T;

// Returns the code of .rn in formats that the host computes with; null for all others.
template <typename F>
Code native_code(Type type, bool flushes, bool saturates) {
  return [=]<std::size_t... kIndices>(std::index_sequence<kIndices...>) -> Code {
    const auto single = [&]<bool kFlushes, bool kSaturates>() -> Code {
      return &run_lane_wise<WithModifiers<F, kFlushes, kSaturates>, float,
                            Repeated<kIndices, float>...>;
    };
    switch (type) {
      case Type::kF32:
        return flushes && saturates ? single.template operator()<true, true>()
               : flushes            ? single.template operator()<true, false>()
               : saturates          ? single.template operator()<false, true>()
                                    : single.template operator()<false, false>();
      case Type::kF32x2:
        return flushes ? &run_lane_wise<MapSingles<WithModifiers<F, true, false>>, std::uint64_t,
                                        Repeated<kIndices, std::uint64_t>...>
                       : &run_lane_wise<MapSingles<WithModifiers<F, false, false>>, std::uint64_t,
                                        Repeated<kIndices, std::uint64_t>...>;
      case Type::kF64:
        return &run_lane_wise<WithPayload<F>, double, Repeated<kIndices, double>...>;
      default:
        return nullptr;
    }
  }(std::make_index_sequence<F::kSources>());
}

// Decodes an instruction of one of the formats, or of binary32 with shorter factors or summands:
// add.f32.bf16.
template <typename F>
void decode_arithmetic(Decoder& decoder) {
  const Type type = decoder.take_type();
  const FloatElements elements = float_elements(decoder, type);
  if (F::kIsUnpacked && type != Type::kF32 && type != Type::kF64) {
    decoder.fail("unsupported type");
  }
  const bool is_half = elements.format == kF16 || elements.format == kBF16;
  ExactArithmetic details{.count = elements.count};
  FloatResult& result = details.result;
  result.format = elements.format;
  result.rounding = take_rounding(decoder, F::kNamesRounding);
  if (is_half && result.rounding != Rounding::kNearestEven) {
    decoder.fail("unsupported rounding");
  }
  result.flushes = take_flush(decoder, type);
  result.saturates = (type == Type::kF32 || elements.format == kF16) && decoder.take("sat");
  result.has_relu = is_half && F::kSources == 3 && !result.saturates && decoder.take("relu");
  details.sources.fill(elements.format);
  std::vector<Type> sources(F::kSources, type);
  const auto short_type = decoder.peek_type();
  const bool is_mixed = type == Type::kF32 && F::kSources > 1 && !result.flushes &&
                        (short_type == Type::kF16 || short_type == Type::kBF16);
  if (is_mixed) {
    decoder.take_type();
    for (std::size_t i = 0; i + 1 < F::kSources; ++i) {
      sources[i] = *short_type;
      details.sources.at(i) = *short_type == Type::kF16 ? kF16 : kBF16;
    }
  }
  decoder.add_operands(bits_of(type), sources);
  if (result.rounding == Rounding::kNearestEven && !is_half && !is_mixed) {
    decoder.op().code = native_code<F>(type, result.flushes, result.saturates);
    return;
  }
  decoder.op().details.set(details);
  Code& code = decoder.op().code;
  if constexpr (!F::kIsUnpacked) {
    if (is_half) {
      code = elements.format == kF16 ? &run_exact<F, std::uint64_t, kF16>
                                     : &run_exact<F, std::uint64_t, kBF16>;
      return;
    }
  }
  code = elements.format == kF32 ? &run_exact<F, std::uint64_t> : &run_exact<F, UInt128>;
}

void decode_rcp(Decoder& decoder) {
  if (decoder.take("approx")) {
    decode_approximate_rcp(decoder);
  } else {
    decode_arithmetic<Reciprocal>(decoder);
  }
}

void decode_sqrt(Decoder& decoder) {
  if (decoder.take("approx")) {
    decode_approximate_sqrt(decoder);
  } else {
    decode_arithmetic<SquareRoot>(decoder);
  }
}

struct FloatDecoder {
  std::string_view mnemonic;
  void (*decode)(Decoder& decoder);
};
// Decoders of mnemonics that integer types share.
constexpr std::array<FloatDecoder, 9> kFloatDecoders = {{
    {"add", &decode_arithmetic<Add>},
    {"sub", &decode_arithmetic<Sub>},
    {"mul", &decode_arithmetic<Mul>},
    {"mad", &decode_arithmetic<Fma>},
    {"div", &decode_float_div},
    {"min", &decode_float_min},
    {"max", &decode_float_max},
    {"neg", &decode_float_neg},
    {"abs", &decode_float_abs},
}};

constexpr std::array kOperations = {
    Operation{"fma", &decode_arithmetic<Fma>},
    Operation{"rcp", &decode_rcp},
    Operation{"sqrt", &decode_sqrt},
};

// Quotient of div.approx, which is 0 where the divisor's reciprocal would be subnormal.
struct ApproximateQuotient {
  float operator()(float a, float b) const {
    const bool is_large = std::abs(b) > 0x1p126F && !std::isinf(b) && !std::isnan(a);
    return !is_large       ? a / b
           : std::isinf(a) ? std::numeric_limits<float>::quiet_NaN()
                           : std::copysign(0.0F, std::signbit(a) != std::signbit(b) ? -1.0F : 1.0F);
  }
};

}  // namespace

FloatElements float_elements(const Decoder& decoder, Type type) {
  switch (type) {
    case Type::kF64:
      return {.format = kF64, .count = 1};
    case Type::kF32:
      return {.format = kF32, .count = 1};
    case Type::kF32x2:
      return {.format = kF32, .count = 2};
    case Type::kF16:
      return {.format = kF16, .count = 1};
    case Type::kF16x2:
      return {.format = kF16, .count = 2};
    case Type::kBF16:
      return {.format = kBF16, .count = 1};
    case Type::kBF16x2:
      return {.format = kBF16, .count = 2};
    default:
      decoder.fail("unsupported type");
  }
}

Rounding take_rounding(Decoder& decoder, bool is_required) {
  constexpr std::array<std::string_view, 4> kNames = {"rn", "rz", "rm", "rp"};
  constexpr std::array kModes = {Rounding::kNearestEven, Rounding::kZero, Rounding::kDown,
                                 Rounding::kUp};
  if (is_required) {
    return kModes.at(decoder.take_index_of(kNames));
  }
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (decoder.take(kNames.at(i))) {
      return kModes.at(i);
    }
  }
  return Rounding::kNearestEven;
}

bool take_flush(Decoder& decoder, Type type) {
  const bool allows =
      type == Type::kF32 || type == Type::kF32x2 || type == Type::kF16 || type == Type::kF16x2;
  return allows && decoder.take("ftz");
}

void decode_float_div(Decoder& decoder) {
  const bool is_approximate = decoder.take("approx");
  if (!is_approximate && !decoder.take("full")) {
    decode_arithmetic<Div>(decoder);
    return;
  }
  decoder.require("f32");
  const bool flushes = decoder.take("ftz");
  add_same_type(decoder, Type::kF32, 2);
  const auto code = [&]<typename F>() -> Code {
    return flushes ? &run_lane_wise<WithModifiers<F, true, false>, float, float, float>
                   : &run_lane_wise<WithModifiers<F, false, false>, float, float, float>;
  };
  decoder.op().code = is_approximate ? code.template operator()<ApproximateQuotient>()
                                     : code.template operator()<Div>();
}

bool decode_float(Decoder& decoder) {
  const auto type = decoder.peek_type();
  if (!type || !is_float(*type)) {
    return false;
  }
  const auto* const row =
      std::ranges::find(kFloatDecoders, decoder.mnemonic(), &FloatDecoder::mnemonic);
  row->decode(decoder);
  return true;
}

std::span<const Operation> float_operations() {
  return kOperations;
}

}  // namespace emu
