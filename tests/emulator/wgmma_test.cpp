// Products of warpgroups in kernels: every form of wgmma against the published rules, on many
// schedules.
#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "tests/emulator/wgmma_fixture.hpp"
#include "tests/emulator/wgmma_reference.hpp"

namespace emu::wgmma {
namespace {

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
    const std::uint64_t mode = is_plain                 ? 0
                               : placement.width == 128 ? 1
                               : placement.width == 64  ? 2
                                                        : 3;
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

// One element of D after a step.
std::uint32_t expected(const Form& form, std::vector<unsigned> a, std::vector<unsigned> b,
                       std::uint32_t c) {
  for (std::vector<unsigned>* line : {&a, &b}) {
    for (unsigned& bits : *line) {
      bits = form.a == Element::kTF32 ? bits >> 13U : bits;
    }
  }
  if (!form.has_half_sums && !form.is_saturating) {
    return reference::sum(form.a, a, form.is_a_negated, form.b, b, form.is_b_negated, c);
  }
  const auto x = reference::numbers(form.a, a, form.is_a_negated);
  const auto y = reference::numbers(form.b, b, form.is_b_negated);
  return form.is_saturating
             ? reference::whole_sum(x, y, c, true)
             : reference::half_sum(
                   x, y, c, bytes_of(form.a) == 1 ? reference::kHopperOf8Bits : reference::kHopper);
}

class WgmmaTest : public KernelTest {
 protected:
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
                        .accumulators = form.accumulators()};
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
      if (type == Element::kTF32) {  // whose lowest 13 bits are ignored
        return (random() % 2 << 31U) | (0x3F000000U + random() % 0x1000000U);
      }
      const unsigned bits = bytes_of(type) == 2 ? 16 : 8;
      const std::array<unsigned, 4> ones = {0x3C00, 0x3F80, 0x38, 0x3C};
      const std::array<unsigned, 4> units = {1U << 10U, 1U << 7U, 1U << 3U, 1U << 2U};
      const auto i = static_cast<std::size_t>(type);
      const unsigned ordinary =
          ones.at(i) + (random() % 4 - 2U) * units.at(i) + random() % units.at(i);
      return (random() % 2 << (bits - 1U)) |
             (random() % 16 == 0 ? random() % ones.at(i) : ordinary);
    };
    const unsigned all = depth * layout.steps;
    const Operand a =
        placed(random, width_of_a, element, form.is_a_k_major, 64, depth, layout.steps, 0);
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
          std::memcpy(&memory[at], &lines[line][k], element);
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
      return layout.results() + 4UL * thread * layout.accumulators +
             std::size_t{r} * (form.has_half_sums ? 2 : 4);
    };
    std::vector<std::uint32_t> want;
    for (unsigned row = 0; row < 64; ++row) {
      for (unsigned column = 0; column < form.columns; ++column) {
        auto c = static_cast<std::uint32_t>(random());
        c = is_float(form.a) ? (c & 0x80FFFFFF) | (0x3E + c / 256 % 4) << 24U : c;
        if (form.has_half_sums) {
          c = 0x3800 + c % 0x800;
          put(at(row, column), static_cast<std::uint16_t>(c));
        } else {
          put(at(row, column), c);
        }
        c = adds ? c : 0;
        for (unsigned first = 0; first < all; first += depth) {
          const auto part = [&](const std::vector<unsigned>& line) {
            return std::vector<unsigned>(line.begin() + first, line.begin() + first + depth);
          };
          c = expected(form, part(rows[row]), part(columns[column]), c);
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
        std::memcpy(&found, &memory[at(row, column)], form.has_half_sums ? 2 : 4);
        ASSERT_EQ(found, want[row * form.columns + column])
            << fmt::format("{} widths {} {} steps {} adds {} row {} column {}", form.text(0, "p"),
                           width_of_a, width_of_b, layout.steps, adds, row, column);
      }
    }
  }
};

TEST_F(WgmmaTest, MultipliesEveryType) {
  unsigned seed = 0;
  constexpr std::array<std::array<Element, 2>, 10> kTypes = {{{Element::kBF16, Element::kBF16},
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

TEST_F(WgmmaTest, MultipliesTF32) {
  unsigned seed = 2000;
  for (const unsigned columns : {8U, 40U, 256U}) {
    for (const bool is_a_in_registers : {false, true}) {
      ++seed;
      check({.a = Element::kTF32,
             .b = Element::kTF32,
             .columns = columns,
             .is_a_in_registers = is_a_in_registers,
             .is_a_negated = seed % 2 == 0},
            16U << seed % 4, 16U << (seed / 4) % 4, seed);
    }
  }
}

TEST_F(WgmmaTest, AddsHalves) {
  unsigned seed = 3000;
  for (const Element element : {Element::kF16, Element::kE4M3, Element::kE5M2}) {
    for (const unsigned columns : {8U, 64U, 136U}) {
      ++seed;
      check({.a = element,
             .b = element,
             .columns = columns,
             .is_a_in_registers = seed % 2 == 0,
             .has_half_sums = true},
            16U << seed % 4, 16U << (seed / 4) % 4, seed);
    }
  }
}

TEST_F(WgmmaTest, Saturates) {
  for (unsigned seed = 4000; seed < 4004; ++seed) {
    check({.a = seed % 2 == 0 ? Element::kS8 : Element::kU8,
           .b = Element::kU8,
           .columns = 32,
           .is_saturating = true},
          64, 128, seed);
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

}  // namespace
}  // namespace emu::wgmma
