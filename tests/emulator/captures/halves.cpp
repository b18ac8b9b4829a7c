// Micro-kernels of single binary16 and bfloat16 numbers, and of modifiers of pairs. Their model
// looks results up in a table of all numbers.
#include <array>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "emulator/captures/builder.hpp"
#include "emulator/captures/formats.hpp"

namespace captures {
namespace {

using Operands = std::array<std::uint64_t, 4>;
using Numbers = std::array<long double, 3>;

struct HalfType {
  std::string_view name;
  const ShortFormat* format;
  Fill fill;
  Fill pair_fill;
};
const std::array kHalfTypes = {HalfType{"f16", &kBinary16, &halves, &half_pairs},
                               HalfType{"bf16", &kBFloat16, &bfloats, &bfloat_pairs}};

// Result of an operation as bits of one number.
using NumberModel = std::function<std::uint32_t(const Numbers&)>;

// Adds an instruction on single numbers, and on pairs.
void add_both(MicroKernels& to, const HalfType& type, std::string_view operation,
              std::string_view modifiers, std::size_t arity, const NumberModel& model) {
  for (const int count : {1, 2}) {
    const std::string name =
        fmt::format("{}{}.{}{}", operation, modifiers, type.name, count == 2 ? "x2" : "");
    LaneOperation made{.name = "half " + name, .family = "half"};
    made.text =
        fmt::format("{} $d, $a{}{};", name, arity > 1 ? ", $b" : "", arity > 2 ? ", $c" : "");
    made.operands.assign(arity, {16 * count, count == 2 ? type.pair_fill : type.fill});
    made.result_bits = 16 * count;
    const ShortFormat* const format = type.format;
    made.model = [=](const Operands& x) {
      std::uint64_t result = 0;
      for (int i = 0; i < count; ++i) {
        Numbers numbers{};
        for (std::size_t k = 0; k < arity; ++k) {
          numbers.at(k) = format->value(static_cast<std::uint32_t>(x.at(k) >> (16 * i) & 0xFFFFU));
        }
        result |= std::uint64_t{model(numbers)} << (16 * i);
      }
      return result;
    };
    add_lane_operation(to, made);
  }
}

std::uint32_t limited(const ShortFormat& format, long double value, std::string_view modifier) {
  if (modifier == ".sat") {
    return std::isnan(value) || value <= 0 ? 0 : format.nearest(std::fmin(value, 1.0L));
  }
  if (modifier == ".relu" && !std::isnan(value) && (value < 0 || std::signbit(value))) {
    return 0;
  }
  return format.nearest(value);
}

void add_arithmetic_of(MicroKernels& to, const HalfType& type) {
  const ShortFormat& format = *type.format;
  const bool is_f16 = type.name == "f16";  // sums of bfloat16 need more bits than there are
  const auto add = [&](std::string_view name, std::size_t arity, std::string_view modifier,
                       long double (*of)(const Numbers&)) {
    add_both(to, type, name, fmt::format(".rn{}", modifier), arity,
             [=, &format](const Numbers& x) { return limited(format, of(x), modifier); });
  };
  for (const std::string_view modifier : {"", ".sat"}) {
    if (!is_f16 && !modifier.empty()) {
      continue;
    }
    add("mul", 2, modifier, [](const Numbers& x) { return x[0] * x[1]; });
    if (is_f16) {
      add("add", 2, modifier, [](const Numbers& x) { return x[0] + x[1]; });
      add("sub", 2, modifier, [](const Numbers& x) { return x[0] - x[1]; });
      add("fma", 3, modifier, [](const Numbers& x) { return x[0] * x[1] + x[2]; });
    }
  }
  if (is_f16) {
    add("fma", 3, ".relu", [](const Numbers& x) { return x[0] * x[1] + x[2]; });
  }
}

void add_choices(MicroKernels& to, const HalfType& type) {
  const ShortFormat& format = *type.format;
  for (const std::string_view modifiers : {"", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"}) {
    for (const bool is_max : {false, true}) {
      const bool keeps_nan = modifiers.starts_with(".NaN");
      const bool has_sign = modifiers.ends_with("abs");
      add_both(to, type, is_max ? "max" : "min", modifiers, 2, [=, &format](const Numbers& x) {
        const bool is_negative = std::signbit(x[0]) != std::signbit(x[1]);
        const long double a = has_sign ? std::abs(x[0]) : x[0];
        const long double b = has_sign ? std::abs(x[1]) : x[1];
        if (std::isnan(a) || std::isnan(b)) {
          if (keeps_nan || (std::isnan(a) && std::isnan(b))) {
            return format.nan;
          }
          const long double number = std::isnan(a) ? b : a;
          return format.nearest(has_sign ? std::copysign(number, is_negative ? -1.0L : 1.0L)
                                         : number);
        }
        const bool is_a_less = a < b || (a == b && std::signbit(a));
        const long double chosen = is_a_less != is_max ? a : b;
        return format.nearest(has_sign && is_negative ? -chosen : chosen);
      });
    }
  }
  add_both(to, type, "neg", "", 1, [&](const Numbers& x) { return format.nearest(-x[0]); });
  add_both(to, type, "abs", "", 1,
           [&](const Numbers& x) { return format.nearest(std::abs(x[0])); });
}

bool relation_holds(std::string_view comparison, long double a, long double b) {
  if (std::isnan(a) || std::isnan(b)) {
    return comparison == "nan" || (comparison.size() == 3 && comparison != "num");
  }
  const std::string_view plain = comparison.substr(0, 2);
  return comparison == "num"   ? true
         : comparison == "nan" ? false
         : plain == "eq"       ? a == b
         : plain == "ne"       ? a != b
         : plain == "lt"       ? a < b
         : plain == "le"       ? a <= b
         : plain == "gt"       ? a > b
                               : a >= b;
}

void add_comparisons_of(MicroKernels& to, const HalfType& type) {
  const ShortFormat& format = *type.format;
  for (const std::string_view comparison : {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu",
                                            "leu", "gtu", "geu", "num", "nan"}) {
    const std::uint32_t one = format.nearest(1);
    const auto half = [&format](std::uint64_t x, unsigned i) {
      return format.value(static_cast<std::uint32_t>(x >> (16 * i) & 0xFFFFU));
    };
    LaneOperation set{.name = fmt::format("set.{0}.{1}x2.{1}x2", comparison, type.name),
                      .family = "half"};
    set.text = set.name + " $d, $a, $b;";
    set.operands.assign(2, {32, type.pair_fill});
    set.model = [=](const Operands& x) {
      std::uint64_t result = 0;
      for (unsigned i = 0; i < 2; ++i) {
        result |= std::uint64_t{relation_holds(comparison, half(x[0], i), half(x[1], i)) ? one : 0}
                  << (16 * i);
      }
      return result;
    };
    add_lane_operation(to, set);
    // Two predicates of a pair, combined with a third.
    LaneOperation setp{.name = fmt::format("setp.{}.xor.{}x2", comparison, type.name),
                       .family = "half"};
    setp.text = fmt::format(
        "{} %p12|%p13, $a, $b, !$c;\n  selp.u32 $d, 1, 0, %p12;\n"
        "  selp.u32 %r51, 2, 0, %p13;\n  or.b32 $d, $d, %r51;",
        setp.name);
    setp.operands = {{32, type.pair_fill}, {32, type.pair_fill}, {1, &predicates}};
    setp.model = [=](const Operands& x) {
      std::uint64_t result = 0;
      for (unsigned i = 0; i < 2; ++i) {
        const bool holds = relation_holds(comparison, half(x[0], i), half(x[1], i));
        result |= std::uint64_t{holds != (x[2] == 0)} << i;
      }
      return result;
    };
    add_lane_operation(to, setp);
  }
}

}  // namespace

void add_halves(MicroKernels& to) {
  for (const HalfType& type : kHalfTypes) {
    add_arithmetic_of(to, type);
    add_choices(to, type);
    add_comparisons_of(to, type);
  }
}

}  // namespace captures
