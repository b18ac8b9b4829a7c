// Warp-level matrix products, mma.sync and wmma.mma: their code.
#include "emulator/operations/matrix_product.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <span>
#include <vector>

#include "emulator/machine/warp.hpp"
#include "emulator/operations/block_scales.hpp"
#include "emulator/operations/number_formats.hpp"
#include "emulator/operations/tensor_product.hpp"

namespace emu {
namespace {

using Words = Vec<std::uint32_t>;

// Registers of the operands.
struct Registers {
  std::span<const Slot> d;
  std::span<const Slot> a;
  std::span<const Slot> b;
  std::span<const Slot> c;
};

// Returns the registers, after checks of the lanes and of the operands' values.
Registers check_operands(const Warp& warp, const Op& op, Lanes lanes, const WarpProduct& product) {
  warp.require_all_lanes(op, lanes);
  std::span<const Slot> rest = op.list;
  const auto take = [&](std::size_t count) {
    const std::span<const Slot> registers = rest.first(count);
    rest = rest.subspan(count);
    return registers;
  };
  const Registers registers{.d = take(product.d_registers()),
                            .a = take(product.a_registers),
                            .b = take(product.b_registers),
                            .c = take(product.c_registers())};
  const auto require = [&](std::span<const Slot> slots, std::string_view name) {
    for (const Slot slot : slots) {
      warp.require_valid(slot, op, lanes, name);
    }
  };
  require(registers.a, "A");
  require(registers.b, "B");
  require(registers.c, "C");
  return registers;
}

// Reads A or B from the registers that do not repeat others.
void read_lines(const Warp& warp, std::span<const Slot> registers, const Fragment& fragment,
                Element element, Lines& lines) {
  lines.element = element;
  lines.depth = fragment.shape.width * lines.elements_per_word();
  lines.resize(fragment.shape.lines);
  for (std::size_t i = 0; i < fragment.shape.units(); ++i) {
    const auto words = warp.read<std::uint32_t>(registers[i]);
    const std::uint16_t* const index = &fragment.index[i * kLanes];
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lines.words[index[lane]] = words.lanes[lane];
    }
  }
  if (element == Element::kE2M1) {  // in the middle of their bytes
    for (std::uint32_t& word : lines.words) {
      word = word >> 2U & 0x0F0F0F0FU;
    }
  }
}

void read_sums(const Warp& warp, std::span<const Slot> registers, const WarpProduct& product,
               std::vector<std::uint32_t>& sums) {
  const Fragment& fragment = *product.sums;
  sums.resize(std::size_t{fragment.shape.lines} * fragment.shape.width);
  const bool is_widened =
      product.c.accumulator == Accumulator::kF16 && product.accumulator() == Accumulator::kF32;
  for (std::size_t i = 0; i < fragment.shape.units(); ++i) {
    const auto words = warp.read<std::uint32_t>(registers[i / product.c.parts]);
    const std::uint16_t* const index = &fragment.index[i * kLanes];
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      std::uint32_t bits = words.lanes[lane];
      if (product.c.parts == 2) {
        bits = bits >> (16 * (i % 2)) & 0xFFFFU;
        bits = is_widened
                   ? std::bit_cast<std::uint32_t>(f16_value(static_cast<std::uint16_t>(bits)))
                   : bits;
      }
      sums[index[lane]] = bits;
    }
  }
}

void write_sums(Warp& warp, std::span<const Slot> registers, const WarpProduct& product,
                std::span<const std::uint32_t> sums) {
  const bool is_narrowed =
      product.d.accumulator == Accumulator::kF16 && product.accumulator() == Accumulator::kF32;
  for (std::size_t r = 0; r < registers.size(); ++r) {
    Words words{};
    for (std::size_t part = 0; part < product.d.parts; ++part) {
      const std::uint16_t* const index =
          &product.sums->index[(r * product.d.parts + part) * kLanes];
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const std::uint32_t bits = sums[index[lane]];
        words.lanes[lane] |= (is_narrowed ? f16_bits(std::bit_cast<float>(bits)) : bits)
                             << (16 * part);
      }
    }
    warp.write(registers[r], words, kAllLanes, kAllLanes);
  }
}

// Rounding mode of the host for the lifetime of the object.
class RoundingScope {
 public:
  explicit RoundingScope(int mode) { std::fesetround(mode); }
  ~RoundingScope() { std::fesetround(before_); }
  RoundingScope(const RoundingScope&) = delete;
  RoundingScope& operator=(const RoundingScope&) = delete;

 private:
  int before_ = std::fegetround();
};

// Memory that the thread's products share, so that none of them allocates any.
struct Workspace {
  Lines a;
  Lines b;
  std::vector<std::uint32_t> sums;
};

// Runs a product whose sums `compute(product, wide, narrow, sums)` makes. The lines of A, or of B
// if D has more columns than rows, are the wide ones.
template <typename Compute>
Outcome run(Warp& warp, const Op& op, Lanes lanes, Compute&& compute) {
  thread_local Workspace workspace;
  const WarpProduct& product = op.get<WarpProduct>();
  const Registers registers = check_operands(warp, op, lanes, product);
  read_lines(warp, registers.a, *product.a, product.a_element, workspace.a);
  read_lines(warp, registers.b, *product.b, product.b_element, workspace.b);
  read_sums(warp, registers.c, product, workspace.sums);
  if (product.has_scales) {
    workspace.a.scales = read_scales_of_a(warp, op, lanes);
    workspace.b.scales = read_scales_of_b(warp, op, lanes);
  } else {
    workspace.a.scales.clear();
    workspace.b.scales.clear();
  }
  const Lines& wide = product.is_transposed ? workspace.b : workspace.a;
  const Lines& narrow = product.is_transposed ? workspace.a : workspace.b;
  compute(product, wide, narrow, workspace.sums);
  write_sums(warp, registers.d, product, workspace.sums);
  return Outcome::kDone;
}

Outcome run_tensor(Warp& warp, const Op& op, Lanes lanes) {
  return run(warp, op, lanes,
             [](const WarpProduct& product, const Lines& wide, const Lines& narrow,
                std::vector<std::uint32_t>& sums) {
               multiply_add(narrow, wide, sums,
                            {.accumulator = product.accumulator(),
                             .is_saturating = product.is_saturating,
                             .step = product.step});
             });
}

// Returns the even or odd pairs of 8-bit floats as binary16.
void widen_pairs(const Lines& from, bool is_odd, Lines& to) {
  static const std::array<std::uint16_t, 256> kOfE4M3 = [] {
    std::array<std::uint16_t, 256> bits{};
    for (std::size_t i = 0; i < bits.size(); ++i) {
      bits.at(i) = f16_bits(e4m3_value(static_cast<std::uint8_t>(i)));
    }
    return bits;
  }();
  to.element = Element::kF16;
  to.depth = from.depth / 2;
  to.resize(from.count);
  for (std::size_t i = 0; i < from.words.size(); ++i) {
    const std::uint32_t pair = from.words[i] >> (is_odd ? 16 : 0) & 0xFFFFU;
    to.words[i] = from.element == Element::kE4M3
                      ? kOfE4M3[pair & 0xFFU] | std::uint32_t{kOfE4M3[pair >> 8U]} << 16U
                      : (pair & 0xFFU) << 8U | (pair & 0xFF00U) << 16U;
  }
}

std::uint32_t add(std::uint32_t a, std::uint32_t b, Accumulator accumulator) {
  if (accumulator == Accumulator::kF16) {
    return f16_bits(f16_value(static_cast<std::uint16_t>(a)) +
                    f16_value(static_cast<std::uint16_t>(b)));
  }
  return std::bit_cast<std::uint32_t>(
      canonicalize_nan(std::bit_cast<float>(a) + std::bit_cast<float>(b)));
}

Outcome run_halves(Warp& warp, const Op& op, Lanes lanes) {
  return run(warp, op, lanes,
             [](const WarpProduct& product, const Lines& wide, const Lines& narrow,
                std::vector<std::uint32_t>& sums) {
               thread_local Workspace halves;
               const SumRule rule{.accumulator = product.accumulator()};
               halves.sums.assign(sums.size(), 0);
               for (const bool is_odd : {false, true}) {
                 widen_pairs(wide, is_odd, halves.a);
                 widen_pairs(narrow, is_odd, halves.b);
                 multiply_add(halves.b, halves.a, halves.sums, rule);
               }
               for (std::size_t i = 0; i < sums.size(); ++i) {
                 sums[i] = add(sums[i], halves.sums[i], rule.accumulator);
               }
             });
}

Outcome run_bits(Warp& warp, const Op& op, Lanes lanes) {
  return run(warp, op, lanes,
             [](const WarpProduct& product, const Lines& wide, const Lines& narrow,
                std::vector<std::uint32_t>& sums) {
               const std::size_t width = wide.width();
               for (std::size_t i = 0; i < sums.size(); ++i) {
                 for (std::size_t word = 0; word < width; ++word) {
                   const std::uint32_t a = wide.words[Lines::index(i % wide.count, word, width)];
                   const std::uint32_t b = narrow.words[Lines::index(i / wide.count, word, width)];
                   sums[i] +=
                       static_cast<std::uint32_t>(std::popcount(product.is_xor ? a ^ b : a & b));
                 }
               }
             });
}

std::vector<double> read_doubles(const Warp& warp, std::span<const Slot> registers,
                                 const Fragment& fragment) {
  std::vector<double> values(std::size_t{fragment.shape.lines} * fragment.shape.width);
  for (std::size_t i = 0; i < registers.size(); ++i) {
    const auto lanes = warp.read<double>(registers[i]);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      values[fragment.index[i * kLanes + lane]] = lanes.lanes[lane];
    }
  }
  return values;
}

Outcome run_doubles(Warp& warp, const Op& op, Lanes lanes) {
  const WarpProduct& product = op.get<WarpProduct>();
  const Registers registers = check_operands(warp, op, lanes, product);
  const std::vector<double> a = read_doubles(warp, registers.a, *product.a);
  const std::vector<double> b = read_doubles(warp, registers.b, *product.b);
  std::vector<double> sums = read_doubles(warp, registers.c, *product.sums);
  const std::size_t rows = product.sums->shape.lines;
  const std::size_t depth = product.a->shape.width;
  {
    const RoundingScope scope(product.rounding);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      for (std::size_t k = 0; k < depth; ++k) {
        sums[i] = std::fma(a[i % rows * depth + k], b[i / rows * depth + k], sums[i]);
      }
    }
  }
  for (std::size_t r = 0; r < registers.d.size(); ++r) {
    Vec<double> d;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      d.lanes[lane] = sums[product.sums->index[r * kLanes + lane]];
    }
    warp.write(registers.d[r], d, kAllLanes, kAllLanes);
  }
  return Outcome::kDone;
}

}  // namespace

Code code_of(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::kHalves:
      return &run_halves;
    case Arithmetic::kDoubles:
      return &run_doubles;
    case Arithmetic::kBits:
      return &run_bits;
    default:
      return &run_tensor;
  }
}

}  // namespace emu
