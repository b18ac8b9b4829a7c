// Warp-level matrix products, mma.sync and wmma.mma: their modifiers and operands.
#include <string_view>

#include "emulator/operations/block_scales.hpp"
#include "emulator/operations/matrix_operations.hpp"
#include "emulator/operations/matrix_product.hpp"
#include "emulator/operations/quad_pairs.hpp"

namespace emu {
namespace {

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
  return sum.bits == 64                         ? Type::kF64
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
      !kind.is_wmma &&
      (a == ElementClass::kByte || a == ElementClass::kNibble || a == ElementClass::kEight);
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
  if ((!is_wmma ||
       (form.elements == ElementClass::kNibble || form.elements == ElementClass::kBit)) &&
      !(layouts.is_a_row && layouts.is_b_column)) {
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
