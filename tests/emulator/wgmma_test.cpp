// Products of warpgroups in kernels: every form of wgmma against the published rules, on many
// schedules, and what is found wrong with them.
#include <array>
#include <bit>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fovea_emulator/device.hpp"
#include "fovea_emulator/error.hpp"
#include "tests/emulator/wgmma_reference.hpp"

namespace emu {
namespace {

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

std::string list(std::string_view prefix, unsigned count, unsigned first = 0) {
  std::string text;
  for (unsigned i = first; i < first + count; ++i) {
    text += fmt::format("{}{}{}", i > first ? ", " : "", prefix, i);
  }
  return "{" + text + "}";
}

// A kernel that fills shared memory, loads accumulators %d and A's registers %a, runs the body and
// stores the accumulators. Descriptors of step i are %rd{10 + 2 * i} and the next.
std::string kernel_of(const Layout& layout, std::string_view body, bool loads_results = true,
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
      loads += fmt::format("  ld.global.b32 %a{}, [%rd4+{}];\n", 4 * i + r,
                           16 * kThreads * i + 4 * r);
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

  [[nodiscard]] unsigned depth() const { return bytes_of(a) == 2 ? 16 : 32; }
  [[nodiscard]] std::string text(unsigned step, std::string_view scale) const {
    constexpr std::array kNames = {"f16", "bf16", "e4m3", "e5m2", "s8", "u8"};
    std::string text = fmt::format(
        "wgmma.mma_async.sync.aligned.m64n{}k{}.{}.{}.{} {}, {}, %rd{}, {}", columns, depth(),
        is_float(a) ? "f32" : "s32", kNames.at(static_cast<std::size_t>(a)),
        kNames.at(static_cast<std::size_t>(b)), list("%d", columns / 2),
        is_a_in_registers ? list("%a", 4, 4 * step) : fmt::format("%rd{}", 10 + 2 * step),
        11 + 2 * step, scale);
    if (is_float(a)) {
      text += fmt::format(", {}, {}", is_a_negated ? -1 : 1, is_b_negated ? -1 : 1);
    }
    if (bytes_of(a) == 2) {
      text += is_a_in_registers ? fmt::format(", {}", is_b_k_major ? 0 : 1)
                                : fmt::format(", {}, {}", is_a_k_major ? 0 : 1,
                                              is_b_k_major ? 0 : 1);
    }
    return text + ";";
  }
};

// An operand in shared memory: where its pattern begins, and the steps along K.
struct Operand {
  reference::Placement placement;
  unsigned pattern = 0;
  unsigned depth = 0;  // of a step
  unsigned bytes = 0;

  [[nodiscard]] unsigned address(unsigned line, unsigned k) const {
    return pattern + placement.offset(line, k);
  }
  [[nodiscard]] std::uint64_t descriptor(unsigned step) const {
    const bool is_plain = placement.width == 16;
    const bool is_swapped = is_plain && !placement.is_k_major;
    unsigned start = pattern;
    if (!placement.is_k_major) {
      start += step * depth / 8 * placement.groups;
    } else {
      start += is_plain ? step * 2 * placement.pieces : step * 32;
    }
    const std::uint64_t leading = is_swapped ? placement.groups : placement.pieces;
    const std::uint64_t stride = is_swapped ? placement.pieces : placement.groups;
    const std::uint64_t mode = is_plain ? 0 : placement.width == 128 ? 1 : placement.width == 64 ? 2 : 3;
    return start >> 4U | leading >> 4U << 16U | stride >> 4U << 32U |
           std::uint64_t{is_plain ? 0U : pattern / 128 % 8} << 49U | mode << 62U;
  }
};

// Lays an operand out with gaps, from `first` on.
Operand placed(std::mt19937& random, unsigned width, unsigned element, bool is_k_major,
               unsigned lines, unsigned depth, unsigned steps, unsigned first) {
  Operand operand{.placement = {.is_k_major = is_k_major, .width = width, .element = element},
                  .depth = depth};
  const unsigned rows = is_k_major ? lines : depth * steps;
  const unsigned along = (is_k_major ? depth * steps : lines) * element;
  const unsigned groups = (rows + 7) / 8;
  const unsigned pieces = (along + width - 1) / width;
  const unsigned unit = 8 * width;
  const unsigned gap = random() % 2 * unit;
  if (random() % 2 != 0) {  // groups inside of pieces
    operand.placement.groups = unit + gap;
    operand.placement.pieces = groups * operand.placement.groups;
  } else {
    operand.placement.pieces = unit + gap;
    operand.placement.groups = pieces * operand.placement.pieces;
  }
  const unsigned step = width == 16 ? 16 : 128;
  operand.pattern = (first + step - 1) / step * step + random() % 12 * step;
  operand.bytes = groups * pieces * (unit + gap);
  return operand;
}

class WgmmaTest : public ::testing::Test {
 protected:
  Report run(const std::string& ptx, std::uint64_t address, const RunOptions& options,
             unsigned threads = kThreads) {
    const KernelHandle loaded = device_.load(ptx).front();
    const auto parameter = std::bit_cast<std::array<std::byte, 8>>(address);
    return device_.launch(loaded, {.block = {threads, 1, 1}}, parameter, options);
  }

  // Computes a chain of steps and compares every element.
  void check(const Form& form, unsigned width_of_a, unsigned width_of_b, unsigned seed) {
    std::mt19937 random(seed);
    const unsigned element = static_cast<unsigned>(bytes_of(form.a));
    const unsigned depth = form.depth();
    const bool has_short_rows = (form.is_a_k_major && !form.is_a_in_registers && width_of_a > 16) ||
                                (form.is_b_k_major && width_of_b > 16);
    const unsigned least = std::min(form.is_a_k_major && width_of_a > 16 ? width_of_a : 128,
                                    form.is_b_k_major && width_of_b > 16 ? width_of_b : 128);
    const unsigned most = has_short_rows ? std::min(4U, least / 32) : 2;
    const Layout layout{.steps = 1 + static_cast<unsigned>(random() % most),
                        .accumulators = form.columns / 2};
    std::vector<std::byte> memory(layout.bytes());
    for (std::byte& byte : memory) {
      byte = static_cast<std::byte>(random());
    }
    const auto put = [&](std::size_t at, auto value) {
      std::memcpy(&memory[at], &value, sizeof(value));
    };
    const auto value = [&](Element type) -> unsigned {
      if (!is_float(type)) {
        return random() % 256;
      }
      const unsigned bits = bytes_of(type) == 2 ? 16 : 8;
      const std::array<unsigned, 4> ones = {0x3C00, 0x3F80, 0x38, 0x3C};
      const std::array<unsigned, 4> units = {1U << 10U, 1U << 7U, 1U << 3U, 1U << 2U};
      const auto i = static_cast<std::size_t>(type);
      const unsigned ordinary = ones.at(i) + (random() % 4 - 2U) * units.at(i) + random() % units.at(i);
      return (random() % 2 << (bits - 1U)) | (random() % 16 == 0 ? random() % ones.at(i) : ordinary);
    };
    const unsigned all = depth * layout.steps;
    const Operand a = placed(random, width_of_a, element, form.is_a_k_major, 64, depth,
                             layout.steps, 0);
    const Operand b = placed(random, width_of_b, element, form.is_b_k_major, form.columns, depth,
                             layout.steps, a.pattern + a.bytes);
    ASSERT_LE(b.pattern + b.bytes, kSharedBytes);
    std::vector<std::vector<unsigned>> rows(64, std::vector<unsigned>(all));
    std::vector<std::vector<unsigned>> columns(form.columns, std::vector<unsigned>(all));
    const auto store = [&](const Operand& operand, Element type, auto& lines) {
      for (unsigned line = 0; line < lines.size(); ++line) {
        for (unsigned k = 0; k < all; ++k) {
          lines[line][k] = value(type);
          const std::size_t at = layout.image() + operand.address(line, k);
          element == 2 ? put(at, static_cast<std::uint16_t>(lines[line][k]))
                       : put(at, static_cast<std::uint8_t>(lines[line][k]));
        }
      }
    };
    store(a, form.a, rows);
    store(b, form.b, columns);
    std::string body = "  wgmma.fence.sync.aligned;\n";
    const bool adds = random() % 2 != 0;
    body += fmt::format("  setp.{}.u32 %p2, %r1, 1000;\n", adds ? "lt" : "gt");
    for (unsigned step = 0; step < layout.steps; ++step) {
      put(16UL * step, a.descriptor(step));
      put(16UL * step + 8, b.descriptor(step));
      body += "  " + form.text(step, step == 0 ? "%p2" : "1") + "\n";
      if (random() % 2 != 0) {
        body += "  wgmma.commit_group.sync.aligned;\n";
      }
      // Registers of A: of a thread, two rows and two pieces of 4 bytes along K.
      for (unsigned thread = 0; thread < kThreads; ++thread) {
        for (unsigned r = 0; r < 4; ++r) {
          const unsigned row = thread / 32 * 16 + thread % 32 / 4 + r % 2 * 8;
          const unsigned k = step * depth + (thread % 4 * 4 + r / 2 * 16) / element;
          std::uint32_t word = 0;
          for (unsigned i = 0; i < 4 / element; ++i) {
            word |= rows[row][k + i] << (8 * element * i);
          }
          put(layout.registers() + 16UL * (kThreads * step + thread) + 4UL * r, word);
        }
      }
    }
    body += "  wgmma.commit_group.sync.aligned;\n  wgmma.wait_group.sync.aligned 0;\n";
    const auto at = [&](unsigned row, unsigned column) {
      const unsigned thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
      const unsigned r = column / 8 * 4 + row / 8 % 2 * 2 + column % 2;
      return layout.results() + 4UL * (thread * layout.accumulators + r);
    };
    std::vector<std::uint32_t> want;
    for (unsigned row = 0; row < 64; ++row) {
      for (unsigned column = 0; column < form.columns; ++column) {
        auto c = static_cast<std::uint32_t>(random());
        c = is_float(form.a) ? (c & 0x80FFFFFF) | (0x3E + c / 256 % 4) << 24U : c;
        put(at(row, column), c);
        c = adds ? c : 0;
        for (unsigned first = 0; first < all; first += depth) {
          const auto part = [&](const std::vector<unsigned>& line) {
            return std::vector<unsigned>(line.begin() + first, line.begin() + first + depth);
          };
          c = reference::sum(form.a, part(rows[row]), form.is_a_negated, form.b,
                             part(columns[column]), form.is_b_negated, c);
        }
        want.push_back(c);
      }
    }
    const std::uint64_t address = device_.allocate(memory.size());
    device_.write(address, memory);
    const Report report = run(kernel_of(layout, body), address, {.seed = seed});
    ASSERT_TRUE(report.is_clean()) << report.findings.front().text();
    device_.read(memory, address);
    device_.free(address);
    for (unsigned row = 0; row < 64; ++row) {
      for (unsigned column = 0; column < form.columns; ++column) {
        std::uint32_t found = 0;
        std::memcpy(&found, &memory[at(row, column)], 4);
        ASSERT_EQ(found, want[row * form.columns + column])
            << fmt::format("{} widths {} {} steps {} adds {} row {} column {}", form.text(0, "p"),
                           width_of_a, width_of_b, layout.steps, adds, row, column);
      }
    }
  }

  // The finding of a body with two steps' descriptors and registers; both of bf16, K-major, with
  // the swizzle of 128 bytes, A at 0 and B at 8192 of the buffer.
  Finding finding_of(const std::string& body, const RunOptions& options = {},
                     bool loads_results = true, bool fills = true, unsigned threads = kThreads,
                     std::array<std::uint64_t, 2> changes = {}) {
    const Layout layout{.steps = 2, .accumulators = 32};
    std::vector<std::byte> memory(layout.bytes());
    for (unsigned i = 0; i < 4; ++i) {
      const std::uint64_t start = i / 2 * 32U + i % 2 * 8192U;
      const std::uint64_t descriptor =
          (start >> 4U | 1ULL << 16U | 64ULL << 32U | 1ULL << 62U) ^ changes.at(i % 2);
      std::memcpy(&memory[8UL * i], &descriptor, 8);
    }
    const std::uint64_t address = device_.allocate(memory.size());
    device_.write(address, memory);
    const Report report =
        run(kernel_of(layout, body, loads_results, fills), address, options, threads);
    if (report.findings.size() != 1) {
      ADD_FAILURE() << report.findings.size() << " findings of " << body;
      return {};
    }
    EXPECT_GT(report.findings.front().line, 0);
    return report.findings.front();
  }

  Device device_;
};

TEST_F(WgmmaTest, MultipliesEveryType) {
  unsigned seed = 0;
  constexpr std::array<std::array<Element, 2>, 10> kTypes = {
      {{Element::kBF16, Element::kBF16},
       {Element::kF16, Element::kF16},
       {Element::kE4M3, Element::kE4M3},
       {Element::kE4M3, Element::kE5M2},
       {Element::kE5M2, Element::kE4M3},
       {Element::kE5M2, Element::kE5M2},
       {Element::kS8, Element::kS8},
       {Element::kU8, Element::kS8},
       {Element::kS8, Element::kU8},
       {Element::kU8, Element::kU8}}};
  for (const auto& [a, b] : kTypes) {
    for (const unsigned columns : {8U, 32U, 96U, 192U}) {
      ++seed;
      check({.a = a,
             .b = b,
             .columns = columns,
             .is_a_in_registers = seed % 3 == 0,
             .is_a_negated = is_float(a) && seed % 4 == 1,
             .is_b_negated = is_float(a) && seed % 5 == 1},
            16U << seed % 4, 16U << (seed / 4 + seed) % 4, seed);
    }
  }
}

TEST_F(WgmmaTest, HasEveryWidth) {
  for (unsigned columns = 8; columns <= 256; columns += 8) {
    check({.columns = columns, .is_a_in_registers = columns % 16 == 0}, 128, 128, columns);
  }
}

TEST_F(WgmmaTest, ReadsEveryLayout) {
  unsigned seed = 1000;
  for (const unsigned width_of_a : {16U, 32U, 64U, 128U}) {
    for (const unsigned width_of_b : {16U, 32U, 64U, 128U}) {
      for (unsigned majors = 0; majors < 4; ++majors) {
        check({.a = seed % 2 != 0 ? Element::kF16 : Element::kBF16,
               .b = seed % 2 != 0 ? Element::kF16 : Element::kBF16,
               .columns = 8 * (1 + seed % 12),
               .is_a_k_major = majors % 2 == 0,
               .is_b_k_major = majors / 2 == 0},
              width_of_a, width_of_b, seed);
        ++seed;
      }
    }
  }
}

constexpr std::string_view kFence = "wgmma.fence.sync.aligned;\n";
constexpr std::string_view kCommit = "wgmma.commit_group.sync.aligned;\n";

std::string product(unsigned step, bool has_registers = false, unsigned columns = 64,
                    std::string_view scale = "1") {
  return Form{.columns = columns, .is_a_in_registers = has_registers}.text(step, scale) + "\n";
}
std::string wait(unsigned groups) {
  return fmt::format("wgmma.wait_group.sync.aligned {};\n", groups);
}
std::string text(std::initializer_list<std::string_view> parts) {
  std::string whole;
  for (const std::string_view part : parts) {
    whole += part;
  }
  return whole;
}

TEST_F(WgmmaTest, FindsAccumulatorsThatAreNotThere) {
  const auto is_found = [&](const std::string& body) {
    for (unsigned seed = 0; seed < 5; ++seed) {
      const Finding finding = finding_of(body, {.seed = seed});
      EXPECT_EQ(finding.kind, FindingKind::kUninitialized) << body;
      EXPECT_NE(finding.message.find("wgmma"), std::string::npos) << finding.message;
    }
  };
  // The kernel stores them.
  is_found(text({kFence, product(0)}));
  is_found(text({kFence, product(0), kCommit}));
  is_found(text({kFence, product(0), kCommit, wait(1)}));
  is_found(text({kFence, product(0), wait(0)}));  // never committed
  is_found(text({kFence, product(0), kCommit, product(1), kCommit, wait(1)}));
  is_found(text({kFence, product(0), kCommit, "mov.b32 %d3, 0;", wait(0)}));
  is_found(text({kFence, product(0), kCommit, "add.u32 %r8, %d3, 1;", wait(0)}));
  // One that was never written is added to.
  EXPECT_EQ(finding_of(text({kFence, product(0), kCommit, wait(0)}), {}, false).kind,
            FindingKind::kUninitialized);
}

TEST_F(WgmmaTest, FindsRegistersOutOfOrder) {
  const auto kind = [&](const std::string& body) { return finding_of(body).kind; };
  EXPECT_EQ(kind(product(0)), FindingKind::kRegisterRace);
  EXPECT_EQ(kind(text({kFence, "mov.b32 %d3, 0;", product(0)})), FindingKind::kRegisterRace);
  EXPECT_EQ(kind(text({kFence, "mov.b32 %a2, 0;", product(0, true)})), FindingKind::kRegisterRace);
  EXPECT_EQ(kind(text({kFence, product(0, true), kCommit, "mov.b32 %a2, 0;", wait(0)})),
            FindingKind::kRegisterRace);
  // Between products, after the wait.
  EXPECT_EQ(kind(text({kFence, product(0), kCommit, wait(0), "add.u32 %d3, %d3, 1;", product(1)})),
            FindingKind::kRegisterRace);
  // Another shape, and A from an accumulator.
  EXPECT_EQ(kind(text({kFence, product(0), product(1, false, 32)})), FindingKind::kRegisterRace);
  EXPECT_EQ(kind(text({kFence, product(0),
                       "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%a0, %a1, %a2, %a3}, "
                       "{%d0, %d1, %d2, %d3}, %rd11, 1, 1, 1, 0;"})),
            FindingKind::kRegisterRace);
}

// What the rules allow.
TEST_F(WgmmaTest, FindsNothingWrongWithOrder) {
  const Layout layout{.steps = 2, .accumulators = 32};
  std::vector<std::byte> memory(layout.bytes());
  for (unsigned i = 0; i < 4; ++i) {
    const std::uint64_t start = i / 2 * 32U + i % 2 * 8192U;
    const std::uint64_t descriptor = start >> 4U | 1ULL << 16U | 64ULL << 32U | 1ULL << 62U;
    std::memcpy(&memory[8UL * i], &descriptor, 8);
  }
  const std::uint64_t address = device_.allocate(memory.size());
  for (const std::string& body :
       {text({"mov.b32 %d3, 0; mov.b32 %a3, 0;", kFence, product(0, true), product(1, true), kCommit,
              wait(0), "add.u32 %d3, %d3, 1;"}),
        text({kFence, product(0), kCommit, product(1), kCommit, wait(1), wait(0)}),
        text({kFence, product(0), kCommit, kFence, product(1, false, 32), kCommit, wait(0)}),
        text({kFence, product(0, true), kCommit, "mov.b32 %a7, 0;", wait(0), "mov.b32 %a2, 0;"}),
        text({kFence, product(0), kCommit, wait(0), "add.u32 %d3, %d3, 1;", kFence, product(1),
              kCommit, kCommit, wait(1)})}) {
    for (unsigned seed = 0; seed < 10; ++seed) {
      device_.write(address, memory);
      const Report report = run(kernel_of(layout, body), address, {.seed = seed});
      EXPECT_TRUE(report.is_clean()) << body << report.findings.front().text();
    }
  }
  // Nothing reads accumulators that the product does not add to.
  const std::string first = text({"setp.ne.u32 %p3, %r1, %r1;", kFence,
                                  product(0, false, 64, "%p3"), kCommit, wait(0)});
  device_.write(address, memory);
  EXPECT_TRUE(run(kernel_of(layout, first, false), address, {}).is_clean());
}

TEST_F(WgmmaTest, FindsWhatIsWrongWithOperands) {
  const std::string good = text({kFence, product(0), kCommit, wait(0)});
  const auto kind_with = [&](std::uint64_t a, std::uint64_t b) {
    return finding_of(good, {}, true, true, kThreads, {a, b}).kind;
  };
  EXPECT_EQ(kind_with(0, 1ULL << 53U), FindingKind::kIllegalOperand);
  EXPECT_EQ(kind_with(1ULL << 15U, 0), FindingKind::kIllegalOperand);
  EXPECT_EQ(kind_with(7, 0), FindingKind::kIllegalOperand);           // over the end of a row
  EXPECT_EQ(kind_with(0, 1ULL << 62U | 1ULL << 49U), FindingKind::kIllegalOperand);
  EXPECT_EQ(kind_with(0, 0x3FFFULL << 32U), FindingKind::kOutOfBounds);  // a huge stride
  EXPECT_EQ(kind_with(0x3000, 0), FindingKind::kOutOfBounds);
  EXPECT_EQ(finding_of(good, {}, true, false).kind, FindingKind::kUninitialized);
  EXPECT_EQ(finding_of(text({"cvt.u64.u32 %rd9, %r1; add.s64 %rd11, %rd11, %rd9;", good})).kind,
            FindingKind::kIllegalOperand);
  EXPECT_EQ(finding_of(text({"shr.u32 %r8, %r1, 5; mul.lo.u32 %r8, %r8, 64; cvt.u64.u32 %rd9, %r8;"
                             "add.s64 %rd11, %rd11, %rd9;",
                             good}))
                .kind,
            FindingKind::kIllegalOperand);
  EXPECT_EQ(finding_of(text({"setp.lt.u32 %p2, %r1, 7;", kFence, product(0, false, 64, "%p2"),
                             kCommit, wait(0)}))
                .kind,
            FindingKind::kIllegalOperand);
}

TEST_F(WgmmaTest, FindsWarpgroupsThatAreNotWhole) {
  const std::string good = text({kFence, product(0), kCommit, wait(0)});
  EXPECT_EQ(finding_of(good, {}, true, true, 96).kind, FindingKind::kDivergent);
  EXPECT_EQ(finding_of(good, {}, true, true, 160).kind, FindingKind::kDivergent);
  EXPECT_EQ(finding_of(text({"setp.ge.u32 %p2, %r1, 96; @%p2 exit;", good})).kind,
            FindingKind::kDivergent);
  EXPECT_EQ(finding_of(text({"setp.eq.u32 %p2, %r1, 5; @%p2 bra OVER;", kFence, "OVER:"})).kind,
            FindingKind::kDivergent);
  // One warp has a fence more.
  EXPECT_EQ(finding_of(text({kFence, "setp.lt.u32 %p2, %r1, 32; @%p2 bra OVER;", kFence, "OVER:",
                             product(0), kCommit, wait(0)}))
                .kind,
            FindingKind::kDivergent);
  // One warp waits elsewhere: the others' products never begin.
  EXPECT_EQ(finding_of(text({"setp.lt.u32 %p2, %r1, 32; @!%p2 bra OVER; bar.sync 1; OVER:", good}))
                .kind,
            FindingKind::kDeadlock);
}

TEST_F(WgmmaTest, FindsABlockThatEndsTooEarly) {
  const Finding finding =
      finding_of(text({kFence, product(0), kCommit, "exit;"}), {.policy = Policy::kLazy});
  EXPECT_EQ(finding.kind, FindingKind::kLifetime);
}

// Operands are read late: what is written over them too early shows on some schedules.
TEST_F(WgmmaTest, ReadsItsOperandsLate) {
  const Layout layout{.steps = 1, .accumulators = 32};
  std::vector<std::byte> memory(layout.bytes());
  for (std::size_t i = 0; i < 2; ++i) {
    const std::uint64_t descriptor = i * 512 | 1ULL << 16U | 64ULL << 32U | 1ULL << 62U;
    std::memcpy(&memory[8 * i], &descriptor, 8);
  }
  const std::uint16_t one = 0x3F80;
  for (std::size_t i = 0; i < kSharedBytes; i += 2) {
    std::memcpy(&memory[layout.image() + i], &one, 2);
  }
  const std::uint64_t address = device_.allocate(memory.size());
  const auto wrong_of = [&](std::string_view before, std::string_view after) {
    const std::string body =
        text({kFence, product(0), kCommit, before, "bar.sync 0; mad.lo.u32 %r8, %r1, 64, %r2; "
              "mov.u32 %r9, 0; st.shared.u32 [%r8+8192], %r9;", after});
    int wrong = 0;
    for (unsigned seed = 0; seed < 20; ++seed) {
      device_.write(address, memory);
      EXPECT_TRUE(run(kernel_of(layout, body), address, {.seed = seed}).is_clean());
      std::vector<float> found(std::size_t{kThreads} * 32);
      device_.read(std::as_writable_bytes(std::span(found)), address + layout.results());
      wrong += found == std::vector<float>(found.size(), 16.0F) ? 0 : 1;
    }
    return wrong;
  };
  EXPECT_EQ(wrong_of(wait(0), ""), 0);
  EXPECT_GE(wrong_of("", wait(0)), 6);
}

TEST_F(WgmmaTest, RefusesWhatItDoesNotKnow) {
  const auto message = [&](const std::string& body) {
    try {
      device_.load(kernel_of({}, body));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto refuses = [&](std::string_view instruction, std::string_view why) {
    const std::string found = message(std::string(instruction));
    EXPECT_NE(found.find(why), std::string::npos) << instruction << ": " << found;
  };
  constexpr std::string_view kDescriptors = "{%d0, %d1, %d2, %d3}, %rd10, %rd11, 1";
  const auto mma = [&](std::string_view modifiers, std::string_view rest) {
    return fmt::format("wgmma.mma_async.sync.aligned.{} {}{};", modifiers, kDescriptors, rest);
  };
  EXPECT_EQ(message(mma("m64n8k32.s32.s8.s8", "")), "");
  refuses(mma("m64n8k32.satfinite.s32.s8.s8", ""), "does not know .satfinite here");
  refuses(mma("m64n8k32.s32.s8.s8", ", 1, 1"), "6 operands");
  refuses(mma("m64n8k16.s32.s8.s8", ""), "expected .m64n8k32");
  refuses(mma("m64n264k16.f32.bf16.bf16", ", 1, 1, 0, 0"), "expected .m64n8k16");
  refuses(mma("m64n16k16.f32.bf16.bf16", ", 1, 1, 0, 0"), "must have 8 registers");
  refuses(mma("m64n8k16.f32.bf16.f16", ", 1, 1, 0, 0"), "does not know this product");
  refuses(mma("m64n8k16.f16.f16.f16", ", 1, 1, 0, 0"), "does not know this product");
  refuses(mma("m64n8k32.f32.e4m3.s8", ", 1, 1"), "does not know this product");
  refuses(mma("m64n8k8.f32.tf32.tf32", ", 1, 1"), "");
  refuses(mma("m64n8k16.f32.bf16.bf16", ", 0, 1, 0, 0"), "must be 1 or -1");
  refuses(mma("m64n8k16.f32.bf16.bf16", ", 1, 1, 2, 0"), "must be 0 or 1");
  refuses(fmt::format("wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 {}, %rd10, %rd11, 1;",
                      list("%d", 20)),
          "no such shape");
  refuses("wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%d0, %d1, %d2, %d0}, %rd10, %rd11, 1;",
          "is there twice");
  refuses("wgmma.fence.aligned;", "with .sync alone");
  refuses("wgmma.wait_group.sync.aligned;", "0 operands");
  refuses("wgmma.frobnicate.sync.aligned;", "with .wait_group alone");
}

}  // namespace
}  // namespace emu
