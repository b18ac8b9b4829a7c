// Micro-kernels of whole numbers and bits. Their model computes in 128 bits and cuts off.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "emulator/captures/builder.hpp"

namespace captures {
namespace {

__extension__ using Wide = __int128;

struct IntegerType {
  std::string_view name;
  int bits;
  bool is_signed;
};
constexpr std::array kTypes = {IntegerType{"u16", 16, false}, IntegerType{"s16", 16, true},
                               IntegerType{"u32", 32, false}, IntegerType{"s32", 32, true},
                               IntegerType{"u64", 64, false}, IntegerType{"s64", 64, true}};

Wide extended(std::uint64_t value, IntegerType type) {
  const auto unused = static_cast<unsigned>(64 - type.bits);
  value <<= unused;
  return type.is_signed ? Wide{static_cast<std::int64_t>(value) >> unused} : Wide{value >> unused};
}
std::uint64_t low(Wide value, int bits) {
  return static_cast<std::uint64_t>(value) &
         (~std::uint64_t{0} >> static_cast<unsigned>(64 - bits));
}

using WideModel = Wide (*)(Wide a, Wide b, Wide c);

// A product of 64-bit numbers may need 128 bits and no more.
Wide high_part(Wide a, Wide b, int bits, bool is_signed) {
  if (bits == 64 && !is_signed) {
    __extension__ using Unsigned = unsigned __int128;
    return static_cast<Wide>((static_cast<Unsigned>(a) * static_cast<Unsigned>(b)) >> 64U);
  }
  return (a * b) >> bits;
}

// Unspecified by a divisor of 0: all ones, and the dividend.
Wide quotient(Wide a, Wide b) {
  return b == 0 ? Wide{-1} : a / b;
}

void add_alike(MicroKernels& to, std::string_view operation, IntegerType type, std::size_t arity,
               WideModel model) {
  constexpr std::array<std::string_view, 3> kSources = {" $a", ", $b", ", $c"};
  LaneOperation made{.name = fmt::format("{}.{}", operation, type.name),
                     .family = "integer",
                     .text = fmt::format("{}.{} $d,", operation, type.name)};
  made.result_bits = type.bits;
  for (std::size_t i = 0; i < arity; ++i) {
    made.text += kSources.at(i);
    made.operands.push_back({type.bits, &integers});
  }
  made.text += ";";
  made.model = [=](const std::array<std::uint64_t, 4>& x) {
    return low(model(extended(x[0], type), extended(x[1], type), extended(x[2], type)), type.bits);
  };
  add_lane_operation(to, made);
}

void add_high(MicroKernels& to, IntegerType type, bool is_mad) {
  LaneOperation made{.name = fmt::format("{}.hi.{}", is_mad ? "mad" : "mul", type.name),
                     .family = "integer",
                     .text = fmt::format("{}.hi.{} $d, $a, $b{};", is_mad ? "mad" : "mul",
                                         type.name, is_mad ? ", $c" : "")};
  made.result_bits = type.bits;
  made.operands.assign(is_mad ? 3 : 2, {type.bits, &integers});
  made.model = [=](const std::array<std::uint64_t, 4>& x) {
    const Wide product =
        high_part(extended(x[0], type), extended(x[1], type), type.bits, type.is_signed);
    return low(product + (is_mad ? extended(x[2], type) : Wide{0}), type.bits);
  };
  add_lane_operation(to, made);
}

void add_wide(MicroKernels& to, IntegerType type, bool is_mad) {
  LaneOperation made{.name = fmt::format("{}.wide.{}", is_mad ? "mad" : "mul", type.name),
                     .family = "integer",
                     .text = fmt::format("{}.wide.{} $d, $a, $b{};", is_mad ? "mad" : "mul",
                                         type.name, is_mad ? ", $c" : "")};
  made.result_bits = 2 * type.bits;
  made.operands.assign(2, {type.bits, &integers});
  if (is_mad) {
    made.operands.push_back({2 * type.bits, &integers});
  }
  made.model = [=](const std::array<std::uint64_t, 4>& x) {
    const IntegerType twice{type.name, 2 * type.bits, type.is_signed};
    return low(
        extended(x[0], type) * extended(x[1], type) + (is_mad ? extended(x[2], twice) : Wide{0}),
        2 * type.bits);
  };
  add_lane_operation(to, made);
}

void add_arithmetic(MicroKernels& to) {
  for (const IntegerType type : kTypes) {
    add_alike(to, "add", type, 2, [](Wide a, Wide b, Wide) { return a + b; });
    add_alike(to, "sub", type, 2, [](Wide a, Wide b, Wide) { return a - b; });
    // Of what 64-bit unsigned numbers give, the lowest bits are right, though it overflows.
    add_alike(to, "mul.lo", type, 2, [](Wide a, Wide b, Wide) {
      return Wide{
          static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b))};
    });
    add_alike(to, "mad.lo", type, 3, [](Wide a, Wide b, Wide c) {
      return Wide{static_cast<std::int64_t>(static_cast<std::uint64_t>(a) *
                                            static_cast<std::uint64_t>(b))} +
             c;
    });
    add_high(to, type, false);
    add_high(to, type, true);
    if (type.bits < 64) {
      add_wide(to, type, false);
      add_wide(to, type, true);
    }
    add_alike(to, "div", type, 2, [](Wide a, Wide b, Wide) { return quotient(a, b); });
    add_alike(to, "rem", type, 2,
              [](Wide a, Wide b, Wide) { return b == 0 ? -1 : a - quotient(a, b) * b; });
    add_alike(to, "min", type, 2, [](Wide a, Wide b, Wide) { return std::min(a, b); });
    add_alike(to, "max", type, 2, [](Wide a, Wide b, Wide) { return std::max(a, b); });
    if (type.is_signed) {
      add_alike(to, "neg", type, 1, [](Wide a, Wide, Wide) { return -a; });
      add_alike(to, "abs", type, 1, [](Wide a, Wide, Wide) { return a < 0 ? -a : a; });
    }
  }
}

void add_logic(MicroKernels& to) {
  for (const IntegerType type : {IntegerType{"pred", 1, false}, IntegerType{"b16", 16, false},
                                 IntegerType{"b32", 32, false}, IntegerType{"b64", 64, false}}) {
    const Fill fill = type.bits == 1 ? &predicates : &integers;
    const auto add = [&](std::string_view name, std::size_t arity, WideModel model) {
      LaneOperation made{
          .name = fmt::format("{}.{}", name, type.name),
          .family = "bits",
          .text = fmt::format("{}.{} $d, $a{};", name, type.name, arity == 2 ? ", $b" : "")};
      made.result_bits = type.bits;
      made.operands.assign(arity, {type.bits, fill});
      made.model = [=](const std::array<std::uint64_t, 4>& x) {
        return low(model(Wide{x[0]}, Wide{x[1]}, 0), type.bits);
      };
      add_lane_operation(to, made);
    };
    add("and", 2, [](Wide a, Wide b, Wide) { return a & b; });
    add("or", 2, [](Wide a, Wide b, Wide) { return a | b; });
    add("xor", 2, [](Wide a, Wide b, Wide) { return a ^ b; });
    add("not", 1, [](Wide a, Wide, Wide) { return ~a; });
  }
}

void add_shifts(MicroKernels& to) {
  const auto add = [&](std::string_view name, IntegerType type, bool is_left) {
    LaneOperation made{.name = fmt::format("{}.{}", name, type.name),
                       .family = "bits",
                       .text = fmt::format("{}.{} $d, $a, $b;", name, type.name)};
    made.result_bits = type.bits;
    made.operands = {{type.bits, &integers}, {32, &shifts}};
    made.model = [=](const std::array<std::uint64_t, 4>& x) {
      const auto by = static_cast<int>(std::min<std::uint64_t>(x[1], 64));
      const std::uint64_t left = by == 64 ? 0 : x[0] << static_cast<unsigned>(by);
      return low(is_left ? Wide{left} : extended(x[0], type) >> by, type.bits);
    };
    add_lane_operation(to, made);
  };
  add("shl", {"b16", 16, false}, true);
  add("shl", {"b32", 32, false}, true);
  add("shl", {"b64", 64, false}, true);
  for (const IntegerType type : kTypes) {
    add("shr", type, false);
  }
}

std::uint64_t inserted(const std::array<std::uint64_t, 4>& x) {
  std::uint64_t result = x[1];
  const std::uint64_t first = x[2] & 0xFFU;
  const std::uint64_t count = x[3] & 0xFFU;
  for (std::uint64_t bit = 0; bit < count && first + bit < 32; ++bit) {
    const std::uint64_t place = std::uint64_t{1} << (first + bit);
    const bool is_set = bit < 32 && (x[0] >> bit & 1U) != 0;
    result = is_set ? result | place : result & ~place;
  }
  return result;
}

std::uint64_t permuted(const std::array<std::uint64_t, 4>& x) {
  std::array<std::uint8_t, 8> bytes{};
  for (std::size_t i = 0; i < 8; ++i) {
    bytes.at(i) = static_cast<std::uint8_t>((i < 4 ? x[0] : x[1]) >> (i % 4 * 8));
  }
  std::uint64_t result = 0;
  for (std::size_t i = 4; i-- > 0;) {
    const std::size_t selector = x[2] >> (4 * i) & 15U;
    const std::uint8_t byte = bytes.at(selector % 8);
    result = result * 256 + (selector < 8 ? byte : byte >= 128 ? 255 : 0);
  }
  return result;
}

void add_bits(MicroKernels& to) {
  const auto add = [&](std::string_view name, std::string_view sources,
                       std::vector<LaneOperand> operands, LaneModel model) {
    LaneOperation made{.name = std::string(name),
                       .family = "bits",
                       .text = fmt::format("{} $d, {};", name, sources)};
    made.operands = std::move(operands);
    made.model = std::move(model);
    add_lane_operation(to, made);
  };
  const LaneOperand word{32, &integers};
  add("bfi.b32", "$a, $b, $c, $e", {word, word, {32, &shifts}, {32, &shifts}}, &inserted);
  add("prmt.b32", "$a, $b, $c", {word, word, word}, &permuted);
  add("popc.b32", "$a", {word}, [](const std::array<std::uint64_t, 4>& x) {
    std::uint64_t ones = 0;
    for (std::uint64_t left = x[0]; left != 0; left &= left - 1) {
      ++ones;
    }
    return ones;
  });
  add("clz.b32", "$a", {word}, [](const std::array<std::uint64_t, 4>& x) {
    std::uint64_t zeros = 32;
    for (std::uint64_t left = x[0]; left != 0; left /= 2) {
      --zeros;
    }
    return zeros;
  });
  add("brev.b32", "$a", {word}, [](const std::array<std::uint64_t, 4>& x) {
    std::uint64_t turned = 0;
    for (std::uint64_t bit = 0; bit < 32; ++bit) {
      turned |= (x[0] >> bit & 1U) << (31 - bit);
    }
    return turned;
  });
}

}  // namespace

void add_integers(MicroKernels& to) {
  add_arithmetic(to);
  add_logic(to);
  add_shifts(to);
  add_bits(to);
}

}  // namespace captures
