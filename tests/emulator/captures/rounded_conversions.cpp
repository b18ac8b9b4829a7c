// Micro-kernels of cvt in every rounding mode and with every modifier. Their models are the host's
// conversions in the same mode, and tables of short formats.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "emulator/captures/builder.hpp"
#include "emulator/captures/formats.hpp"
#include "emulator/captures/host_rounding.hpp"

namespace captures {
namespace {

using Operands = std::array<std::uint64_t, 4>;

float single_of(std::uint64_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}
std::uint64_t bits_of_single(float value) {
  return std::isnan(value) ? 0x7FFFFFFFU : std::bit_cast<std::uint32_t>(value);
}

// NaN of binary64 in a shorter format: with its sign, and as much of its payload as fits.
std::uint64_t narrow_nan(std::uint64_t bits, int exponent_bits, int fraction_bits) {
  const std::uint64_t payload = (bits & 0x000FFFFFFFFFFFFFU) >> (52 - fraction_bits);
  const std::uint64_t ones = (std::uint64_t{2} << exponent_bits) - 1;  // a quiet bit, too
  return bits >> 63U << (exponent_bits + fraction_bits) | ones << (fraction_bits - 1) | payload;
}

// Bits of binary64 of a number in a shorter format, whose NaN keep their sign and payload.
std::uint64_t widened(std::uint64_t bits, double value, int exponent_bits, int fraction_bits) {
  if (!std::isnan(value)) {
    return std::bit_cast<std::uint64_t>(value);
  }
  const std::uint64_t payload = bits & ((std::uint64_t{1} << fraction_bits) - 1);
  return bits >> (exponent_bits + fraction_bits) << 63U | 0x7FF8000000000000U |
         payload << (52 - fraction_bits);
}

void add_cvt(MicroKernels& to, std::string_view name, int to_bits, int from_bits, Fill fill,
             LaneModel model) {
  LaneOperation made{.name = std::string(name), .family = "cvt"};
  made.text = fmt::format("{} $d, $a;", name);
  made.operands = {{from_bits, fill}};
  made.result_bits = to_bits;
  made.model = std::move(model);
  add_lane_operation(to, made);
}

// Conversions that the host's processor has, in the mode that it is in.
void add_host(MicroKernels& to, std::string_view mode) {
  const auto add = [&](std::string_view types, int to_bits, int from_bits, Fill fill,
                       auto convert) {
    LaneModel model;
    if (HostRounding::kIsThere) {
      model = [=](const Operands& x) -> std::uint64_t {
        const HostRounding rounding(mode);
        return convert(x[0]);
      };
    }
    add_cvt(to, fmt::format("cvt.{}.{}", mode, types), to_bits, from_bits, fill, model);
  };
  add("f32.f64", 32, 64, &doubles, [](std::uint64_t x) {
    volatile double value = std::bit_cast<double>(x);
    volatile float result = static_cast<float>(value);
    return std::isnan(result) ? narrow_nan(x, 8, 23) : bits_of_single(result);
  });
  add("sat.f32.f64", 32, 64, &doubles, [](std::uint64_t x) {
    volatile double value = std::bit_cast<double>(x);
    volatile float narrow = static_cast<float>(value);
    const float result = narrow;
    return bits_of_single(std::isnan(result) || std::signbit(result) ? 0.0F
                                                                     : std::min(result, 1.0F));
  });
  if (mode != "rn") {  // which conversions.cpp has
    add("f32.s64", 32, 64, &integers, [](std::uint64_t x) {
      volatile auto value = static_cast<std::int64_t>(x);
      volatile float result = static_cast<float>(value);
      return bits_of_single(result);
    });
    add("f32.s32", 32, 32, &integers, [](std::uint64_t x) {
      volatile auto value = static_cast<std::int32_t>(x);
      volatile float result = static_cast<float>(value);
      return bits_of_single(result);
    });
  }
  add("f64.s64", 64, 64, &integers, [](std::uint64_t x) {
    volatile auto value = static_cast<std::int64_t>(x);
    volatile double result = static_cast<double>(value);
    return std::bit_cast<std::uint64_t>(double{result});
  });
}

double rounded_whole(double value, std::string_view rounding) {
  return rounding == "rmi"   ? std::floor(value)
         : rounding == "rpi" ? std::ceil(value)
         : rounding == "rzi" ? std::trunc(value)
                             : std::nearbyint(value);
}

struct WholeType {
  std::string_view name;
  int bits;
  bool is_signed;
};

void add_whole(MicroKernels& to, std::string_view rounding) {
  for (const WholeType type :
       {WholeType{"s8", 8, true}, WholeType{"u8", 8, false}, WholeType{"s16", 16, true},
        WholeType{"u16", 16, false}, WholeType{"s32", 32, true}, WholeType{"u32", 32, false},
        WholeType{"s64", 64, true}, WholeType{"u64", 64, false}}) {
    const int register_bits = std::max(type.bits, 32);
    const auto model = [=](double value, bool is_from_double) -> std::uint64_t {
      const std::uint64_t register_ones = ~std::uint64_t{0} >> (64 - register_bits);
      const std::uint64_t highest = std::uint64_t{1} << (type.bits - 1);
      const std::uint64_t least = type.is_signed ? (0 - highest) & register_ones : 0;
      if (std::isnan(value)) {
        return !is_from_double && type.bits < 64 ? 0 : type.is_signed ? least : highest;
      }
      const double whole = rounded_whole(value, rounding);
      const double end = std::ldexp(1.0, type.is_signed ? type.bits - 1 : type.bits);
      if (whole >= end) {
        return type.is_signed ? highest - 1 : highest - 1 + highest;
      }
      if (whole <= (type.is_signed ? -end : 0)) {
        return least;
      }
      const std::uint64_t magnitude = static_cast<std::uint64_t>(std::abs(whole));
      return (whole < 0 ? 0 - magnitude : magnitude) & register_ones;
    };
    add_cvt(to, fmt::format("cvt.{}.{}.f64", rounding, type.name), register_bits, 64, &doubles,
            [=](const Operands& x) { return model(std::bit_cast<double>(x[0]), true); });
    add_cvt(to, fmt::format("cvt.{}.ftz.{}.f32", rounding, type.name), register_bits, 32, &floats,
            [=](const Operands& x) {
              const float value = single_of(x[0]);
              return model(std::fpclassify(value) == FP_SUBNORMAL ? 0 : value, false);
            });
    add_cvt(to, fmt::format("cvt.{}.{}.f16", rounding, type.name), register_bits, 16, &halves,
            [=](const Operands& x) {
              return model(static_cast<double>(kBinary16.value(static_cast<std::uint32_t>(x[0]))),
                           false);
            });
    if (type.bits >= 32) {  // the others are not there
      add_cvt(to, fmt::format("cvt.{}.{}.bf16", rounding, type.name), register_bits, 16, &bfloats,
              [=](const Operands& x) {
                return model(static_cast<double>(kBFloat16.value(static_cast<std::uint32_t>(x[0]))),
                             false);
              });
    }
  }
  add_cvt(to, fmt::format("cvt.{}.f64.f64", rounding), 64, 64, &doubles, [=](const Operands& x) {
    const auto value = std::bit_cast<double>(x[0]);
    return std::isnan(value) ? narrow_nan(x[0], 11, 52)
                             : std::bit_cast<std::uint64_t>(rounded_whole(value, rounding));
  });
  add_cvt(to, fmt::format("cvt.{}.f16.f16", rounding), 16, 16, &halves, [=](const Operands& x) {
    return kBinary16.nearest(rounded_whole(
        static_cast<double>(kBinary16.value(static_cast<std::uint32_t>(x[0]))), rounding));
  });
  add_cvt(
      to, fmt::format("cvt.{}.ftz.sat.f32.f32", rounding), 32, 32, &floats, [=](const Operands& x) {
        const float value = single_of(x[0]);
        const double whole =
            rounded_whole(std::fpclassify(value) == FP_SUBNORMAL ? 0.0 : double{value}, rounding);
        return bits_of_single(whole > 0 ? static_cast<float>(std::min(whole, 1.0)) : 0.0F);
      });
}

// Bits of a number in a short format, rounded in a direction; `nan` of the format.
std::uint32_t directed_bits(const ShortFormat& format, long double value, std::string_view mode,
                            bool is_finite) {
  const std::uint32_t nearest = format.nearest(value);
  const std::uint32_t sign = 1U << (format.bits() - 1);
  const std::uint32_t infinity = ((1U << format.exponent_bits) - 1) << format.fraction_bits;
  if (std::isnan(value)) {
    return nearest;
  }
  const bool is_negative = std::signbit(value);
  std::uint32_t magnitude = nearest & (sign - 1);
  const long double size = std::abs(value);
  if (mode != "rn" && !std::isinf(value)) {
    const bool is_outwards = mode == (is_negative ? "rm" : "rp");
    const auto number = [&](std::uint32_t bits) {
      return bits == infinity ? std::numeric_limits<long double>::infinity() : format.value(bits);
    };
    if (is_outwards && number(magnitude) < size) {
      ++magnitude;
    } else if (!is_outwards && number(magnitude) > size) {
      --magnitude;
    }
  }
  if (is_finite && magnitude == infinity) {
    --magnitude;
  }
  return magnitude | (is_negative ? sign : 0);
}

void add_to_halves(MicroKernels& to) {
  for (const bool is_f16 : {false, true}) {
    const ShortFormat& format = is_f16 ? kBinary16 : kBFloat16;
    const std::string_view type = is_f16 ? "f16" : "bf16";
    for (const std::string_view mode : {"rn", "rz", "rm", "rp"}) {
      const bool has_modifiers = mode == "rn" || mode == "rz";
      for (const std::string_view modifiers : {"", ".relu", ".satfinite", ".relu.satfinite"}) {
        if (modifiers.empty() ? mode == "rn" : !has_modifiers) {
          continue;  // narrowing.cpp has them, or they are not there
        }
        const bool has_relu = modifiers.starts_with(".relu");
        const bool is_finite = modifiers.ends_with(".satfinite");
        const auto model = [=, &format](std::uint64_t x) {
          const std::uint32_t bits = directed_bits(format, single_of(x), mode, is_finite);
          return has_relu && bits >> 15U != 0 ? 0 : bits;
        };
        add_cvt(to, fmt::format("cvt.{}{}.{}.f32", mode, modifiers, type), 16, 32, &floats,
                [=](const Operands& x) { return model(x[0]); });
        if (has_modifiers) {
          LaneOperation made{.name = fmt::format("cvt.{}{}.{}x2.f32", mode, modifiers, type),
                             .family = "cvt"};
          made.text = made.name + " $d, $a, $b;";
          made.operands.assign(2, {32, &floats});
          made.model = [=](const Operands& x) {
            return std::uint64_t{model(x[0])} << 16U | model(x[1]);
          };
          add_lane_operation(to, made);
        }
      }
      add_cvt(to, fmt::format("cvt.{}.{}.f64", mode, type), 16, 64, &doubles,
              [=, &format](const Operands& x) -> std::uint64_t {
                const auto value = std::bit_cast<double>(x[0]);
                return std::isnan(value)
                           ? narrow_nan(x[0], format.exponent_bits, format.fraction_bits)
                           : directed_bits(format, value, mode, false);
              });
      add_cvt(to, fmt::format("cvt.{}.{}.s32", mode, type), 16, 32, &integers,
              [=, &format](const Operands& x) {
                return directed_bits(format, static_cast<std::int32_t>(x[0]), mode, false);
              });
      add_cvt(to, fmt::format("cvt.{}.{}.{}", mode, type, is_f16 ? "bf16" : "f16"), 16, 16,
              is_f16 ? &bfloats : &halves, [=, &format](const Operands& x) {
                const ShortFormat& from = is_f16 ? kBFloat16 : kBinary16;
                return directed_bits(format, from.value(static_cast<std::uint32_t>(x[0])), mode,
                                     false);
              });
    }
  }
}

// tf32 has the exponent of binary32 and 10 fraction bits. What is rounded to nearest away from zero
// is cut off behind an addition, also where it is NaN.
void add_to_tf32(MicroKernels& to) {
  constexpr std::uint64_t kInfinity = 0x7F800000U;
  for (const std::string_view mode : {"rna", "rna.satfinite", "rn", "rn.relu", "rz", "rz.relu"}) {
    const bool is_away = mode.starts_with("rna");
    add_cvt(to, fmt::format("cvt.{}.tf32.f32", mode), 32, 32, &floats, [=](const Operands& x) {
      const std::uint64_t magnitude = x[0] & 0x7FFFFFFFU;
      if (is_away) {
        const std::uint64_t cut = (magnitude < kInfinity ? x[0] + 0x1000U : x[0]) & ~0x1FFFULL;
        const bool is_less = mode.ends_with("satfinite") && (cut & 0x7FFFFFFFU) >= kInfinity;
        return is_less ? cut - 0x2000U : cut;
      }
      if (magnitude > kInfinity) {
        return std::uint64_t{0x7FFFE000U};
      }
      if (mode.ends_with("relu") && x[0] >> 31U != 0) {
        return std::uint64_t{0};
      }
      const std::uint64_t rest = x[0] & 0x1FFFU;
      const bool is_odd = (x[0] & 0x2000U) != 0;
      const bool is_up = mode.starts_with("rn") && (rest > 0x1000U || (rest == 0x1000U && is_odd));
      return x[0] - rest + (is_up ? 0x2000U : 0U);
    });
  }
}

// Conversions to binary64, and its copy.
void add_to_doubles(MicroKernels& to) {
  add_cvt(to, "cvt.f64.f64", 64, 64, &doubles, [](const Operands& x) { return x[0]; });
  add_cvt(to, "cvt.f64.f32", 64, 32, &floats,
          [](const Operands& x) { return widened(x[0], double{single_of(x[0])}, 8, 23); });
  for (const bool is_f16 : {false, true}) {
    const ShortFormat& format = is_f16 ? kBinary16 : kBFloat16;
    add_cvt(to, is_f16 ? "cvt.f64.f16" : "cvt.f64.bf16", 64, 16, is_f16 ? &halves : &bfloats,
            [&format](const Operands& x) {
              const long double value = format.value(static_cast<std::uint32_t>(x[0]));
              return widened(x[0], static_cast<double>(value), format.exponent_bits,
                             format.fraction_bits);
            });
  }
}

// Formats without NaN, by all their numbers.
struct TinyFormat {
  std::string_view name;
  int exponent_bits;
  int fraction_bits;
  int element_bits;

  [[nodiscard]] double number(unsigned bits) const {
    const unsigned exponent = bits >> fraction_bits;
    const unsigned fraction = bits & ((1U << fraction_bits) - 1);
    const int bias = (1 << (exponent_bits - 1)) - 1;
    return exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                         : std::ldexp(fraction + (1U << fraction_bits),
                                      static_cast<int>(exponent) - bias - fraction_bits);
  }
  [[nodiscard]] std::uint64_t nearest(double value) const {
    const unsigned last = (1U << (exponent_bits + fraction_bits)) - 1;
    if (std::isnan(value)) {
      return last;
    }
    unsigned best = last;
    for (unsigned bits = 0; bits < last; ++bits) {
      const double middle = (number(bits) + number(bits + 1)) / 2;
      if (std::abs(value) < middle || (std::abs(value) == middle && bits % 2 == 0)) {
        best = bits;
        break;
      }
    }
    return best | (std::signbit(value) ? last + 1 : 0);
  }
};

void add_tiny(MicroKernels& to) {
  for (const TinyFormat format :
       {TinyFormat{"e2m1", 2, 1, 4}, TinyFormat{"e2m3", 2, 3, 8}, TinyFormat{"e3m2", 3, 2, 8}}) {
    const bool is_byte = format.element_bits == 4;  // both in one byte, which a word holds
    const std::string destination = is_byte ? "%b1" : "$d";
    const std::string declared = is_byte ? ".reg .b8 %b<2>;\n  " : "";
    const std::string behind = is_byte ? "\n  mov.b16 $d, {%b1, 0};" : "";
    for (const std::string_view relu : {"", ".relu"}) {
      const auto element = [=](double value) {
        const std::uint64_t bits = format.nearest(value);
        return !relu.empty() && std::signbit(value) && !std::isnan(value) ? 0 : bits;
      };
      const std::string name = fmt::format("cvt.rn.satfinite{}.{}x2.f32", relu, format.name);
      LaneOperation made{.name = name, .family = "cvt"};
      made.text = fmt::format("{}{} {}, $a, $b;{}", declared, name, destination, behind);
      made.operands.assign(2, {32, &floats});
      made.result_bits = 16;
      made.model = [=](const Operands& x) {
        return element(single_of(x[0])) << format.element_bits | element(single_of(x[1]));
      };
      add_lane_operation(to, made);
      LaneOperation back{.name = fmt::format("cvt.rn{}.f16x2.{}x2", relu, format.name),
                         .family = "cvt"};
      back.text = is_byte
                      ? fmt::format("{}mov.b16 {{%b1, _}}, $a;\n  {} $d, %b1;", declared, back.name)
                      : back.name + " $d, $a;";
      back.operands = {{16, &counted}};
      back.count = 65536;
      back.model = [=](const Operands& x) {
        std::uint64_t result = 0;
        const unsigned ones = (1U << (format.exponent_bits + format.fraction_bits)) - 1;
        for (const int i : {0, 1}) {
          const auto bits = static_cast<unsigned>(x[0] >> (i * format.element_bits));
          const bool is_negative = (bits & (ones + 1)) != 0;
          const double value = format.number(bits & ones) * (is_negative ? -1 : 1);
          const std::uint64_t half = !relu.empty() && is_negative ? 0 : kBinary16.nearest(value);
          result |= half << (16 * i);
        }
        return result;
      };
      add_lane_operation(to, back);
    }
  }
}

void add_packs(MicroKernels& to) {
  for (const WholeType type :
       {WholeType{"s16", 16, true}, WholeType{"u16", 16, false}, WholeType{"s8", 8, true},
        WholeType{"u8", 8, false}, WholeType{"s4", 4, true}, WholeType{"u4", 4, false},
        WholeType{"s2", 2, true}, WholeType{"u2", 2, false}}) {
    const bool has_rest = type.bits < 16;
    const std::string name =
        fmt::format("cvt.pack.sat.{}.s32{}", type.name, has_rest ? ".b32" : "");
    LaneOperation made{.name = name, .family = "cvt"};
    made.text = fmt::format("{} $d, $a, $b{};", name, has_rest ? ", $c" : "");
    made.operands.assign(has_rest ? 3 : 2, {32, &integers});
    made.model = [=](const Operands& x) {
      const std::int64_t range = std::int64_t{1} << type.bits;
      const auto part = [&](std::uint64_t value) {
        const std::int64_t number = static_cast<std::int32_t>(value);
        const std::int64_t limited = type.is_signed
                                         ? std::clamp(number, -range / 2, range / 2 - 1)
                                         : std::clamp<std::int64_t>(number, 0, range - 1);
        return static_cast<std::uint64_t>(limited) & static_cast<std::uint64_t>(range - 1);
      };
      const std::uint64_t rest = has_rest ? x[2] << (2 * type.bits) : 0;
      return (part(x[1]) | part(x[0]) << type.bits | rest) & 0xFFFFFFFFU;
    };
    add_lane_operation(to, made);
  }
  // Saturation between whole numbers.
  add_cvt(to, "cvt.sat.s16.s64", 16, 64, &integers, [](const Operands& x) {
    return static_cast<std::uint64_t>(
               std::clamp<std::int64_t>(static_cast<std::int64_t>(x[0]), -32768, 32767)) &
           0xFFFFU;
  });
  add_cvt(to, "cvt.sat.u32.s32", 32, 32, &integers,
          [](const Operands& x) { return x[0] >> 31U != 0 ? 0 : x[0]; });
  add_cvt(to, "cvt.sat.s32.u64", 32, 64, &integers,
          [](const Operands& x) { return std::min<std::uint64_t>(x[0], 0x7FFFFFFF); });
}

}  // namespace

void add_rounded_conversions(MicroKernels& to) {
  for (const std::string_view mode : {"rn", "rz", "rm", "rp"}) {
    add_host(to, mode);
  }
  for (const std::string_view rounding : {"rni", "rzi", "rmi", "rpi"}) {
    add_whole(to, rounding);
  }
  add_to_halves(to);
  add_to_tf32(to);
  add_to_doubles(to);
  add_packs(to);
}

void add_tiny_floats(MicroKernels& to) {
  add_tiny(to);
}

}  // namespace captures
