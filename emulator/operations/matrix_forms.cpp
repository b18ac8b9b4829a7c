// Forms of warp-level matrix products (mma.sync and wmma): their shapes, types and fragments.
#include "emulator/operations/matrix_forms.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include <fmt/format.h>

namespace emu {
namespace {

using enum ElementClass;
using enum Arithmetic;

constexpr std::array kTypes = {
    ElementType{Type::kF16, kHalf, Element::kF16},
    ElementType{Type::kBF16, kBrain, Element::kBF16},
    ElementType{Type::kTF32, kTf32, Element::kTF32},
    ElementType{Type::kF64, kDouble, {}},
    ElementType{Type::kS8, kByte, Element::kS8},
    ElementType{Type::kU8, kByte, Element::kU8},
    ElementType{Type::kS4, kNibble, Element::kS4},
    ElementType{Type::kU4, kNibble, Element::kU4},
    ElementType{Type::kB1, kBit, Element::kB1},
    ElementType{Type::kE4M3, kEight, Element::kE4M3},
    ElementType{Type::kE5M2, kEight, Element::kE5M2},
    ElementType{Type::kE3M2, kSmall, Element::kE3M2},
    ElementType{Type::kE2M3, kSmall, Element::kE2M3},
    ElementType{Type::kE2M1, kSmall, Element::kE2M1},
};

// All dense products. ptxas makes two steps of wmma's TF32, and no tensor core's product of
// mma.sync.m8n8k4 with binary16.
constexpr std::array kForms = {
    MatrixForm{kHalf, 8, 8, 4, false, kQuadPairs, 0},
    MatrixForm{kHalf, 16, 8, 8, false, kTensor, 0},
    MatrixForm{kHalf, 16, 8, 16, false, kTensor, 0},
    MatrixForm{kHalf, 16, 16, 16, true, kTensor, 0},
    MatrixForm{kHalf, 32, 8, 16, true, kTensor, 0},
    MatrixForm{kHalf, 8, 32, 16, true, kTensor, 0},
    MatrixForm{kBrain, 16, 8, 8, false, kTensor, 0},
    MatrixForm{kBrain, 16, 8, 16, false, kTensor, 0},
    MatrixForm{kBrain, 16, 16, 16, true, kTensor, 0},
    MatrixForm{kBrain, 32, 8, 16, true, kTensor, 0},
    MatrixForm{kBrain, 8, 32, 16, true, kTensor, 0},
    MatrixForm{kTf32, 16, 8, 4, false, kTensor, 0},
    MatrixForm{kTf32, 16, 8, 8, false, kTensor, 0},
    MatrixForm{kTf32, 16, 16, 8, true, kTensor, 4},
    MatrixForm{kDouble, 8, 8, 4, false, kDoubles, 0},
    MatrixForm{kDouble, 16, 8, 4, false, kDoubles, 0},
    MatrixForm{kDouble, 16, 8, 8, false, kDoubles, 0},
    MatrixForm{kDouble, 16, 8, 16, false, kDoubles, 0},
    MatrixForm{kDouble, 8, 8, 4, true, kDoubles, 0},
    MatrixForm{kByte, 8, 8, 16, false, kTensor, 0},
    MatrixForm{kByte, 16, 8, 16, false, kTensor, 0},
    MatrixForm{kByte, 16, 8, 32, false, kTensor, 0},
    MatrixForm{kByte, 16, 16, 16, true, kTensor, 0},
    MatrixForm{kByte, 32, 8, 16, true, kTensor, 0},
    MatrixForm{kByte, 8, 32, 16, true, kTensor, 0},
    MatrixForm{kNibble, 8, 8, 32, false, kTensor, 0},
    MatrixForm{kNibble, 16, 8, 32, false, kTensor, 0},
    MatrixForm{kNibble, 16, 8, 64, false, kTensor, 0},
    MatrixForm{kNibble, 8, 8, 32, true, kTensor, 0},
    MatrixForm{kBit, 8, 8, 128, false, kBits, 0},
    MatrixForm{kBit, 16, 8, 128, false, kBits, 0},
    MatrixForm{kBit, 16, 8, 256, false, kBits, 0},
    MatrixForm{kBit, 8, 8, 128, true, kBits, 0},
    MatrixForm{kEight, 16, 8, 16, false, kHalves, 0},
    MatrixForm{kEight, 16, 8, 32, false, kHalves, 0},
    MatrixForm{kSmall, 16, 8, 32, false, kTensor, 0},
};

FragmentShape operand_shape(const MatrixForm& form, std::uint16_t lines, bool is_wide) {
  const bool is_double = form.elements == kDouble;
  const std::size_t elements_per_unit =
      is_double
          ? 1
          : 32 /
                container_bits(
                    std::ranges::find(kTypes, form.elements, &ElementType::element_class)->element);
  return {.kind = is_double ? FragmentKind::kDoubles : FragmentKind::kWords,
          .lines = lines,
          .width = static_cast<std::uint16_t>(form.depth / elements_per_unit),
          .is_wide = is_wide && lines % 16 == 0};
}

std::optional<SumType> find_sum_type(Type type, ElementClass elements) {
  const bool is_short = elements == kHalf || elements == kEight || elements == kSmall;
  if (elements == kDouble) {
    return type == Type::kF64 ? std::optional(SumType{.bits = 64}) : std::nullopt;
  }
  if (elements == kByte || elements == kNibble || elements == kBit) {
    return type == Type::kS32 ? std::optional(SumType{.accumulator = Accumulator::kS32})
                              : std::nullopt;
  }
  if (is_short && type == Type::kF16) {
    return SumType{.accumulator = Accumulator::kF16, .parts = 2};
  }
  return type == Type::kF32 ? std::optional(SumType{}) : std::nullopt;
}

// Takes the shape of one of the forms for which use(form) holds.
template <typename Use>
const MatrixForm& take_form_where(Decoder& decoder, Use&& use) {
  std::string names;
  for (const MatrixForm& form : kForms) {
    if (use(form)) {
      const std::string name = fmt::format("m{}n{}k{}", form.rows, form.columns, form.depth);
      if (decoder.take(name)) {
        return form;
      }
      names += (names.empty() ? "." : " or .") + name;
    }
  }
  decoder.fail(names.empty() ? "the instruction has no products of this type"
                             : fmt::format("unsupported shape for this type; expected {}", names));
}

}  // namespace

FragmentShape MatrixForm::a() const {
  return operand_shape(*this, rows, !is_transposed());
}

FragmentShape MatrixForm::b() const {
  return operand_shape(*this, columns, is_transposed());
}

FragmentShape MatrixForm::sums() const {
  const std::uint16_t lines = std::max(rows, columns);
  return {.kind = FragmentKind::kSums,
          .lines = lines,
          .width = std::min(rows, columns),
          .is_wide = lines % 16 == 0};
}

const ElementType& element_type(const Decoder& decoder, Type type, bool has_kind) {
  const auto* const row = std::ranges::find(kTypes, type, &ElementType::type);
  const bool is_small = row != kTypes.end() && row->element_class == kSmall;
  const bool has_class = is_small || (row != kTypes.end() && row->element_class == kEight);
  if (row == kTypes.end() || (has_kind ? !has_class : is_small)) {
    decoder.fail("unsupported type of a matrix");
  }
  return *row;
}

const MatrixForm& take_form(Decoder& decoder, ElementClass elements, bool is_wmma) {
  return take_form_where(decoder, [&](const MatrixForm& form) {
    return form.elements == elements && form.is_wmma == is_wmma;
  });
}

const MatrixForm& take_form_of_sums(Decoder& decoder, Type type) {
  return take_form_where(decoder, [&](const MatrixForm& form) {
    return form.is_wmma && find_sum_type(type, form.elements).has_value();
  });
}

SumType sum_type(const Decoder& decoder, Type type, ElementClass elements) {
  const std::optional<SumType> found = find_sum_type(type, elements);
  if (!found.has_value()) {
    decoder.fail("unsupported type of the sums for these elements");
  }
  return *found;
}

}  // namespace emu
