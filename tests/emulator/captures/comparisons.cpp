// Micro-kernels of setp, selp and mov.
#include <array>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "emulator/captures/builder.hpp"

namespace captures {
namespace {

using Operands = std::array<std::uint64_t, 4>;

struct ComparedType {
  std::string_view name;
  int bits;
  enum class Kind : std::uint8_t { kBits, kUnsigned, kSigned, kFloat } kind;
};

// -1, 0, 1, or 2 where one is NaN.
int order_of(std::uint64_t a, std::uint64_t b, const ComparedType& type) {
  if (type.kind == ComparedType::Kind::kFloat) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(a));
    const auto y = std::bit_cast<float>(static_cast<std::uint32_t>(b));
    return std::isunordered(x, y) ? 2 : x < y ? -1 : x > y ? 1 : 0;
  }
  if (type.kind == ComparedType::Kind::kSigned) {  // an order of its own, by turning the sign
    const std::uint64_t sign = std::uint64_t{1} << static_cast<unsigned>(type.bits - 1);
    a ^= sign;
    b ^= sign;
  }
  return a < b ? -1 : a > b ? 1 : 0;
}

bool holds(std::string_view comparison, int order) {
  if (comparison == "num" || comparison == "nan") {
    return (order == 2) == (comparison == "nan");
  }
  if (order == 2) {
    return comparison.size() == 3;  // equ, neu, ...
  }
  const std::string_view plain = comparison.substr(0, 2);
  return plain == "eq"   ? order == 0
         : plain == "ne" ? order != 0
         : plain == "lt" ? order < 0
         : plain == "le" ? order <= 0
         : plain == "gt" ? order > 0
                         : order >= 0;
}

// All comparisons of a type in one kernel, a bit of the result each.
void add_setp(MicroKernels& to, const ComparedType& type) {
  using Kind = ComparedType::Kind;
  std::vector<std::string_view> comparisons = {"eq", "ne"};
  if (type.kind != Kind::kBits) {
    comparisons.insert(comparisons.end(), {"lt", "le", "gt", "ge"});
  }
  if (type.kind == Kind::kFloat) {
    comparisons.insert(comparisons.end(), {"equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"});
  }
  LaneOperation made{.name = fmt::format("setp.{}", type.name), .family = "compare"};
  made.text = "mov.b32 $d, 0;";
  for (std::size_t i = 0; i < comparisons.size(); ++i) {
    made.text += fmt::format(
        "\n  setp.{}.{} %p12, $a, $b;\n  selp.u32 %r51, {}, 0, %p12;\n  or.b32 $d, $d, %r51;",
        comparisons[i], type.name, 1U << i);
  }
  made.operands.assign(2, {type.bits, type.kind == Kind::kFloat ? &floats : &integers});
  made.model = [=](const Operands& x) {
    std::uint64_t result = 0;
    for (std::size_t i = 0; i < comparisons.size(); ++i) {
      result |= std::uint64_t{holds(comparisons[i], order_of(x[0], x[1], type))} << i;
    }
    return result;
  };
  add_lane_operation(to, made);
}

void add_combined(MicroKernels& to, std::string_view how, bool is_negated) {
  LaneOperation made{
      .name = fmt::format("setp.lt.{}{}.s32", how, is_negated ? ".not" : ""),
      .family = "compare",
      .text = fmt::format("setp.lt.{}.s32 $d, $a, $b, {}$c;", how, is_negated ? "!" : "")};
  made.result_bits = 1;
  made.operands = {{32, &integers}, {32, &integers}, {1, &predicates}};
  made.model = [=](const Operands& x) -> std::uint64_t {
    const bool less = static_cast<std::int32_t>(x[0]) < static_cast<std::int32_t>(x[1]);
    const bool other = (x[2] != 0) != is_negated;
    return how == "and" ? less && other : how == "or" ? less || other : less != other;
  };
  add_lane_operation(to, made);
}

void add_selp(MicroKernels& to, std::string_view type, int bits, bool is_negated) {
  LaneOperation made{.name = fmt::format("selp.{}{}", type, is_negated ? ".not" : ""),
                     .family = "select",
                     .text = fmt::format("selp.{} $d, $a, $b, $c;", type)};
  if (is_negated) {
    made.text = fmt::format("not.pred %p12, $c;\n  selp.{} $d, $a, $b, %p12;", type);
  }
  made.count = 1024;
  made.result_bits = bits;
  made.operands = {{bits, &integers}, {bits, &integers}, {1, &predicates}};
  made.model = [=](const Operands& x) { return (x[2] != 0) != is_negated ? x[0] : x[1]; };
  add_lane_operation(to, made);
}

void add_moves(MicroKernels& to) {
  const auto add = [&](std::string_view name, std::string_view text, int bits, LaneModel model) {
    LaneOperation made{.name = std::string(name), .family = "select", .text = std::string(text)};
    made.count = 1024;
    made.result_bits = bits;
    made.operands = {{bits, &integers}};
    made.model = std::move(model);
    add_lane_operation(to, made);
  };
  const auto same = [](const Operands& x) { return x[0]; };
  add("mov.u16", "mov.u16 $d, $a;", 16, same);
  add("mov.b32", "mov.b32 $d, $a;", 32, same);
  add("mov.f32", "mov.f32 $d, $a;", 32, same);
  add("mov.b64", "mov.b64 $d, $a;", 64, same);
  add("mov.b32.parts", "mov.b32 {%h20, %h21}, $a;\n  mov.b32 $d, {%h21, %h20};", 32,
      [](const Operands& x) { return (x[0] >> 16U | x[0] << 16U) & 0xFFFFFFFFU; });
  add("mov.b64.parts", "mov.b64 {%r60, %r61}, $a;\n  mov.b64 $d, {%r61, %r60};", 64,
      [](const Operands& x) { return x[0] >> 32U | x[0] << 32U; });
  add("mov.b64.quarters",
      "mov.b64 {%h20, %h21, %h22, %h23}, $a;\n  mov.b64 $d, {%h23, %h20, %h22, %h21};", 64,
      [](const Operands& x) {
        const auto part = [&](unsigned i) { return x[0] >> (16 * i) & 0xFFFFU; };
        return part(3) | part(0) << 16U | part(2) << 32U | part(1) << 48U;
      });
}

}  // namespace

void add_comparisons(MicroKernels& to) {
  using Kind = ComparedType::Kind;
  for (const ComparedType& type :
       {ComparedType{"b16", 16, Kind::kBits}, ComparedType{"b32", 32, Kind::kBits},
        ComparedType{"b64", 64, Kind::kBits}, ComparedType{"u16", 16, Kind::kUnsigned},
        ComparedType{"s16", 16, Kind::kSigned}, ComparedType{"u32", 32, Kind::kUnsigned},
        ComparedType{"s32", 32, Kind::kSigned}, ComparedType{"u64", 64, Kind::kUnsigned},
        ComparedType{"s64", 64, Kind::kSigned}, ComparedType{"f32", 32, Kind::kFloat}}) {
    add_setp(to, type);
  }
  for (const std::string_view how : {"and", "or", "xor"}) {
    add_combined(to, how, false);
    add_combined(to, how, true);
  }
  for (const bool is_negated : {false, true}) {
    add_selp(to, "u16", 16, is_negated);
    add_selp(to, "b32", 32, is_negated);
    add_selp(to, "f32", 32, is_negated);
    add_selp(to, "b64", 64, is_negated);
  }
  add_moves(to);
}

}  // namespace captures
