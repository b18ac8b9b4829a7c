// Micro-kernels of floats. Their model is the host's arithmetic, with its own mode of flushing.
#include <array>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "emulator/captures/builder.hpp"
#include "emulator/captures/formats.hpp"

namespace captures {
namespace {

using Operands = std::array<std::uint64_t, 4>;

float float_of(std::uint64_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}
std::uint64_t bits_of_float(float value) {
  return std::isnan(value) ? 0x7FFFFFFFU : std::bit_cast<std::uint32_t>(value);
}

// In which the processor takes subnormals as zeros, and makes none.
class Flushing {
 public:
#if defined(__SSE__)
  static constexpr bool kIsThere = true;
  explicit Flushing(bool flushes) : before_(__builtin_ia32_stmxcsr()) {
    __builtin_ia32_ldmxcsr(flushes ? before_ | 0x8040U : before_);
  }
  ~Flushing() { __builtin_ia32_ldmxcsr(before_); }
#else
  static constexpr bool kIsThere = false;
  explicit Flushing(bool /*flushes*/) {}
  ~Flushing() = default;
#endif
  Flushing(const Flushing&) = delete;
  Flushing& operator=(const Flushing&) = delete;

 private:
  [[maybe_unused]] unsigned before_ = 0;
};

using FloatModel = float (*)(float a, float b, float c);

LaneModel model_of(FloatModel model, bool flushes) {
  if (flushes && !Flushing::kIsThere) {
    return {};
  }
  return [=](const Operands& x) {
    const Flushing mode(flushes);
    // As the compiler would otherwise compute in the mode that it knows.
    volatile float a = float_of(x[0]);
    volatile float b = float_of(x[1]);
    volatile float c = float_of(x[2]);
    volatile float result = model(a, b, c);
    return bits_of_float(result);
  };
}

struct FloatOperation {
  std::string_view name;
  std::size_t arity;
  FloatModel model;
};

float fused(float a, float b, float c) {
  return std::fma(a, b, c);
}

void add_f32(MicroKernels& to, const FloatOperation& operation, std::string_view modifiers) {
  constexpr std::array<std::string_view, 3> kSources = {" $a", ", $b", ", $c"};
  const bool flushes = modifiers.find(".ftz") != std::string_view::npos;
  const bool saturates = modifiers.find(".sat") != std::string_view::npos;
  LaneOperation made{.name = fmt::format("{}{}.f32", operation.name, modifiers), .family = "float"};
  made.text = made.name + " $d,";
  for (std::size_t i = 0; i < operation.arity; ++i) {
    made.text += kSources.at(i);
    made.operands.push_back({32, &floats});
  }
  made.text += ";";
  if (operation.model != nullptr && !saturates) {
    made.model = model_of(operation.model, flushes);
    if (flushes) {  // whether what rounds to the least normal number is flushed before or after
      made.model_tolerance.absolute = 0x1p-126;
    }
  }
  add_lane_operation(to, made);
}

float least(float a, float b, float /*c*/) {
  return std::isnan(a) ? b : std::isnan(b) ? a : a == b ? (std::signbit(a) ? a : b) : a < b ? a : b;
}
float most(float a, float b, float /*c*/) {
  return -least(-a, -b, 0);
}

void add_binary32(MicroKernels& to) {
  const std::array four = {
      FloatOperation{"add.rn", 2, [](float a, float b, float) { return a + b; }},
      FloatOperation{"sub.rn", 2, [](float a, float b, float) { return a - b; }},
      FloatOperation{"mul.rn", 2, [](float a, float b, float) { return a * b; }},
      FloatOperation{"fma.rn", 3, &fused}};
  for (const FloatOperation& operation : four) {
    for (const std::string_view modifiers : {"", ".ftz", ".sat", ".ftz.sat"}) {
      add_f32(to, operation, modifiers);
    }
  }
  const std::array two = {
      FloatOperation{"div.rn", 2, [](float a, float b, float) { return a / b; }},
      FloatOperation{"sqrt.rn", 1, [](float a, float, float) { return std::sqrt(a); }},
      FloatOperation{"rcp.rn", 1, [](float a, float, float) { return 1.0F / a; }},
      FloatOperation{"min", 2, nullptr},
      FloatOperation{"max", 2, nullptr},
      FloatOperation{"neg", 1, nullptr},
      FloatOperation{"abs", 1, nullptr}};
  for (FloatOperation operation : two) {
    add_f32(to, operation, ".ftz");
    if (operation.name == "min" || operation.name == "max") {
      operation.model = operation.name == "min" ? &least : &most;
    }
    add_f32(to, operation, "");
  }
  add_f32(to, {"copysign", 2, nullptr}, "");
}

// What is approximated has an error that PTX ISA 9.0 states, or 2 units of the last place.
struct Approximate {
  std::string_view text;
  Fill fill;
  std::size_t arity;
  Tolerance tolerance;
};

void add_approximate(MicroKernels& to) {
  using enum fovea::DType;
  const Tolerance two{kF32, 2, 0, 0};
  const double tanh_error = std::ldexp(1.0, -11);
  const double trigonometric = std::ldexp(1.0, -19);  // documented up to 2 pi: 2^-20.5
  const std::array all = {
      Approximate{"ex2.approx.f32", &floats, 1, two},
      Approximate{"ex2.approx.ftz.f32", &floats, 1, two},
      Approximate{"rcp.approx.f32", &floats, 1, two},
      Approximate{"rcp.approx.ftz.f32", &floats, 1, two},
      Approximate{"rsqrt.approx.f32", &floats, 1, two},
      Approximate{"rsqrt.approx.ftz.f32", &floats, 1, two},
      Approximate{"sqrt.approx.f32", &floats, 1, two},
      Approximate{"sqrt.approx.ftz.f32", &floats, 1, two},
      Approximate{"lg2.approx.f32", &floats, 1, {kF32, 2, 0, std::ldexp(1.0, -22)}},
      Approximate{"lg2.approx.ftz.f32", &floats, 1, {kF32, 2, 0, std::ldexp(1.0, -22)}},
      Approximate{"sin.approx.f32", &moderate_floats, 1, {kF32, 2, 0, trigonometric}},
      Approximate{"sin.approx.ftz.f32", &moderate_floats, 1, {kF32, 2, 0, trigonometric}},
      Approximate{"cos.approx.f32", &moderate_floats, 1, {kF32, 2, 0, trigonometric}},
      Approximate{"cos.approx.ftz.f32", &moderate_floats, 1, {kF32, 2, 0, trigonometric}},
      Approximate{"tanh.approx.f32", &floats, 1, {kF32, 2, tanh_error, 0}},
      Approximate{"tanh.approx.f16x2", &counted_pairs, 1, {kF16, 2, 0, std::ldexp(1.0, -10)}},
      Approximate{"tanh.approx.bf16x2", &counted_pairs, 1, {kBF16, 2, std::ldexp(1.0, -8), 0}},
      Approximate{"div.approx.f32", &moderate_floats, 2, two},
      Approximate{"div.approx.ftz.f32", &moderate_floats, 2, two},
      Approximate{"div.full.f32", &moderate_floats, 2, two},
      Approximate{"div.full.ftz.f32", &moderate_floats, 2, two},
  };
  for (const Approximate& one : all) {
    LaneOperation made{.name = std::string(one.text),
                       .family = "approximate",
                       .text = fmt::format("{} $d, $a{};", one.text, one.arity == 2 ? ", $b" : "")};
    made.operands.assign(one.arity, {32, one.fill});
    made.tolerance = one.tolerance;
    made.count = one.fill == &counted_pairs ? 32768 : 16384;
    add_lane_operation(to, made);
  }
}

// One half of a pair: exact in binary64 where it is one product or two numbers of near exponents;
// elsewhere through long double, whose 64 bits hold what matters of binary16.
template <typename F>
LaneModel pair_model(const ShortFormat& format, F&& of_values) {
  return [&format, of_values](const Operands& x) {
    std::uint64_t result = 0;
    for (unsigned half = 0; half < 32; half += 16) {
      std::array<long double, 3> values{};
      for (std::size_t i = 0; i < 3; ++i) {
        values.at(i) = format.value(static_cast<std::uint32_t>(x.at(i) >> half & 0xFFFFU));
      }
      result |= std::uint64_t{format.nearest(of_values(values[0], values[1], values[2]))} << half;
    }
    return result;
  };
}

void add_pairs(MicroKernels& to, std::string_view type, Fill fill, const ShortFormat& format) {
  using L = long double;
  const bool is_exact = format.exponent_bits == 5;  // sums of bf16 need more bits than there are
  const auto add = [&](std::string_view name, std::size_t arity, LaneModel model) {
    LaneOperation made{.name = fmt::format("{}.{}", name, type),
                       .family = "pair",
                       .text = fmt::format("{}.{} $d, $a{}{};", name, type, arity > 1 ? ", $b" : "",
                                           arity > 2 ? ", $c" : "")};
    made.operands.assign(arity, {32, fill});
    made.model = std::move(model);
    add_lane_operation(to, made);
  };
  const auto sum = pair_model(format, [](L a, L b, L) { return a + b; });
  const auto difference = pair_model(format, [](L a, L b, L) { return a - b; });
  const auto product = pair_model(format, [](L a, L b, L) { return a * b; });
  add("add.rn", 2, is_exact ? sum : LaneModel());
  add("sub.rn", 2, is_exact ? difference : LaneModel());
  add("mul.rn", 2, product);
  add("add", 2, is_exact ? sum : LaneModel());
  add("mul", 2, product);
  add("fma.rn", 3, {});
  add("min", 2, {});
  add("max", 2, {});
  add("neg", 1, {});
  add("abs", 1, {});
}

}  // namespace

void add_floats(MicroKernels& to) {
  add_binary32(to);
  add_approximate(to);
  add_pairs(to, "f16x2", &half_pairs, kBinary16);
  add_pairs(to, "bf16x2", &bfloat_pairs, kBFloat16);
}

}  // namespace captures
