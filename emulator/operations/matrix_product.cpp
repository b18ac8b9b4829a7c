// Warp-level matrix products: mma.sync and wmma.mma.
#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <span>
#include <vector>

#include "emulator/machine/warp.hpp"
#include "emulator/operations/block_scales.hpp"
#include "emulator/operations/matrix_forms.hpp"
#include "emulator/operations/matrix_operations.hpp"
#include "emulator/operations/number_formats.hpp"
#include "emulator/operations/quad_pairs.hpp"
#include "emulator/operations/tensor_product.hpp"

namespace emu {
namespace {

using Words = Vec<std::uint32_t>;

// Details of a product. `list`: the registers of D, A, B and C.
struct WarpProduct {
  const Fragment* a = nullptr;
  const Fragment* b = nullptr;
  const Fragment* sums = nullptr;
  SumType c{};
  SumType d{};
  Element a_element{};
  Element b_element{};
  std::uint8_t a_registers = 0;  // with those that repeat others
  std::uint8_t b_registers = 0;
  std::uint8_t step = 0;
  bool is_transposed = false;  // D has more columns than rows
  bool is_saturating = false;
  bool is_xor = false;  // bits: counts those that differ
  bool has_scales = false;  // a power of two for each row of A and column of B
  int rounding = FE_TONEAREST;  // of doubles

  [[nodiscard]] std::size_t d_registers() const { return sums->shape.units() / d.parts; }
  [[nodiscard]] std::size_t c_registers() const { return sums->shape.units() / c.parts; }
  // Binary16 is rounded to after each step only if C has it, too.
  [[nodiscard]] Accumulator accumulator() const {
    return c.accumulator == d.accumulator ? d.accumulator : Accumulator::kF32;
  }
};

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

// Runs a product whose sums `compute(product, wide, narrow, sums)` makes. The lines of A, or of B if
// D has more columns than rows, are the wide ones.
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
                   sums[i] += static_cast<std::uint32_t>(
                       std::popcount(product.is_xor ? a ^ b : a & b));
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

int take_rounding(Decoder& decoder) {
  decoder.take("rn");
  return decoder.take("rz")   ? FE_TOWARDZERO
         : decoder.take("rm") ? FE_DOWNWARD
         : decoder.take("rp") ? FE_UPWARD
                              : FE_TONEAREST;
}

// Appends the registers of an operand to the list.
void add_registers(Decoder& decoder, std::size_t operand, std::size_t count, Type type) {
  for (const syntax::Operand& part : decoder.parts(operand, count)) {
    decoder.op().list.push_back(operand == 0 ? decoder.destination(part, bits_of(type))
                                             : decoder.source(part, type));
  }
}

Type register_type(const SumType& sum) {
  return sum.bits == 64                                ? Type::kF64
         : sum.accumulator == Accumulator::kF32 ? Type::kF32
                                                       : Type::kB32;
}

// Types of the matrices, in the order in which an instruction names them.
struct MatrixTypes {
  Type d;
  Type a;
  Type b;
  Type c;
};

// Order of the elements of A and B in memory; mma.sync without a choice names .row.col.
struct Layouts {
  bool is_a_row = true;
  bool is_b_column = true;
};

Layouts take_layouts(Decoder& decoder) {
  const std::string_view opcode = decoder.instruction().opcode;
  const bool is_a_row = opcode.find(".row") < opcode.find(".col");
  decoder.require(is_a_row ? "row" : "col");
  const bool is_b_row = decoder.take("row");
  if (!is_b_row) {
    decoder.require("col");
  }
  return {.is_a_row = is_a_row, .is_b_column = !is_b_row};
}

// Whether D and C can have these types together.
bool is_allowed(const MatrixForm& form, const MatrixTypes& types) {
  return types.d == types.c || (form.is_wmma && form.elements == ElementClass::kHalf) ||
         (form.arithmetic == Arithmetic::kQuadPairs && types.d == Type::kF32);
}

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

// Takes the modifiers of integers and bits.
void take_integer_modifiers(Decoder& decoder, ElementClass elements, WarpProduct& product) {
  if (elements == ElementClass::kBit) {
    product.is_xor = decoder.take_one_of({"xor", "and"}) == "xor";
    decoder.require("popc");
  } else if (elements == ElementClass::kByte || elements == ElementClass::kNibble) {
    product.is_saturating = decoder.take("satfinite");
  } else if (elements == ElementClass::kDouble) {
    product.rounding = take_rounding(decoder);
  }
}

// What an instruction has besides its types.
struct ProductKind {
  bool is_wmma = false;
  bool has_kind = false;    // sm_120: kind::f8f6f4 or kind::mxf8f6f4
  bool has_scales = false;  // the latter, with block_scale
};

// Returns the class of A's and B's elements; fails if they do not go together.
ElementClass class_of(const Decoder& decoder, const MatrixTypes& types, const ProductKind& kind) {
  const ElementClass a = element_type(decoder, types.a, kind.has_kind).element_class;
  const ElementClass b = element_type(decoder, types.b, kind.has_kind).element_class;
  if (kind.has_kind) {
    return ElementClass::kSmall;
  }
  const bool has_mixed_types =
      !kind.is_wmma && (a == ElementClass::kByte || a == ElementClass::kNibble ||
                        a == ElementClass::kEight);
  if (a != b || (types.a != types.b && !has_mixed_types)) {
    decoder.fail("unsupported product of these types");
  }
  return a;
}

void decode_product(Decoder& decoder, const MatrixTypes& types, const ProductKind& kind) {
  const bool is_wmma = kind.is_wmma;
  const MatrixForm& form = take_form(decoder, class_of(decoder, types, kind), is_wmma);
  const Layouts layouts = take_layouts(decoder);
  WarpProduct product{.c = sum_type(decoder, types.c, form.elements),
                      .d = sum_type(decoder, types.d, form.elements),
                      .a_element = element_type(decoder, types.a, kind.has_kind).element,
                      .b_element = element_type(decoder, types.b, kind.has_kind).element,
                      .step = form.step,
                      .is_transposed = form.is_transposed(),
                      .has_scales = kind.has_scales};
  if (!is_allowed(form, types)) {
    decoder.fail("unsupported types of C and D together");
  }
  decoder.expect_operands(kind.has_scales ? 8 : 4);
  if (form.arithmetic == Arithmetic::kQuadPairs) {
    decode_quad_pairs(decoder, {.is_a_row = layouts.is_a_row,
                                .is_b_column = layouts.is_b_column,
                                .is_c_short = types.c == Type::kF16,
                                .is_d_short = types.d == Type::kF16});
    return;
  }
  if ((!is_wmma || (form.elements == ElementClass::kNibble || form.elements == ElementClass::kBit)) && !(layouts.is_a_row && layouts.is_b_column)) {
    decoder.fail("unsupported layouts; expected .row.col");
  }
  take_integer_modifiers(decoder, form.elements, product);
  product.a = &fragment_of(form.a());
  product.b = &fragment_of(form.b());
  product.sums = &fragment_of(form.sums());
  product.a_registers = static_cast<std::uint8_t>(form.operand_registers(*product.a));
  product.b_registers = static_cast<std::uint8_t>(form.operand_registers(*product.b));
  const Type operand = form.elements == ElementClass::kDouble ? Type::kF64 : Type::kB32;
  add_registers(decoder, 0, product.d_registers(), register_type(product.d));
  add_registers(decoder, 1, product.a_registers, operand);
  add_registers(decoder, 2, product.b_registers, operand);
  add_registers(decoder, 3, product.c_registers(), register_type(product.c));
  if (kind.has_scales) {
    add_block_scales(decoder);
  }
  decoder.op().details.set(product);
  decoder.op().code = code_of(form.arithmetic);
}

}  // namespace

void decode_mma(Decoder& decoder) {
  if (decoder.take("sp") || decoder.take("sp::ordered_metadata")) {
    decoder.fail("sparse matrices are unsupported");
  }
  decoder.require("sync");
  decoder.require("aligned");
  MatrixTypes types{};
  types.d = decoder.take_type();
  types.a = decoder.take_type();
  types.b = decoder.take_type();
  types.c = decoder.take_type();
  ProductKind kind;
  if (decoder.take("kind::mxf8f6f4")) {
    decoder.require("block_scale");
    decoder.take("scale_vec::1X");
    decoder.require("ue8m0");
    if (types.d != Type::kF32) {
      decoder.fail("block scales need sums in .f32");
    }
    kind = {.has_kind = true, .has_scales = true};
  } else {
    kind.has_kind = decoder.take("kind::f8f6f4");
  }
  decode_product(decoder, types, kind);
}

void decode_wmma_product(Decoder& decoder) {
  decoder.require("sync");
  decoder.require("aligned");
  MatrixTypes types{};
  types.d = decoder.take_type();
  types.a = decoder.take_type();
  types.b = types.c = types.a;
  if (decoder.peek_type().has_value()) {
    types.b = decoder.take_type();
    types.c = decoder.take_type();
  } else {  // products of binary16 name D and C alone
    types.a = types.b = Type::kF16;
  }
  decode_product(decoder, types, {.is_wmma = true});
}

}  // namespace emu
