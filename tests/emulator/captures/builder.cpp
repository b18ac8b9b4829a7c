// The text of micro-kernels: what they have in common.
#include "emulator/captures/builder.hpp"

#include <array>

#include <fmt/format.h>

namespace captures {

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

void set_text(MicroKernel& kernel, std::string_view body, std::string_view variables) {
  std::string loads;
  for (std::size_t i = 0; i < kernel.inputs.size() + kernel.outputs.size(); ++i) {
    loads += fmt::format(
        "  ld.param.u64 %rd{0}, [args+{1}];\n  cvta.to.global.u64 %rd{0}, %rd{0};\n", i + 1, i * 8);
  }
  const std::uint32_t threads = kernel.block[0] * kernel.block[1] * kernel.block[2];
  kernel.ptx = fmt::format(R"(.version 9.0
.target sm_90a
.address_size 64
{}
.visible .entry micro(.param .align 64 .b8 args[{}])
.maxntid {}, 1, 1
.minnctapersm 1
{{
  .reg .pred %p<16>;
  .reg .b16 %h<32>;
  .reg .b32 %r<400>;
  .reg .b64 %rd<100>;
{}  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mad.lo.s32 %r3, %r2, %r4, %r1;
{}
  ret;
}}
)",
                           variables, parameter_bytes(kernel), threads, loads, body);
}

namespace {

std::string copy_loop(std::string_view global, std::string_view shared, std::size_t bytes,
                      std::uint32_t threads, std::string_view label, bool is_to_shared) {
  const std::string_view registers = "{%r384, %r385, %r386, %r387}";
  const std::string moves =
      is_to_shared
          ? fmt::format("  ld.global.v4.u32 {0}, [%rd81];\n  st.shared.v4.u32 [%r381], {0};",
                        registers)
          : fmt::format("  ld.shared.v4.u32 {0}, [%r381];\n  st.global.v4.u32 [%rd81], {0};",
                        registers);
  return fmt::format(R"(
  shl.b32 %r380, %r1, 4;
{0}:
  setp.ge.u32 %p15, %r380, {1};
  @%p15 bra {0}_END;
  add.u32 %r381, {3}, %r380;
  cvt.u64.u32 %rd80, %r380;
  add.s64 %rd81, {2}, %rd80;
{4}
  add.u32 %r380, %r380, {5};
  bra {0};
{0}_END:
)",
                     label, bytes, global, shared, moves, threads * 16);
}

std::string register_of(int bits, std::size_t number) {
  return bits == 1    ? fmt::format("%p{}", number)
         : bits == 16 ? fmt::format("%h{}", number)
         : bits == 64 ? fmt::format("%rd{}", number + 10)
                      : fmt::format("%r{}", number + 10);
}

std::string address_text(int memory_bits, std::size_t buffer) {
  return fmt::format("  mul.wide.u32 %rd60, %r3, {};\n  add.s64 %rd61, %rd{}, %rd60;\n",
                     memory_bits / 8, buffer);
}

int memory_bits(int bits) {
  return bits == 1 ? 32 : bits;
}

Model model_of(const LaneOperation& operation) {
  if (!operation.model) {
    return {};
  }
  return [operation](const std::vector<Bytes>& inputs) {
    std::vector<std::uint64_t> results(operation.count);
    for (std::size_t i = 0; i < operation.count; ++i) {
      std::array<std::uint64_t, 4> operands{};
      for (std::size_t k = 0; k < inputs.size(); ++k) {
        const auto size = static_cast<std::size_t>(memory_bits(operation.operands[k].bits)) / 8;
        std::memcpy(&operands.at(k), inputs[k].data() + i * size, size);
      }
      results[i] = operation.model(operands);
    }
    return std::vector<Bytes>{packed(results, memory_bits(operation.result_bits))};
  };
}

}  // namespace

std::string copy_to_shared(std::string_view from, std::string_view to, std::size_t bytes,
                           std::uint32_t threads, std::string_view label) {
  return copy_loop(from, to, bytes, threads, label, true);
}
std::string copy_from_shared(std::string_view from, std::string_view to, std::size_t bytes,
                             std::uint32_t threads, std::string_view label) {
  return copy_loop(to, from, bytes, threads, label, false);
}

void add_lane_operation(MicroKernels& to, const LaneOperation& operation) {
  constexpr std::uint32_t kThreads = 128;
  constexpr std::array<std::string_view, 4> kNames = {"$a", "$b", "$c", "$e"};
  MicroKernel kernel{.name = operation.name, .family = operation.family, .ptx = {}};
  kernel.block = {kThreads, 1, 1};
  kernel.grid = {static_cast<std::uint32_t>(operation.count / kThreads), 1, 1};
  kernel.tolerance = operation.tolerance;
  kernel.model_tolerance = operation.model_tolerance;
  std::string body;
  std::string text = operation.text;
  const std::size_t arity = operation.operands.size();
  for (std::size_t k = 0; k < arity; ++k) {
    const LaneOperand& operand = operation.operands[k];
    const std::uint64_t seed = to.size() * 16 + 1;
    kernel.inputs.emplace_back([operand, k, arity, seed, count = operation.count] {
      return packed(operand.fill(count, operand.bits, {k, arity}, seed), memory_bits(operand.bits));
    });
    const std::string name = register_of(operand.bits, k + 1);
    body += address_text(memory_bits(operand.bits), k + 1);
    if (operand.bits == 1) {
      body += fmt::format("  ld.global.u32 %r50, [%rd61];\n  setp.ne.u32 {}, %r50, 0;\n", name);
    } else {
      body += fmt::format("  ld.global.b{} {}, [%rd61];\n", operand.bits, name);
    }
    text = replaced(text, kNames.at(k), name);
  }
  kernel.outputs = {operation.count * static_cast<std::size_t>(memory_bits(operation.result_bits)) /
                    8};
  const std::string result = register_of(operation.result_bits, 9);
  body += "  " + replaced(text, "$d", result) + "\n";
  body += address_text(memory_bits(operation.result_bits), arity + 1);
  if (operation.result_bits == 1) {
    body += fmt::format("  selp.u32 %r50, 1, 0, {};\n  st.global.u32 [%rd61], %r50;", result);
  } else {
    body += fmt::format("  st.global.b{} [%rd61], {};", operation.result_bits, result);
  }
  set_text(kernel, body);
  kernel.model = model_of(operation);
  to.push_back(std::move(kernel));
}

}  // namespace captures
