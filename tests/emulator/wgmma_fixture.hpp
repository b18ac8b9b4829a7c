// Kernels with wgmma for tests: what they read and store, and the instructions' text.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emulator/operations/tensor_arithmetic.hpp"
#include "fovea_emulator/device.hpp"

namespace emu::wgmma {

constexpr unsigned kThreads = 128;
constexpr unsigned kSharedBytes = 160 << 10U;

// In memory: two descriptors for each step, A's registers for each step and thread, the
// accumulators of each thread, and what shared memory holds. Addresses in descriptors count from
// the buffer's begin.
struct Layout {
  unsigned steps = 1;
  unsigned accumulators = 4;  // of a thread

  [[nodiscard]] std::size_t registers() const { return std::size_t{16} * steps; }
  [[nodiscard]] std::size_t results() const { return registers() + 16UL * kThreads * steps; }
  [[nodiscard]] std::size_t image() const { return results() + 4UL * kThreads * accumulators; }
  [[nodiscard]] std::size_t bytes() const { return image() + kSharedBytes; }
};

inline std::string list(std::string_view prefix, unsigned count, unsigned first = 0) {
  std::string text;
  for (unsigned i = first; i < first + count; ++i) {
    text += fmt::format("{}{}{}", i > first ? ", " : "", prefix, i);
  }
  return "{" + text + "}";
}

// A kernel that fills shared memory, loads accumulators %d and A's registers %a, runs the body and
// stores the accumulators. Descriptors of step i are %rd{10 + 2 * i} and the next.
inline std::string kernel_of(const Layout& layout, std::string_view body, bool loads_results = true,
                             bool fills = true) {
  std::string loads;
  std::string stores;
  for (unsigned i = 0; i < layout.accumulators; ++i) {
    if (loads_results) {
      loads += fmt::format("  ld.global.b32 %d{}, [%rd3+{}];\n", i, 4 * i);
    }
    stores += fmt::format("  st.global.b32 [%rd3+{}], %d{};\n", 4 * i, i);
  }
  for (unsigned i = 0; i < layout.steps; ++i) {
    for (unsigned r = 0; r < 4; ++r) {
      loads +=
          fmt::format("  ld.global.b32 %a{}, [%rd4+{}];\n", 4 * i + r, 16 * kThreads * i + 4 * r);
    }
    for (unsigned j = 0; j < 2; ++j) {
      loads += fmt::format("  ld.global.b64 %rd{0}, [%rd1+{1}];\n  add.s64 %rd{0}, %rd{0}, %rd6;\n",
                           10 + 2 * i + j, 16 * i + 8 * j);
    }
  }
  const std::string fill = fmt::format(R"(
  mov.u32 %r3, %r1;
FILL:
  shl.b32 %r4, %r3, 2;
  add.u32 %r5, %r2, %r4;
  cvt.u64.u32 %rd7, %r4;
  add.s64 %rd8, %rd1, %rd7;
  ld.global.u32 %r6, [%rd8+{}];
  st.shared.u32 [%r5], %r6;
  add.u32 %r3, %r3, %ntid.x;
  setp.lt.u32 %p1, %r3, {};
  @%p1 bra FILL;)",
                                       layout.image(), kSharedBytes / 4);
  return fmt::format(R"(.version 9.0
.target sm_90a
.address_size 64
.shared .align 1024 .b8 buffer[{}];
.visible .entry test(.param .u64 memory)
{{
  .reg .pred %p<8>;
  .reg .b32 %d<128>;
  .reg .b32 %a<32>;
  .reg .b32 %r<16>;
  .reg .b64 %rd<40>;
  ld.param.u64 %rd1, [memory];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, buffer;
  shr.u32 %r7, %r2, 4;
  cvt.u64.u32 %rd6, %r7;
  mul.wide.u32 %rd2, %r1, {};
  add.s64 %rd3, %rd1, %rd2;
  add.s64 %rd3, %rd3, {};
  mul.wide.u32 %rd2, %r1, 16;
  add.s64 %rd4, %rd1, %rd2;
  add.s64 %rd4, %rd4, {};
{}{}
  fence.proxy.async.shared::cta;
  bar.sync 0;
{}
{}
  ret;
}}
)",
                     kSharedBytes, 4 * layout.accumulators, layout.results(), layout.registers(),
                     loads, fills ? fill : "", body, stores);
}

struct Form {
  Element a = Element::kBF16;
  Element b = Element::kBF16;
  unsigned columns = 64;
  bool is_a_in_registers = false;
  bool is_a_negated = false;
  bool is_b_negated = false;
  bool is_a_k_major = true;
  bool is_b_k_major = true;
  bool has_half_sums = false;
  bool is_saturating = false;

  [[nodiscard]] unsigned depth() const { return 32 / static_cast<unsigned>(bytes_of(a)); }
  [[nodiscard]] unsigned accumulators() const { return columns / (has_half_sums ? 4 : 2); }
  [[nodiscard]] std::string text(unsigned step, std::string_view scale) const {
    constexpr std::array kNames = {"f16", "bf16", "e4m3", "e5m2", "s8",
                                   "u8",  "e2m3", "e3m2", "e2m1", "tf32"};
    std::string text = fmt::format(
        "wgmma.mma_async.sync.aligned.m64n{}k{}{}.{}.{}.{} {}, {}, %rd{}, {}", columns, depth(),
        is_saturating ? ".satfinite" : "",
        !is_float(a)    ? "s32"
        : has_half_sums ? "f16"
                        : "f32",
        kNames.at(static_cast<std::size_t>(a)), kNames.at(static_cast<std::size_t>(b)),
        list("%d", accumulators()),
        is_a_in_registers ? list("%a", 4, 4 * step) : fmt::format("%rd{}", 10 + 2 * step),
        11 + 2 * step, scale);
    if (is_float(a)) {
      text += fmt::format(", {}, {}", is_a_negated ? -1 : 1, is_b_negated ? -1 : 1);
    }
    if (bytes_of(a) == 2) {
      text += is_a_in_registers
                  ? fmt::format(", {}", is_b_k_major ? 0 : 1)
                  : fmt::format(", {}, {}", is_a_k_major ? 0 : 1, is_b_k_major ? 0 : 1);
    }
    return text + ";";
  }
};

class KernelTest : public ::testing::Test {
 protected:
  Report run(const std::string& ptx, std::uint64_t address, const RunOptions& options,
             unsigned threads = kThreads) {
    const KernelHandle loaded = device_.load(ptx).front();
    const auto parameter = std::bit_cast<std::array<std::byte, 8>>(address);
    return device_.launch(loaded, {.block = {threads, 1, 1}}, parameter, options);
  }

  Device device_;
};

}  // namespace emu::wgmma
