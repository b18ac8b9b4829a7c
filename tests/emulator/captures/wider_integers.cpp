// Micro-kernels of whole numbers beyond plain arithmetic: carries, saturation, bit fields, dot
// products. Their models go bit by bit, or compute in 128 bits.
#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

#include "emulator/captures/builder.hpp"

namespace captures {
namespace {

__extension__ using Wide = __int128;
using Operands = std::array<std::uint64_t, 4>;

std::int64_t signed_of(std::uint64_t value, int bits) {
  const auto unused = static_cast<unsigned>(64 - bits);
  return static_cast<std::int64_t>(value << unused) >> unused;
}
std::uint64_t bits_of(Wide value, int bits) {
  return static_cast<std::uint64_t>(value) & (~std::uint64_t{0} >> (64 - bits));
}

// Adds an instruction, or several, whose operands are all of one size unless they are given.
struct Adder {
  MicroKernels& to;
  std::string_view family;

  void operator()(std::string_view name, std::string_view text, int result_bits,
                  std::vector<LaneOperand> operands, LaneModel model) const {
    LaneOperation made{
        .name = std::string(name), .family = std::string(family), .text = std::string(text)};
    made.result_bits = result_bits;
    made.operands = std::move(operands);
    made.model = std::move(model);
    add_lane_operation(to, made);
  }
};

std::vector<LaneOperand> operands_of(std::size_t count, int bits) {
  std::vector<LaneOperand> operands;
  for (std::size_t i = 0; i < count; ++i) {
    operands.push_back({bits, &integers});
  }
  return operands;
}

// Sums and differences of two words, and products that need them. The upper word is the result.
void add_carries(MicroKernels& to) {
  const Adder add{to, "carry"};
  for (const int bits : {32, 64}) {
    const auto both = [=](std::uint64_t low, std::uint64_t high) {
      return static_cast<Wide>(low) + (static_cast<Wide>(high) << bits);
    };
    const std::string r = bits == 32 ? "%r60" : "%rd60";
    const auto operands = operands_of(4, bits);
    for (const char sign : {'u', 's'}) {
      const auto two = [&](std::string_view first, std::string_view second) {
        return fmt::format("{0}.{4}{3} {2}, $a, $b;\n  {1}.{4}{3} $d, $c, $e;", first, second, r,
                           bits, sign);
      };
      add(fmt::format("add.cc.{}{}", sign, bits), two("add.cc", "addc"), bits, operands,
          [=](const Operands& x) {
            return bits_of((both(x[0], x[2]) + both(x[1], x[3])) >> bits, bits);
          });
      add(fmt::format("sub.cc.{}{}", sign, bits), two("sub.cc", "subc"), bits, operands,
          [=](const Operands& x) {
            return bits_of((both(x[0], x[2]) - both(x[1], x[3])) >> bits, bits);
          });
      // A difference that borrows nothing sets the carry.
      add(fmt::format("sub.cc.addc.{}{}", sign, bits), two("sub.cc", "addc"), bits, operands,
          [=](const Operands& x) {
            return bits_of(Wide{x[2]} + x[3] + (x[0] >= x[1] ? 1 : 0), bits);
          });
    }
    // Product of a and b, with c added to both of its words, and the carry of the second sum.
    add(fmt::format("mad.lo.cc.u{}", bits),
        fmt::format("mad.lo.cc.u{0} {1}, $a, $b, $c;\n  madc.hi.cc.u{0} {1}, $a, $b, $c;\n"
                    "  addc.u{0} $d, {1}, $e;",
                    bits, r),
        bits, operands, [=](const Operands& x) {
          __extension__ using Unsigned = unsigned __int128;
          const auto product = static_cast<Unsigned>(x[0]) * x[1];
          const Wide low = static_cast<Wide>(bits_of(static_cast<Wide>(product), bits)) + x[2];
          const Wide high = static_cast<Wide>(bits_of(static_cast<Wide>(product >> bits), bits)) +
                            x[2] + (low >> bits);
          return bits_of(static_cast<Wide>(bits_of(high, bits)) + x[3] + (high >> bits), bits);
        });
    add(fmt::format("mad.hi.cc.s{}", bits),
        fmt::format("mad.hi.cc.s{0} {1}, $a, $b, $c;\n  madc.lo.s{0} $d, $a, $b, $e;", bits, r),
        bits, operands, [=](const Operands& x) {
          const Wide product = Wide{signed_of(x[0], bits)} * signed_of(x[1], bits);
          const Wide sum = static_cast<Wide>(bits_of(product >> bits, bits)) + x[2];
          return bits_of(product + x[3] + (sum >> bits), bits);
        });
  }
}

std::int64_t clamped(Wide value) {
  return static_cast<std::int64_t>(std::clamp<Wide>(value, std::numeric_limits<std::int32_t>::min(),
                                                    std::numeric_limits<std::int32_t>::max()));
}

void add_saturated(MicroKernels& to) {
  const Adder add{to, "saturate"};
  const auto s32 = [](std::uint64_t value) { return Wide{signed_of(value, 32)}; };
  const auto low_24 = [](std::uint64_t value, bool is_signed) {
    return is_signed ? Wide{signed_of(value & 0xFFFFFFU, 24)} : Wide{value & 0xFFFFFFU};
  };
  add("add.sat.s32", "add.sat.s32 $d, $a, $b;", 32, operands_of(2, 32),
      [=](const Operands& x) { return bits_of(clamped(s32(x[0]) + s32(x[1])), 32); });
  add("sub.sat.s32", "sub.sat.s32 $d, $a, $b;", 32, operands_of(2, 32),
      [=](const Operands& x) { return bits_of(clamped(s32(x[0]) - s32(x[1])), 32); });
  add("mad.hi.sat.s32", "mad.hi.sat.s32 $d, $a, $b, $c;", 32, operands_of(3, 32),
      [=](const Operands& x) {
        return bits_of(clamped((s32(x[0]) * s32(x[1]) >> 32) + s32(x[2])), 32);
      });
  add("mad24.hi.sat.s32", "mad24.hi.sat.s32 $d, $a, $b, $c;", 32, operands_of(3, 32),
      [=](const Operands& x) {
        const Wide product = low_24(x[0], true) * low_24(x[1], true) >> 16;
        return bits_of(clamped(signed_of(bits_of(product, 32), 32) + s32(x[2])), 32);
      });
  for (const bool is_signed : {false, true}) {
    const char sign = is_signed ? 's' : 'u';
    for (const bool is_low : {false, true}) {
      add(fmt::format("mad24.{}.{}32", is_low ? "lo" : "hi", sign),
          fmt::format("mul24.{0}.{1}32 %r60, $a, $b;\n  mad24.{0}.{1}32 $d, $a, $b, $c;\n"
                      "  xor.b32 $d, $d, %r60;",
                      is_low ? "lo" : "hi", sign),
          32, operands_of(3, 32), [=](const Operands& x) {
            const Wide product =
                low_24(x[0], is_signed) * low_24(x[1], is_signed) >> (is_low ? 0 : 16);
            return bits_of(product, 32) ^ bits_of(product + x[2], 32);
          });
    }
    for (const int bits : {16, 32, 64}) {
      add(fmt::format("sad.{}{}", sign, bits), fmt::format("sad.{}{} $d, $a, $b, $c;", sign, bits),
          bits, operands_of(3, bits), [=](const Operands& x) {
            const Wide a = is_signed ? Wide{signed_of(x[0], bits)} : Wide{x[0]};
            const Wide b = is_signed ? Wide{signed_of(x[1], bits)} : Wide{x[1]};
            return bits_of((a < b ? b - a : a - b) + x[2], bits);
          });
    }
    for (const std::string_view name : {"add", "min", "max"}) {
      for (const std::string_view relu : {"", ".relu"}) {
        if (!relu.empty() && (!is_signed || name == "add")) {
          continue;
        }
        const std::string full = fmt::format("{}{}.{}16x2", name, relu, sign);
        add(full, full + " $d, $a, $b;", 32, operands_of(2, 32), [=](const Operands& x) {
          std::uint64_t result = 0;
          for (const int place : {0, 16}) {
            const auto part = [&](std::uint64_t value) {
              return is_signed ? signed_of(value >> place, 16)
                               : static_cast<std::int64_t>(value >> place & 0xFFFFU);
            };
            const std::int64_t a = part(x[0]);
            const std::int64_t b = part(x[1]);
            const std::int64_t chosen = name == "add"   ? a + b
                                        : name == "min" ? std::min(a, b)
                                                        : std::max(a, b);
            result |= bits_of(relu.empty() ? chosen : std::max<std::int64_t>(chosen, 0), 16)
                      << place;
          }
          return result;
        });
      }
    }
  }
  for (const std::string_view name : {"min", "max"}) {
    const std::string full = fmt::format("{}.relu.s32", name);
    add(full, full + " $d, $a, $b;", 32, operands_of(2, 32), [=](const Operands& x) {
      const Wide chosen =
          name == "min" ? std::min(s32(x[0]), s32(x[1])) : std::max(s32(x[0]), s32(x[1]));
      return bits_of(std::max<Wide>(chosen, 0), 32);
    });
  }
}

void add_fields(MicroKernels& to) {
  const Adder add{to, "field"};
  const LaneOperand shift{32, &shifts};
  const LaneOperand length{32, &other_shifts};
  for (const int bits : {32, 64}) {
    const auto highest = static_cast<std::uint64_t>(bits - 1);
    const LaneOperand number{bits, &integers};
    // Of 64 bits, for which there is no such instruction, all of the operand counts.
    const std::uint64_t used = bits == 32 ? 0xFFU : ~std::uint64_t{0};
    for (const bool is_signed : {false, true}) {
      const std::string type = fmt::format("{}{}", is_signed ? 's' : 'u', bits);
      add("bfe." + type, fmt::format("bfe.{} $d, $a, $b, $c;", type), bits, {number, shift, length},
          [=](const Operands& x) {
            const std::uint64_t first = x[1] & used;
            const std::uint64_t count = x[2] & used;
            const std::uint64_t sign =
                is_signed && count != 0 ? x[0] >> std::min(first + count - 1, highest) & 1U : 0;
            std::uint64_t result = 0;
            for (std::uint64_t i = 0; i <= highest; ++i) {
              const bool is_inside = i < count && first + i <= highest;
              result |= (is_inside ? x[0] >> (first + i) & 1U : sign) << i;
            }
            return result;
          });
      add("bfind." + type,
          fmt::format("bfind.{0} $d, $a;\n  bfind.shiftamt.{0} %r60, $a;\n"
                      "  mad.lo.u32 $d, %r60, 1000, $d;",
                      type),
          32, {number}, [=](const Operands& x) {
            const std::uint64_t inverted = is_signed && (x[0] >> highest) != 0 ? ~x[0] : x[0];
            for (std::uint64_t i = highest + 1; i-- > 0;) {
              if ((inverted >> i & 1U) != 0) {
                return i + (highest - i) * 1000;
              }
            }
            return std::uint64_t{0xFFFFFFFFU} * 1001 & 0xFFFFFFFFU;
          });
    }
    add(fmt::format("bfi.b{}.wide", bits), fmt::format("bfi.b{} $d, $a, $b, $c, $e;", bits), bits,
        {number, number, shift, length}, [=](const Operands& x) {
          std::uint64_t result = x[1];
          const std::uint64_t first = x[2] & used;
          for (std::uint64_t i = 0; i < (x[3] & used) && first + i <= highest; ++i) {
            const std::uint64_t place = std::uint64_t{1} << (first + i);
            result = (x[0] >> i & 1U) != 0 ? result | place : result & ~place;
          }
          return result;
        });
    add(fmt::format("count.b{}", bits),
        fmt::format("popc.b{0} $d, $a;\n  clz.b{0} %r60, $a;\n  mad.lo.u32 $d, %r60, 1000, $d;",
                    bits),
        32, {number}, [=](const Operands& x) {
          std::uint64_t ones = 0;
          std::uint64_t zeros = static_cast<std::uint64_t>(bits);
          for (std::uint64_t i = 0; i <= highest; ++i) {
            ones += x[0] >> i & 1U;
            zeros = (x[0] >> i & 1U) != 0 ? highest - i : zeros;
          }
          return ones + 1000 * zeros;
        });
    add(fmt::format("brev.b{}.wide", bits), fmt::format("brev.b{} $d, $a;", bits), bits, {number},
        [=](const Operands& x) {
          std::uint64_t result = 0;
          for (std::uint64_t i = 0; i <= highest; ++i) {
            result |= (x[0] >> i & 1U) << (highest - i);
          }
          return result;
        });
    add(fmt::format("cnot.b{}", bits), fmt::format("cnot.b{} $d, $a;", bits), bits, {number},
        [](const Operands& x) { return std::uint64_t{x[0] == 0}; });
  }
  const LaneOperand word{32, &integers};
  add("fns.b32", "and.b32 %r60, $b, 31;\n  shr.s32 %r61, $c, 28;\n  fns.b32 $d, $a, %r60, %r61;",
      32, {word, word, word}, [](const Operands& x) {
        const std::int64_t offset = signed_of(x[2], 32) >> 28;
        std::int64_t left = std::abs(offset);
        const auto first = static_cast<std::int64_t>(x[1] & 31U);
        for (std::int64_t i = first; i >= 0 && i < 32; i += offset < 0 ? -1 : 1) {
          const bool is_set = (x[0] >> i & 1U) != 0;
          if (offset == 0) {
            return is_set ? static_cast<std::uint64_t>(i) : std::uint64_t{0xFFFFFFFFU};
          }
          left -= is_set ? 1 : 0;
          if (left == 0) {
            return static_cast<std::uint64_t>(i);
          }
        }
        return std::uint64_t{0xFFFFFFFFU};
      });
  for (const bool is_clamped : {false, true}) {
    const std::string_view mode = is_clamped ? "clamp" : "wrap";
    for (const bool is_signed : {false, true}) {
      const std::string name = fmt::format("szext.{}.{}32", mode, is_signed ? 's' : 'u');
      add(name, name + " $d, $a, $b;", 32, {word, shift}, [=](const Operands& x) {
        if (is_clamped && x[1] >= 32) {
          return x[0];
        }
        const auto count = static_cast<int>(x[1] % 32);
        return count == 0  ? 0
               : is_signed ? bits_of(signed_of(x[0], count), 32)
                           : bits_of(static_cast<Wide>(x[0]), count);
      });
    }
    add(fmt::format("bmsk.{}.b32", mode), fmt::format("bmsk.{}.b32 $d, $a, $b;", mode), 32,
        {shift, shift}, [=](const Operands& x) {
          std::uint64_t result = 0;
          const std::uint64_t first = is_clamped ? x[0] : x[0] % 32;
          const std::uint64_t count = is_clamped ? std::min<std::uint64_t>(x[1], 32) : x[1] % 32;
          for (std::uint64_t i = first; i < 32 && i < first + count; ++i) {
            result |= std::uint64_t{1} << i;
          }
          return result;
        });
    for (const bool is_left : {false, true}) {
      const std::string name = fmt::format("shf.{}.{}.b32", is_left ? 'l' : 'r', mode);
      add(name, name + " $d, $a, $b, $c;", 32, {word, word, shift}, [=](const Operands& x) {
        const auto distance = is_clamped ? std::min<std::uint64_t>(x[2], 32) : x[2] % 32;
        std::uint64_t result = 0;
        for (std::uint64_t i = 0; i < 32; ++i) {
          const std::uint64_t from = is_left ? 32 + i - distance : i + distance;
          result |= ((from < 32 ? x[0] >> from : x[1] >> (from - 32)) & 1U) << i;
        }
        return result;
      });
    }
  }
}

void add_look_ups(MicroKernels& to) {
  const Adder add{to, "look-up"};
  const auto looked_up = [](const Operands& x, unsigned table) {
    std::uint64_t result = 0;
    for (unsigned i = 0; i < 32; ++i) {
      const auto row =
          static_cast<unsigned>((x[0] >> i & 1U) * 4 + (x[1] >> i & 1U) * 2 + (x[2] >> i & 1U));
      result |= std::uint64_t{table >> row & 1U} << i;
    }
    return result;
  };
  for (const unsigned table : {0U, 0x80U, 0xFEU, 0x1AU, 0x96U, 0xE8U, 0xFFU}) {
    add(fmt::format("lop3.b32.{}", table), fmt::format("lop3.b32 $d, $a, $b, $c, {};", table), 32,
        operands_of(3, 32), [=](const Operands& x) { return looked_up(x, table); });
  }
  for (const bool is_or : {false, true}) {
    std::vector<LaneOperand> operands = operands_of(3, 32);
    operands.push_back({1, &predicates});
    const std::string name = fmt::format("lop3.{}.b32", is_or ? "or" : "and");
    add(name,
        fmt::format("{0} %r60|%p12, $a, $b, $c, 0x80, $e;\n  {0} _|%p13, $a, $b, $c, 0x80, !$e;\n"
                    "  selp.u32 %r61, 1, 0, %p12;\n  selp.u32 %r62, 2, 0, %p13;\n"
                    "  or.b32 $d, %r61, %r62;\n  xor.b32 $d, $d, %r60;",
                    name),
        32, operands, [=](const Operands& x) {
          const std::uint64_t word = looked_up(x, 0x80);
          const bool is_set = x[3] != 0;
          const bool p = is_or ? word != 0 || is_set : word != 0 && is_set;
          const bool q = is_or ? word != 0 || !is_set : word != 0 && !is_set;
          return word ^ (std::uint64_t{p} | std::uint64_t{q} << 1U);
        });
  }
  // Which of the eight bytes a mode selects for each byte of the result, by PTX's table.
  struct Mode {
    std::string_view name;
    std::array<std::string_view, 4> bytes;  // the highest first
  };
  for (const Mode& mode : {Mode{"f4e", {"3210", "4321", "5432", "6543"}},
                           Mode{"b4e", {"5670", "6701", "7012", "0123"}},
                           Mode{"rc8", {"0000", "1111", "2222", "3333"}},
                           Mode{"ecl", {"3210", "3211", "3222", "3333"}},
                           Mode{"ecr", {"0000", "1110", "2210", "3210"}},
                           Mode{"rc16", {"1010", "3232", "1010", "3232"}}}) {
    add(fmt::format("prmt.b32.{}", mode.name),
        fmt::format("prmt.b32.{} $d, $a, $b, $c;", mode.name), 32, operands_of(3, 32),
        [=](const Operands& x) {
          std::uint64_t result = 0;
          for (const char digit : mode.bytes.at(x[2] % 4)) {
            const auto byte = static_cast<unsigned>(digit - '0');
            result = result << 8U | ((byte < 4 ? x[0] : x[1]) >> (8 * (byte % 4)) & 0xFFU);
          }
          return result;
        });
  }
}

void add_dot_products(MicroKernels& to) {
  const Adder add{to, "dot"};
  for (const bool is_a_signed : {false, true}) {
    for (const bool is_b_signed : {false, true}) {
      for (const std::string_view form : {"dp4a", "dp2a.lo", "dp2a.hi"}) {
        const std::string name =
            fmt::format("{}.{}32.{}32", form, is_a_signed ? 's' : 'u', is_b_signed ? 's' : 'u');
        add(name, name + " $d, $a, $b, $c;", 32, operands_of(3, 32), [=](const Operands& x) {
          const int a_bits = form == "dp4a" ? 8 : 16;
          const int first = form == "dp2a.hi" ? 2 : 0;
          Wide sum = x[2];
          for (int i = 0; i < 32 / a_bits; ++i) {
            const std::uint64_t a = bits_of(static_cast<Wide>(x[0]) >> (a_bits * i), a_bits);
            const std::uint64_t b = x[1] >> (8 * (first + i)) & 0xFFU;
            sum += (is_a_signed ? Wide{signed_of(a, a_bits)} : Wide{a}) *
                   (is_b_signed ? Wide{signed_of(b, 8)} : Wide{b});
          }
          return bits_of(sum, 32);
        });
      }
    }
  }
}

void add_selections(MicroKernels& to) {
  const Adder add{to, "select"};
  for (const int bits : {16, 32, 64}) {
    const LaneOperand number{bits, &integers};
    add(fmt::format("slct.b{}.s32", bits), fmt::format("slct.b{}.s32 $d, $a, $b, $c;", bits), bits,
        {number, number, {32, &integers}},
        [](const Operands& x) { return signed_of(x[2], 32) >= 0 ? x[0] : x[1]; });
    for (const std::string_view ftz : {"", ".ftz"}) {
      add(fmt::format("slct{}.b{}.f32", ftz, bits),
          fmt::format("slct{}.b{}.f32 $d, $a, $b, $c;", ftz, bits), bits,
          {number, number, {32, &floats}}, [=](const Operands& x) {
            const std::uint64_t magnitude = x[2] & 0x7FFFFFFFU;
            const bool is_zero = magnitude == 0 || (!ftz.empty() && magnitude < 0x00800000U);
            const bool is_nan = magnitude > 0x7F800000U;
            return !is_nan && (is_zero || x[2] >> 31U == 0) ? x[0] : x[1];
          });
    }
  }
  // Both predicates of setp, one of which may be dropped, and set to all kinds of results.
  add("setp.pair.s32",
      "setp.lt.and.s32 %p12|%p13, $a, $b, $c;\n  setp.hi.u32 _|%p14, $a, $b;\n"
      "  selp.u32 $d, 1, 0, %p12;\n  selp.u32 %r60, 2, 0, %p13;\n  selp.u32 %r61, 4, 0, %p14;\n"
      "  or.b32 $d, $d, %r60;\n  or.b32 $d, $d, %r61;",
      32, {{32, &integers}, {32, &integers}, {1, &predicates}}, [](const Operands& x) {
        const bool less = signed_of(x[0], 32) < signed_of(x[1], 32);
        return std::uint64_t{less && x[2] != 0} | std::uint64_t{!less && x[2] != 0} << 1U |
               std::uint64_t{x[0] <= x[1]} << 2U;
      });
  add("set.ge.u32.s64", "set.ge.u32.s64 $d, $a, $b;", 32, operands_of(2, 64),
      [](const Operands& x) {
        return static_cast<std::int64_t>(x[0]) >= static_cast<std::int64_t>(x[1])
                   ? 0xFFFFFFFFU
                   : std::uint64_t{0};
      });
  add("set.ls.or.f32.u32", "set.ls.or.f32.u32 $d, $a, $b, !$c;", 32,
      {{32, &integers}, {32, &integers}, {1, &predicates}},
      [](const Operands& x) { return x[0] <= x[1] || x[2] == 0 ? 0x3F800000U : std::uint64_t{0}; });
  // Words of wider registers, and bytes.
  add("mov.b128",
      ".reg .b128 %q<2>;\n  mov.b128 %q1, {$a, $b};\n  mov.b128 {%rd60, %rd61}, %q1;\n  sub.u64 "
      "$d, %rd61, %rd60;",
      64, operands_of(2, 64), [](const Operands& x) { return x[1] - x[0]; });
  add("mov.b32.bytes",
      ".reg .b8 %b<5>;\n  mov.b32 {%b1, %b2, %b3, %b4}, $a;\n  mov.b16 %h20, {%b3, %b1};\n  "
      "mov.b32 $d, {%b2, %b4, %b1, %b1};\n"
      "  cvt.u32.u16 %r60, %h20;\n  xor.b32 $d, $d, %r60;",
      32, operands_of(1, 32), [](const Operands& x) {
        const auto byte = [&](unsigned i) { return x[0] >> (8 * i) & 0xFFU; };
        return (byte(1) | byte(3) << 8U | byte(0) << 16U | byte(0) << 24U) ^
               (byte(2) | byte(0) << 8U);
      });
}

}  // namespace

void add_wider_integers(MicroKernels& to) {
  add_carries(to);
  add_saturated(to);
  add_fields(to);
  add_look_ups(to);
  add_dot_products(to);
  add_selections(to);
}

}  // namespace captures
