// Micro-kernels of binary32 and binary64 in every rounding mode. Their model is the host's
// arithmetic in the same mode.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <type_traits>

#include <fmt/format.h>

#include "emulator/captures/builder.hpp"
#include "emulator/captures/host_rounding.hpp"

namespace captures {
namespace {

using Operands = std::array<std::uint64_t, 4>;

template <typename T>
using BitsOf = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <typename T>
T float_of(std::uint64_t bits) {
  return std::bit_cast<T>(static_cast<BitsOf<T>>(bits));
}

constexpr std::uint64_t kQuiet = 0x0008000000000000U;

// NaN of an operation: one for binary32; of binary64 an operand that is one, or the host's. A
// quotient looks at the first operand first, the other operations at the last factor or summand.
template <typename T>
std::uint64_t bits_of_result(T value, const Operands& x, std::string_view operation) {
  if (!std::isnan(value)) {
    return std::bit_cast<BitsOf<T>>(value);
  }
  if constexpr (sizeof(T) == 4) {
    return 0x7FFFFFFFU;
  } else {
    using Order = std::array<std::size_t, 3>;
    for (const std::size_t i : operation == "div" ? Order{0, 1, 2} : Order{1, 2, 0}) {
      if (std::isnan(float_of<double>(x.at(i)))) {
        return x.at(i) | kQuiet;
      }
    }
    return 0xFFF8000000000000U;
  }
}

template <typename T>
struct FloatOperation {
  std::string_view name;
  std::size_t arity;
  T (*model)(T a, T b, T c);
};

template <typename T>
void add_operation(MicroKernels& to, const FloatOperation<T>& operation, std::string_view mode,
                   std::string_view modifiers) {
  constexpr int kBits = 8 * sizeof(T);
  constexpr std::array<std::string_view, 3> kSources = {" $a", ", $b", ", $c"};
  const bool flushes = modifiers.find(".ftz") != std::string_view::npos;
  const bool saturates = modifiers.find(".sat") != std::string_view::npos;
  LaneOperation made{.name = fmt::format("{}.{}{}.f{}", operation.name, mode, modifiers, kBits),
                     .family = "rounding"};
  made.text = made.name + " $d,";
  for (std::size_t i = 0; i < operation.arity; ++i) {
    made.text += kSources.at(i);
    made.operands.push_back({kBits, kBits == 64 ? &doubles : &floats});
  }
  made.text += ";";
  made.result_bits = kBits;
  if (HostRounding::kIsThere) {
    made.model = [=](const Operands& x) {
      const HostRounding rounding(mode);
      // Otherwise the compiler computes in the mode that it knows.
      std::array<volatile T, 3> operands{};
      for (std::size_t i = 0; i < 3; ++i) {
        const T value = float_of<T>(x.at(i));
        operands.at(i) =
            flushes && std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(T{0}, value) : value;
      }
      volatile T computed = operation.model(operands[0], operands[1], operands[2]);
      const T result = computed;
      if (saturates) {
        const T limited = std::isnan(result) || std::signbit(result) ? 0 : std::min(result, T{1});
        return std::uint64_t{std::bit_cast<BitsOf<T>>(limited)};
      }
      const bool is_flushed = flushes && std::fpclassify(result) == FP_SUBNORMAL;
      return bits_of_result<T>(is_flushed ? std::copysign(T{0}, result) : result, x,
                               operation.name);
    };
    if (flushes) {  // results that round to the least normal number
      made.model_tolerance.absolute = 0x1p-126;
    }
  }
  add_lane_operation(to, made);
}

template <typename T>
void add_all(MicroKernels& to) {
  const std::array arithmetic = {
      FloatOperation<T>{"add", 2, [](T a, T b, T) { return a + b; }},
      FloatOperation<T>{"sub", 2, [](T a, T b, T) { return a - b; }},
      FloatOperation<T>{"mul", 2, [](T a, T b, T) { return a * b; }},
      FloatOperation<T>{"fma", 3, [](T a, T b, T c) { return std::fma(a, b, c); }},
      FloatOperation<T>{"mad", 3, [](T a, T b, T c) { return std::fma(a, b, c); }},
      FloatOperation<T>{"div", 2, [](T a, T b, T) { return a / b; }},
      FloatOperation<T>{"rcp", 1, [](T a, T, T) { return 1 / a; }},
      FloatOperation<T>{"sqrt", 1, [](T a, T, T) { return std::sqrt(a); }},
  };
  for (const auto& operation : arithmetic) {
    for (const std::string_view mode : {"rn", "rz", "rm", "rp"}) {
      if (sizeof(T) == 8 || mode != "rn") {
        add_operation<T>(to, operation, mode, "");
      }
      if (sizeof(T) == 4 && mode != "rn") {
        add_operation<T>(to, operation, mode, ".ftz");
        if (operation.name != "div" && operation.name != "rcp" && operation.name != "sqrt") {
          add_operation<T>(to, operation, mode, ".sat");
        }
      }
    }
  }
}

// Both numbers of f32x2, of which the second is the first plus 1.
void add_packed(MicroKernels& to, std::string_view mode) {
  LaneOperation made{.name = fmt::format("fma.{}.f32x2", mode), .family = "rounding"};
  made.text = fmt::format(R"(add.f32 %r60, $a, 0f3F800000;
  mov.b64 %rd50, {{$a, %r60}};
  mov.b64 %rd51, {{$b, $b}};
  fma.{}.f32x2 %rd52, %rd50, %rd51, %rd50;
  mov.b64 {{%r61, %r62}}, %rd52;
  xor.b32 $d, %r61, %r62;)",
                          mode);
  made.operands.assign(2, {32, &floats});
  if (HostRounding::kIsThere) {
    made.model = [=](const Operands& x) {
      const auto a = float_of<float>(x[0]);
      const auto b = float_of<float>(x[1]);
      const float above = a + 1;
      const HostRounding rounding(mode);
      const auto fused = [&](float value) {
        volatile float p = value;
        volatile float q = b;
        volatile float result = std::fma(p, q, p);
        return bits_of_result<float>(result, x, "fma");
      };
      return fused(a) ^ fused(above);
    };
  }
  add_lane_operation(to, made);
}

// -0 is less than 0; with .NaN a NaN decides, otherwise a number does.
template <typename T>
void add_extreme(MicroKernels& to, std::string_view name, std::string_view modifiers,
                 std::size_t arity) {
  constexpr int kBits = 8 * sizeof(T);
  const bool keeps_nan = modifiers.find("NaN") != std::string_view::npos;
  const bool takes_magnitudes = modifiers.find("abs") != std::string_view::npos;
  const bool has_sign = modifiers.find("xorsign") != std::string_view::npos;
  LaneOperation made{.name = fmt::format("{}{}.f{}.{}", name, modifiers, kBits, arity),
                     .family = "extreme",
                     .text = fmt::format("{}{}.f{} $d, $a, $b{};", name, modifiers, kBits,
                                         arity == 3 ? ", $c" : "")};
  made.operands.assign(arity, {kBits, kBits == 64 ? &doubles : &floats});
  made.result_bits = kBits;
  made.model = [=](const Operands& x) -> std::uint64_t {
    const std::uint64_t nan = ~std::uint64_t{0} >> (65U - kBits);
    std::array<T, 3> values{};
    std::size_t count = 0;
    for (std::size_t i = 0; i < arity; ++i) {
      const T value = float_of<T>(x.at(i));
      if (std::isnan(value) && keeps_nan) {
        return nan;
      }
      if (!std::isnan(value)) {
        values.at(count++) = takes_magnitudes ? std::abs(value) : value;
      }
    }
    if (count == 0) {
      return kBits == 64 ? x[1] | kQuiet : nan;
    }
    const auto is_less = [](T a, T b) {
      return a < b || (a == b && std::signbit(a) > std::signbit(b));
    };
    const auto end = values.begin() + static_cast<std::ptrdiff_t>(count);
    T result = name == "min" ? *std::min_element(values.begin(), end, is_less)
                             : *std::max_element(values.begin(), end, is_less);
    if (has_sign && ((x[0] ^ x[1]) >> (kBits - 1) & 1U) != 0) {
      result = -result;
    }
    return std::bit_cast<BitsOf<T>>(result);
  };
  add_lane_operation(to, made);
}

void add_signs(MicroKernels& to) {
  const auto add = [&](std::string_view text, std::size_t arity, LaneModel model) {
    LaneOperation made{.name = std::string(text), .family = "signs"};
    made.text = fmt::format("{} $d, $a{};", text, arity == 2 ? ", $b" : "");
    made.operands.assign(arity, {64, &doubles});
    made.result_bits = 64;
    made.model = std::move(model);
    add_lane_operation(to, made);
  };
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63U;
  const auto unless_nan = [](std::uint64_t bits, std::uint64_t changed) {
    return std::isnan(float_of<double>(bits)) ? bits | kQuiet : changed;
  };
  add("neg.f64", 1, [=](const Operands& x) { return unless_nan(x[0], x[0] ^ kSign); });
  add("abs.f64", 1, [=](const Operands& x) { return unless_nan(x[0], x[0] & ~kSign); });
  add("copysign.f64", 2, [](const Operands& x) { return (x[0] & kSign) | (x[1] & ~kSign); });
}

// All tests of a number in one kernel, a bit of the result each.
template <typename T>
void add_properties(MicroKernels& to) {
  constexpr int kBits = 8 * sizeof(T);
  constexpr std::array<std::string_view, 6> kNames = {"finite",     "infinite", "number",
                                                      "notanumber", "normal",   "subnormal"};
  LaneOperation made{.name = fmt::format("testp.f{}", kBits), .family = "signs"};
  made.text = "mov.b32 $d, 0;";
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    made.text += fmt::format(
        "\n  testp.{}.f{} %p12, $a;\n  selp.u32 %r51, {}, 0, %p12;\n  or.b32 $d, $d, %r51;",
        kNames.at(i), kBits, 1U << i);
  }
  made.operands = {{kBits, kBits == 64 ? &doubles : &floats}};
  made.model = [](const Operands& x) -> std::uint64_t {
    const int kind = std::fpclassify(float_of<T>(x[0]));
    const bool is_normal = kind == FP_NORMAL || kind == FP_ZERO;
    const bool is_subnormal = kind == FP_SUBNORMAL;
    return std::uint64_t{is_normal || is_subnormal} | std::uint64_t{kind == FP_INFINITE} << 1U |
           std::uint64_t{kind != FP_NAN} << 2U | std::uint64_t{kind == FP_NAN} << 3U |
           std::uint64_t{is_normal} << 4U | std::uint64_t{is_subnormal} << 5U;
  };
  add_lane_operation(to, made);
}

// Functions of binary64 that compute the upper half of their result, in which a card may be a unit
// away.
void add_upper_halves(MicroKernels& to) {
  for (const bool is_root : {false, true}) {
    LaneOperation made{.name = is_root ? "rsqrt.approx.ftz.f64" : "rcp.approx.ftz.f64",
                       .family = "approximate"};
    made.text = made.name +
                " %rd60, $a;\n  mov.b64 {%r60, $d}, %rd60;\n  or.b32 $d, $d, %r60;  // that is 0";
    made.operands = {{64, &doubles}};
    made.tolerance.ulps = 1;
    made.model = [=](const Operands& x) -> std::uint64_t {
      auto value = float_of<double>(x[0] & 0xFFFFFFFF00000000U);
      value = std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0, value) : value;
      const double result = 1 / (is_root ? std::sqrt(value) : value);
      const double flushed =
          std::fpclassify(result) == FP_SUBNORMAL ? std::copysign(0.0, result) : result;
      return std::isnan(result) ? 0x7FFFFFFFU : std::bit_cast<std::uint64_t>(flushed) >> 32U;
    };
    add_lane_operation(to, made);
  }
}

}  // namespace

void add_rounded_floats(MicroKernels& to) {
  add_all<float>(to);
  add_all<double>(to);
  for (const std::string_view name : {"min", "max"}) {
    add_extreme<double>(to, name, "", 2);
    for (const std::string_view modifiers : {".NaN", ".xorsign.abs", ".NaN.xorsign.abs"}) {
      add_extreme<float>(to, name, modifiers, 2);
    }
  }
  add_signs(to);
  add_properties<float>(to);
  add_properties<double>(to);
  add_upper_halves(to);
}

void add_newer_floats(MicroKernels& to) {
  for (const std::string_view mode : {"rn", "rz", "rm", "rp"}) {
    add_packed(to, mode);
  }
  for (const std::string_view name : {"min", "max"}) {
    for (const std::string_view modifiers : {"", ".NaN", ".abs", ".NaN.abs"}) {
      add_extreme<float>(to, name, modifiers, 3);
    }
  }
}

}  // namespace captures
