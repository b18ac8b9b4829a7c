// Micro-kernels of video instructions. Their model writes out PTX's definition in 64 bits.
#include <algorithm>
#include <array>
#include <cstdlib>

#include <fmt/format.h>

#include "emulator/captures/builder.hpp"

namespace captures {
namespace {

using Operands = std::array<std::uint64_t, 4>;

struct VideoPart {
  std::string_view name;
  int first;
  int bits;
};
constexpr VideoPart kWhole{"", 0, 32};

std::int64_t part_of(std::uint64_t word, const VideoPart& part, bool is_signed) {
  const std::uint64_t cut = word >> part.first & ((std::uint64_t{1} << part.bits) - 1);
  const bool is_negative = is_signed && (cut >> (part.bits - 1) & 1U) != 0;
  return static_cast<std::int64_t>(cut) - (is_negative ? std::int64_t{1} << part.bits : 0);
}

std::int64_t limited(std::int64_t value, int bits, bool is_signed) {
  const std::int64_t range = std::int64_t{1} << bits;
  return is_signed ? std::clamp<std::int64_t>(value, -range / 2, range / 2 - 1)
                   : std::clamp<std::int64_t>(value, 0, range - 1);
}

std::int64_t function_of(std::string_view name, std::int64_t a, std::int64_t b) {
  return name == "vadd"       ? a + b
         : name == "vsub"     ? a - b
         : name == "vabsdiff" ? std::abs(a - b)
         : name == "vmin"     ? std::min(a, b)
         : name == "vmax"     ? std::max(a, b)
         : a + b >= 0         ? (a + b + 1) >> 1
                              : (a + b) >> 1;
}

void add_video(MicroKernels& to, std::string_view name, std::string_view text, LaneModel model) {
  LaneOperation made{.name = std::string(name), .family = "video", .text = std::string(text)};
  made.operands.assign(3, {32, &integers});
  made.count = 1024;
  made.model = std::move(model);
  add_lane_operation(to, made);
}

// Forms of scalar instructions: types of the result and the sources, parts, what follows.
struct ScalarForm {
  bool is_d_signed;
  bool is_a_signed;
  bool is_b_signed;
  VideoPart d;
  VideoPart a;
  VideoPart b;
  bool saturates;
  std::string_view second;
};
constexpr std::array kScalarForms = {
    ScalarForm{true, true, true, kWhole, kWhole, kWhole, false, ""},
    ScalarForm{true, false, true, kWhole, {".b0", 0, 8}, {".h0", 0, 16}, true, ""},
    ScalarForm{false, false, false, kWhole, {".b3", 24, 8}, {".b1", 8, 8}, true, ".add"},
    ScalarForm{true, true, false, kWhole, {".h1", 16, 16}, {".b2", 16, 8}, false, ".min"},
    ScalarForm{false, true, true, kWhole, kWhole, {".h1", 16, 16}, true, ".max"},
    ScalarForm{true, true, true, {".h1", 16, 16}, kWhole, kWhole, true, ""},
    ScalarForm{false, false, true, {".b2", 16, 8}, {".h0", 0, 16}, {".b0", 0, 8}, true, ""},
    ScalarForm{false, true, true, {".b0", 0, 8}, kWhole, kWhole, false, ""},
};

std::uint64_t finished(std::int64_t result, const ScalarForm& form, std::uint64_t c) {
  const std::int64_t third = part_of(c, kWhole, form.is_d_signed);
  if (form.saturates) {
    result = limited(result, form.d.bits, form.is_d_signed);
  }
  if (form.d.bits < 32) {
    const std::uint64_t mask = ((std::uint64_t{1} << form.d.bits) - 1) << form.d.first;
    return (static_cast<std::uint64_t>(result) << form.d.first & mask) | (c & ~mask);
  }
  result = form.second == ".add"   ? result + third
           : form.second == ".min" ? std::min(result, third)
           : form.second == ".max" ? std::max(result, third)
                                   : result;
  return static_cast<std::uint64_t>(result) & 0xFFFFFFFFU;
}

// What ptxas 13.0 makes of some forms is not what PTX says.
std::string_view difference_on_cards(std::string_view name, const ScalarForm& form) {
  const bool is_sum = name == "vadd" || name == "vsub";
  if (!form.saturates) {
    return "";
  }
  if (form.d.bits == 16) {
    return "ptxas stores the sign of the result in its place";
  }
  if (form.d.bits == 8 && (is_sum || name == "vmin")) {
    return "ptxas makes the greatest number of a negative result";
  }
  return is_sum && form.second == ".max" && !form.is_d_signed
             ? "ptxas takes a sum of 2^31 and more for greater than all numbers"
             : "";
}

void add_scalar(MicroKernels& to, std::string_view name, const ScalarForm& form) {
  const auto type = [](bool is_signed) { return is_signed ? "s32" : "u32"; };
  const std::string opcode =
      fmt::format("{}.{}.{}.{}{}{}", name, type(form.is_d_signed), type(form.is_a_signed),
                  type(form.is_b_signed), form.saturates ? ".sat" : "", form.second);
  const bool has_third = form.d.bits < 32 || !form.second.empty();
  add_video(to, fmt::format("{} {}{}{}", opcode, form.d.name, form.a.name, form.b.name),
            fmt::format("{} $d{}, $a{}, $b{}{};", opcode, form.d.name, form.a.name, form.b.name,
                        has_third ? ", $c" : ""),
            [=](const Operands& x) {
              return finished(function_of(name, part_of(x[0], form.a, form.is_a_signed),
                                          part_of(x[1], form.b, form.is_b_signed)),
                              form, x[2]);
            });
  to.back().difference_on_cards = difference_on_cards(name, form);
}

void add_shifts_and_comparisons(MicroKernels& to) {
  add_video(to, "vshl.clamp", "vshl.u32.u32.u32.clamp $d, $a.h0, $b.b0;", [](const Operands& x) {
    const std::uint64_t distance = std::min<std::uint64_t>(x[1] & 0xFFU, 32);
    return ((x[0] & 0xFFFFU) << distance) & 0xFFFFFFFFU;
  });
  add_video(to, "vshr.wrap", "vshr.s32.s32.u32.wrap.add $d, $a, $b, $c;", [](const Operands& x) {
    const std::int64_t shifted = part_of(x[0], kWhole, true) >> (x[1] & 31U);
    return (static_cast<std::uint64_t>(shifted) + x[2]) & 0xFFFFFFFFU;
  });
  add_video(to, "vset.add", "vset.s32.u32.lt.add $d, $a.b1, $b.b2, $c;", [](const Operands& x) {
    const bool less = part_of(x[0], {"", 8, 8}, true) < part_of(x[1], {"", 16, 8}, false);
    return (x[2] + (less ? 1U : 0U)) & 0xFFFFFFFFU;
  });
  // Products with each sign, one added, shifted, and cut to the range of the type.
  struct Mad {
    std::string_view opcode;
    std::string_view operands;
    int product_sign;
    int third_sign;
    int added;
    int distance;
    bool saturates;
    bool is_signed;
  };
  for (const Mad& mad :
       {Mad{"vmad.u32.u32.u32", "$a.h0, $b.h1, $c", 1, 1, 0, 0, false, false},
        Mad{"vmad.s32.s32.u32.sat", "$a.h0, $b.h1, -$c", 1, -1, 0, 0, true, true},
        Mad{"vmad.s32.s32.u32.sat.shr7", "-$a.h0, $b.h1, $c", -1, 1, 0, 7, true, true},
        Mad{"vmad.s32.s32.u32.po.shr15", "$a.h0, $b.h1, $c", 1, 1, 1, 15, false, true},
        Mad{"vmad.u32.u32.u32.sat", "$a.h0, $b.h1, $c", 1, 1, 0, 0, true, false}}) {
    add_video(
        to, fmt::format("{} {}", mad.opcode, mad.operands),
        fmt::format("{} $d, {};", mad.opcode, mad.operands), [=](const Operands& x) {
          const bool is_a_signed = mad.opcode.substr(9, 3) == "s32";
          const std::int64_t a = part_of(x[0], {"", 0, 16}, is_a_signed);
          const std::int64_t b = part_of(x[1], {"", 16, 16}, false);
          const std::int64_t c = part_of(x[2], kWhole, mad.is_signed);
          const std::int64_t sum =
              (mad.product_sign * a * b + mad.third_sign * c + mad.added) >> mad.distance;
          return static_cast<std::uint64_t>(mad.saturates ? limited(sum, 32, mad.is_signed) : sum) &
                 0xFFFFFFFFU;
        });
    if (mad.saturates && !mad.is_signed) {
      to.back().difference_on_cards = "ptxas extends the unsigned summand by its highest bit";
    }
  }
}

// Instructions on two or four parts; `a` and `b` name parts of both words, the highest first.
struct VectorForm {
  std::string_view types;
  std::string_view mask;  // the parts of the result that are computed
  std::string_view a;
  std::string_view b;
};

void add_vector(MicroKernels& to, std::string_view name, int count, const VectorForm& form) {
  const int bits = 32 / count;
  const char letter = count == 2 ? 'h' : 'b';
  const auto selector = [&](std::string_view digits) {
    return digits.empty() ? std::string() : fmt::format(".{}{}", letter, digits);
  };
  const std::string opcode = fmt::format("{}{}{}", name, count, form.types);
  const std::string text = fmt::format("{} $d{}, $a{}, $b{}, $c;", opcode, selector(form.mask),
                                       selector(form.a), selector(form.b));
  add_video(to, text, text, [=](const Operands& x) {
    const auto is_signed = [&](std::size_t index) { return form.types[1 + 4 * index] == 's'; };
    const bool saturates = form.types.ends_with(".sat");
    const bool accumulates = form.types.ends_with(".add");
    const auto number = [&](std::string_view digits, int i, int first, bool has_sign) {
      const int chosen =
          digits.empty() ? first + i : digits[static_cast<std::size_t>(count - 1 - i)] - '0';
      return part_of(chosen < count ? x[0] : x[1], {"", chosen % count * bits, bits}, has_sign);
    };
    std::uint64_t result = accumulates ? x[2] : 0;
    for (int i = 0; i < count; ++i) {
      const bool is_chosen =
          form.mask.empty() || form.mask.find(static_cast<char>('0' + i)) != std::string_view::npos;
      std::int64_t value = function_of(name, number(form.a, i, 0, is_signed(1)),
                                       number(form.b, i, count, is_signed(2)));
      value = saturates ? limited(value, bits, is_signed(0)) : value;
      if (accumulates) {
        result += static_cast<std::uint64_t>(is_chosen ? value : 0);
        continue;
      }
      const std::int64_t kept = part_of(x[2], {"", i * bits, bits}, false);
      result |=
          (static_cast<std::uint64_t>(is_chosen ? value : kept) & ((std::uint64_t{1} << bits) - 1))
          << (i * bits);
    }
    return result & 0xFFFFFFFFU;
  });
}

}  // namespace

void add_videos(MicroKernels& to) {
  for (const std::string_view name : {"vadd", "vsub", "vabsdiff", "vmin", "vmax"}) {
    for (const ScalarForm& form : kScalarForms) {
      add_scalar(to, name, form);
    }
  }
  add_shifts_and_comparisons(to);
  for (const std::string_view name : {"vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"}) {
    add_vector(to, name, 2, {".s32.s32.s32.sat", "", "", ""});
    add_vector(to, name, 2, {".u32.s32.u32.sat", "1", "20", "31"});
    add_vector(to, name, 2, {".s32.u32.s32.add", "10", "", ""});
    add_vector(to, name, 4, {".u32.u32.u32", "", "", ""});
    add_vector(to, name, 4, {".s32.s32.u32.sat", "320", "7160", "0123"});
    add_vector(to, name, 4, {".u32.s32.s32.add", "21", "", ""});
  }
  add_video(to, "vset4", "vset4.u32.s32.ge $d.b310, $a, $b, $c;", [](const Operands& x) {
    std::uint64_t result = 0;
    for (int i = 0; i < 4; ++i) {
      const VideoPart part{"", 8 * i, 8};
      const bool holds = part_of(x[0], part, false) >= part_of(x[1], part, true);
      result |=
          (i == 2 ? static_cast<std::uint64_t>(part_of(x[2], part, false)) : std::uint64_t{holds})
          << (8 * i);
    }
    return result;
  });
}

}  // namespace captures
