// Micro-kernels of wgmma: widths, types, layouts of shared memory, A in registers, and numbers that
// are hard to add up. Shared memory is filled with elements anywhere: descriptors say which are
// whose.
#include <array>

#include <fmt/format.h>

#include "emulator/captures/accumulators.hpp"
#include "emulator/captures/builder.hpp"
#include "emulator/captures/wgmma_layout.hpp"

namespace captures {
namespace {

constexpr std::size_t kBOffset = 16384;
constexpr std::size_t kSharedBytes = 65536;

struct Product {
  Number a = Number::kBF16;
  Number b = Number::kBF16;
  int n = 64;
  Nasty nasty = Nasty::kRandom;
  OperandLayout a_layout{};
  OperandLayout b_layout{};
  int steps = 1;  // along K
  bool is_a_in_registers = false;
  bool accumulates = true;
  int a_sign = 1;
  int b_sign = 1;
  std::uint32_t warpgroups = 1;
};

std::string list_of(int first, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) {
    text += fmt::format("{}%r{}", i == 0 ? "" : ", ", first + i);
  }
  return text + "}";
}

std::string opcode_of(const Product& product) {
  const bool is_wide = bits_of(product.a) == 16;
  const bool is_float = product.a != Number::kS8 && product.a != Number::kU8;
  return fmt::format("wgmma.mma_async.sync.aligned.m64n{}k{}.{}.{}.{}", product.n,
                     is_wide ? 16 : 32, is_float ? "f32" : "s32", name_of(product.a),
                     name_of(product.b));
}

// What comes behind the predicate: signs of floats, and of 16-bit ones which operand is M- or
// N-major.
std::string tail_of(const Product& product) {
  if (product.a == Number::kS8 || product.a == Number::kU8) {
    return "";
  }
  std::string tail = fmt::format(", {}, {}", product.a_sign, product.b_sign);
  if (bits_of(product.a) == 16) {
    if (!product.is_a_in_registers) {
      tail += product.a_layout.is_transposed ? ", 1" : ", 0";
    }
    tail += product.b_layout.is_transposed ? ", 1" : ", 0";
  }
  return tail;
}

std::string descriptor_text(std::string_view to, const OperandLayout& layout, std::size_t offset) {
  return fmt::format(
      "  add.u32 %r20, %r10, {};\n  shr.u32 %r20, %r20, 4;\n  and.b32 %r20, %r20, 16383;\n"
      "  cvt.u64.u32 {}, %r20;\n  or.b64 {}, {}, {};\n",
      offset + layout.first, to, to, to, static_cast<std::int64_t>(layout.fields()));
}

std::string body_of(const Product& product) {
  const int registers = product.n / 2;
  constexpr int kFirst = 100;
  const std::uint32_t threads = 128 * product.warpgroups;
  std::string body = "  mov.u32 %r10, buffer;\n";
  body += copy_to_shared("%rd1", "%r10", kSharedBytes, threads, "FILL");
  // Accumulators of a thread lie `threads` words apart.
  body +=
      "  mul.wide.u32 %rd10, %r1, 4;\n  add.s64 %rd11, %rd2, %rd10;\n"
      "  add.s64 %rd12, %rd4, %rd10;\n  mul.wide.u32 %rd13, %r1, 16;\n"
      "  add.s64 %rd14, %rd3, %rd13;\n";
  for (int i = 0; i < registers; ++i) {
    body += fmt::format("  ld.global.u32 %r{}, [%rd11+{}];\n", kFirst + i,
                        static_cast<std::uint32_t>(i) * threads * 4);
  }
  if (product.is_a_in_registers) {
    body += "  ld.global.v4.u32 {%r11, %r12, %r13, %r14}, [%rd14];\n";
  }
  body += descriptor_text("%rd20", product.a_layout, 0);
  body += descriptor_text("%rd21", product.b_layout, kBOffset);
  body += fmt::format(
      "  fence.proxy.async.shared::cta;\n  bar.sync 0;\n"
      "  mov.u32 %r15, {};\n  setp.ne.u32 %p1, %r15, 0;\n"
      "  setp.eq.u32 %p2, 0, 0;\n  wgmma.fence.sync.aligned;\n",
      product.accumulates ? 1 : 0);
  for (int step = 0; step < product.steps; ++step) {
    body +=
        fmt::format("  {} {}, {}, %rd21, {}{};\n", opcode_of(product), list_of(kFirst, registers),
                    product.is_a_in_registers ? list_of(11, 4) : "%rd20", step == 0 ? "%p1" : "%p2",
                    tail_of(product));
    if (step + 1 < product.steps) {
      body += fmt::format("  add.s64 %rd20, %rd20, {};\n  add.s64 %rd21, %rd21, {};\n",
                          product.a_layout.step / 16, product.b_layout.step / 16);
    }
  }
  body += "  wgmma.commit_group.sync.aligned;\n  wgmma.wait_group.sync.aligned 0;\n";
  for (int i = 0; i < registers; ++i) {
    body += fmt::format("  st.global.u32 [%rd12+{}], %r{};\n",
                        static_cast<std::uint32_t>(i) * threads * 4, kFirst + i);
  }
  return replaced(body, "setp.eq.u32 %p2, 0, 0;", "setp.eq.u32 %p2, %r1, %r1;");
}

void add(MicroKernels& to, std::string name, const Product& product) {
  MicroKernel kernel{.name = "wgmma." + std::move(name), .family = "wgmma", .ptx = {}};
  const std::uint32_t threads = 128 * product.warpgroups;
  kernel.block = {threads, 1, 1};
  kernel.dynamic_shared_bytes = kSharedBytes;
  const std::uint64_t seed = to.size() * 8;
  const std::size_t words = static_cast<std::size_t>(product.n) / 2 * threads;
  kernel.inputs.emplace_back([=] {
    Bytes bytes = matrix_elements(product.a, product.nasty, kBOffset, seed);
    const Bytes more = matrix_elements(product.b, product.nasty, kSharedBytes - kBOffset, seed + 1);
    bytes.insert(bytes.end(), more.begin(), more.end());
    return bytes;
  });
  kernel.inputs.emplace_back(
      [=] { return accumulators(product.a, product.nasty, words, seed + 2); });
  kernel.inputs.emplace_back([=] {
    return matrix_elements(product.a, product.nasty, std::size_t{threads} * 16, seed + 3);
  });
  kernel.outputs = {words * 4};
  set_text(kernel, body_of(product), ".extern .shared .align 1024 .b8 buffer[];");
  if (bits_of(product.a) == 8 && product.a != Number::kE4M3) {
    kernel.model = [=](const std::vector<Bytes>& inputs) {
      return integer_products(
          inputs, {product.a_layout, product.b_layout, kBOffset, product.n, product.steps,
                   product.a == Number::kS8, product.b == Number::kS8, product.is_a_in_registers,
                   product.accumulates});
    };
  }
  to.push_back(std::move(kernel));
}

std::string pair_name(const Product& product) {
  return fmt::format("{}.{}", name_of(product.a), name_of(product.b));
}

Product of(Number a, Number b, int n) {
  Product product{.a = a, .b = b, .n = n};
  product.a_layout = k_major(SwizzleMode::k128);
  product.b_layout = k_major(SwizzleMode::k128);
  product.steps = 4;
  return product;
}

void add_widths(MicroKernels& to) {
  const auto width = [&](Number a, Number b, int n) {
    const Product product = of(a, b, n);
    add(to, fmt::format("{}.n{}", pair_name(product), n), product);
  };
  for (int n = 8; n <= 256; n += 8) {
    width(Number::kBF16, Number::kBF16, n);
  }
  for (const int n : {8, 16, 32, 64, 96, 112, 128, 160, 192, 200, 256}) {
    width(Number::kF16, Number::kF16, n);
  }
  for (const int n : {8, 32, 64, 96, 128, 192, 256}) {
    width(Number::kE4M3, Number::kE4M3, n);
  }
  for (const int n : {8, 16, 24, 32, 48, 64, 96, 128, 192, 224, 256}) {
    width(Number::kS8, Number::kS8, n);
    width(Number::kU8, Number::kS8, n);
  }
}

void add_numbers(MicroKernels& to) {
  using enum Nasty;
  for (const Number number : {Number::kBF16, Number::kF16, Number::kE4M3}) {
    for (const Nasty nasty : {kRandom, kWide, kCancelling, kSpecial, kSubnormal, kHuge}) {
      Product product = of(number, number, 32);
      product.nasty = nasty;
      product.steps = 1;
      add(to, fmt::format("{}.{}.one", pair_name(product), name_of(nasty)), product);
      product.accumulates = false;
      add(to, fmt::format("{}.{}.zero", pair_name(product), name_of(nasty)), product);
      if (nasty != kRandom) {
        product.steps = 4;
        product.accumulates = true;
        add(to, fmt::format("{}.{}.four", pair_name(product), name_of(nasty)), product);
      }
    }
  }
  for (const Number number : {Number::kS8, Number::kU8}) {
    for (const Nasty nasty : {kCancelling, kHuge, kSpecial}) {
      Product product = of(number, Number::kS8, 32);
      product.nasty = nasty;
      add(to, fmt::format("{}.{}", pair_name(product), name_of(nasty)), product);
      product.accumulates = false;
      add(to, fmt::format("{}.{}.zero", pair_name(product), name_of(nasty)), product);
    }
  }
}

void add_layouts(MicroKernels& to) {
  using enum SwizzleMode;
  const auto name_of_mode = [](SwizzleMode mode) {
    return mode == kNone ? "none" : mode == k32 ? "32B" : mode == k64 ? "64B" : "128B";
  };
  for (const auto& [a, b] :
       {std::pair(Number::kBF16, Number::kBF16), std::pair(Number::kE4M3, Number::kE4M3),
        std::pair(Number::kS8, Number::kS8)}) {
    for (const SwizzleMode mode : {kNone, k32, k64}) {
      Product product = of(a, b, 64);
      product.a_layout = k_major(mode);
      product.b_layout = k_major(mode);
      product.steps = mode == k32 ? 1 : 2;
      add(to, fmt::format("{}.k_major.{}", pair_name(product), name_of_mode(mode)), product);
    }
    Product product = of(a, b, 64);
    product.a_layout = k_major(kNone, true);
    product.b_layout = k_major(kNone, true);
    product.steps = 2;
    add(to, fmt::format("{}.k_major.none.columns", pair_name(product)), product);
    product = of(a, b, 64);
    product.a_layout = k_major(k64);
    product.steps = 2;
    add(to, fmt::format("{}.mixed", pair_name(product)), product);
  }
  for (const SwizzleMode mode : {kNone, k32, k64, k128}) {
    for (const int transposed : {1, 2, 3}) {
      Product product = of(Number::kBF16, Number::kBF16, 96);
      product.steps = 2;
      product.a_layout = (transposed & 1) != 0 ? mn_major(mode, 64) : k_major(k128);
      product.b_layout = (transposed & 2) != 0 ? mn_major(mode, 96) : k_major(k128);
      add(to, fmt::format("bf16.mn_major.{}.{}", name_of_mode(mode), transposed), product);
    }
  }
  for (const int n : {16, 64, 128, 256}) {
    Product product = of(Number::kF16, Number::kF16, n);
    product.steps = 2;
    product.b_layout = mn_major(k128, n);
    add(to, fmt::format("f16.mn_major.128B.n{}", n), product);
  }
  for (const std::uint32_t base : {1U, 2U, 5U, 7U}) {
    Product product = of(Number::kBF16, Number::kBF16, 32);
    product.a_layout.first = 128 * base;
    product.a_layout.base = base;
    product.b_layout.first = 128 * base;
    product.b_layout.base = base;
    add(to, fmt::format("bf16.base.{}", base), product);
  }
}

void add_rest(MicroKernels& to) {
  for (const auto& [a, b] :
       {std::pair(Number::kBF16, Number::kBF16), std::pair(Number::kF16, Number::kF16),
        std::pair(Number::kE4M3, Number::kE4M3), std::pair(Number::kS8, Number::kS8),
        std::pair(Number::kU8, Number::kS8)}) {
    for (const int n : {8, 64, 128}) {
      Product product = of(a, b, n);
      product.is_a_in_registers = true;
      add(to, fmt::format("{}.registers.n{}", pair_name(product), n), product);
    }
  }
  Product product = of(Number::kBF16, Number::kBF16, 64);
  product.is_a_in_registers = true;
  product.steps = 2;
  product.b_layout = mn_major(SwizzleMode::k128, 64);
  add(to, "bf16.registers.mn_major", product);
  for (const int signs : {1, 2, 3}) {
    product = of(Number::kF16, Number::kF16, 16);
    product.a_sign = (signs & 1) != 0 ? -1 : 1;
    product.b_sign = (signs & 2) != 0 ? -1 : 1;
    add(to, fmt::format("f16.signs.{}", signs), product);
  }
  product = of(Number::kBF16, Number::kBF16, 64);
  product.warpgroups = 2;
  add(to, "bf16.two_warpgroups", product);
}

}  // namespace

void add_wgmma(MicroKernels& to) {
  add_widths(to);
  add_numbers(to);
  add_layouts(to);
  add_rest(to);
}

}  // namespace captures
