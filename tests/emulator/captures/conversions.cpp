// Micro-kernels of cvt: between whole numbers, floats and whole numbers, and to wider floats.
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "emulator/captures/builder.hpp"
#include "emulator/captures/formats.hpp"

namespace captures {
namespace {

using Operands = std::array<std::uint64_t, 4>;

struct IntegerType {
  std::string_view name;
  int bits;
  bool is_signed;
};
constexpr std::array kTypes = {IntegerType{"u8", 8, false},   IntegerType{"s8", 8, true},
                               IntegerType{"u16", 16, false}, IntegerType{"s16", 16, true},
                               IntegerType{"u32", 32, false}, IntegerType{"s32", 32, true},
                               IntegerType{"u64", 64, false}, IntegerType{"s64", 64, true}};

// With what a register of so many bits holds of it: an extension by the sign, or by zeros.
std::uint64_t narrowed(std::uint64_t value, IntegerType type, int register_bits) {
  const std::uint64_t modulus_mask = ~std::uint64_t{0} >> static_cast<unsigned>(64 - type.bits);
  value &= modulus_mask;
  const bool is_negative = type.is_signed && (value >> static_cast<unsigned>(type.bits - 1)) != 0;
  value |= is_negative ? ~modulus_mask : 0;
  return value & (~std::uint64_t{0} >> static_cast<unsigned>(64 - register_bits));
}

void add_between_integers(MicroKernels& to) {
  for (const IntegerType from : kTypes) {
    for (const IntegerType into : kTypes) {
      if (from.name == into.name) {
        continue;
      }
      // 8 bits have no register of their own; 16 are taken of their own, and 8 of wider ones.
      const int source = from.bits == 8 ? 32 : from.bits;
      const int result = into.bits == 8 ? 32 : into.bits;
      LaneOperation made{.name = fmt::format("cvt.{}.{}", into.name, from.name),
                         .family = "convert",
                         .text = fmt::format("cvt.{}.{} $d, $a;", into.name, from.name)};
      made.count = 1024;
      made.result_bits = result;
      made.operands = {{source, &integers}};
      made.model = [=](const Operands& x) {
        return narrowed(narrowed(x[0], from, 64), into, result);
      };
      add_lane_operation(to, made);
    }
  }
}

void add_integers_to_floats(MicroKernels& to) {
  for (const IntegerType from : kTypes) {
    if (from.bits == 8) {
      continue;
    }
    LaneOperation made{.name = fmt::format("cvt.rn.f32.{}", from.name),
                       .family = "convert",
                       .text = fmt::format("cvt.rn.f32.{} $d, $a;", from.name)};
    made.operands = {{from.bits, &integers}};
    made.model = [=](const Operands& x) -> std::uint64_t {
      const std::uint64_t value = narrowed(x[0], from, 64);
      const auto wide = from.is_signed ? static_cast<long double>(static_cast<std::int64_t>(value))
                                       : static_cast<long double>(value);
      return std::bit_cast<std::uint32_t>(static_cast<float>(wide));
    };
    add_lane_operation(to, made);
  }
}

// floor, and what makes the other roundings of it.
double rounded(double value, std::string_view rounding) {
  const double down = std::floor(value);
  if (rounding == "rmi" || down == value) {
    return down;
  }
  if (rounding == "rpi" || (rounding == "rzi" && value < 0)) {
    return down + 1;
  }
  if (rounding == "rzi") {
    return down;
  }
  const double over = value - down;
  const bool goes_up = over > 0.5 || (over == 0.5 && std::fmod(down, 2.0) != 0);
  return goes_up ? down + 1 : down;
}

void add_floats_to_integers(MicroKernels& to) {
  for (const std::string_view rounding : {"rni", "rzi", "rmi", "rpi"}) {
    for (const std::string_view type : {"s32", "u32", "f32"}) {
      LaneOperation made{.name = fmt::format("cvt.{}.{}.f32", rounding, type), .family = "convert"};
      made.text = made.name + " $d, $a;";
      made.operands = {{32, &floats}};
      if (type != "f32") {
        const double least = type == "s32" ? std::numeric_limits<std::int32_t>::min() : 0;
        const double most = type == "s32" ? std::numeric_limits<std::int32_t>::max()
                                          : std::numeric_limits<std::uint32_t>::max();
        made.model = [=](const Operands& x) -> std::uint64_t {
          const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(x[0]));
          if (std::isnan(value)) {
            return 0;
          }
          const double whole = std::isinf(value) ? double{value} : rounded(double{value}, rounding);
          const double inside = whole < least ? least : whole > most ? most : whole;
          return static_cast<std::uint64_t>(static_cast<std::int64_t>(inside)) & 0xFFFFFFFFU;
        };
      }
      add_lane_operation(to, made);
    }
  }
}

// All 65536 values of the 16-bit formats, and of pairs of bytes.
void add_widening(MicroKernels& to) {
  // Which NaN it is, the models do not say.
  const auto add = [&](std::string_view name, int result_bits, LaneModel model,
                       const Tolerance& tolerance = {}) {
    LaneOperation made{.name = std::string(name),
                       .family = "convert-all",
                       .text = fmt::format("{} $d, $a;", name)};
    made.count = 65536;
    made.result_bits = result_bits;
    made.operands = {{16, &counted}};
    made.model = std::move(model);
    made.model_tolerance = tolerance;
    add_lane_operation(to, made);
  };
  const auto to_f32 = [](const ShortFormat& format) {
    return [&format](const Operands& x) -> std::uint64_t {
      const auto value = static_cast<float>(format.value(static_cast<std::uint32_t>(x[0])));
      return std::isnan(value) ? 0x7FFFFFFFU : std::bit_cast<std::uint32_t>(value);
    };
  };
  const Tolerance any_nan{.relative = 1e-300};
  add("cvt.f32.f16", 32, to_f32(kBinary16), any_nan);
  add("cvt.f32.bf16", 32, to_f32(kBFloat16), any_nan);
  add("cvt.rn.f16x2.e4m3x2", 32, [](const Operands& x) -> std::uint64_t {
    const auto half = [&](std::uint64_t byte) {
      return kBinary16.nearest(kE4M3.value(static_cast<std::uint32_t>(byte & 0xFFU)));
    };
    return half(x[0] >> 8U) << 16U | half(x[0]);
  });
  add("cvt.rn.f16x2.e5m2x2", 32, [](const Operands& x) -> std::uint64_t {
    const auto half = [&](std::uint64_t byte) {
      return kBinary16.nearest(kE5M2.value(static_cast<std::uint32_t>(byte & 0xFFU)));
    };
    return half(x[0] >> 8U) << 16U | half(x[0]);
  });
}

}  // namespace

void add_conversions(MicroKernels& to) {
  add_between_integers(to);
  add_integers_to_floats(to);
  add_floats_to_integers(to);
  add_widening(to);
}

}  // namespace captures
