// Forms of warp-level matrix products (mma.sync and wmma): their shapes, types and fragments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "emulator/operations/matrix_fragments.hpp"
#include "emulator/operations/tensor_arithmetic.hpp"
#include "emulator/program/decoder.hpp"

namespace emu {

/// How Hopper computes a product.
enum class Arithmetic : std::uint8_t {
  kTensor,     // as a tensor core: all products of a step are added at once; integers are exact
  kHalves,     // 8-bit floats: as binary16, half of each word after the other, and C in the end
  kDoubles,    // fused multiply-adds in binary64, along K
  kBits,       // numbers of bits that both, or only one of them, have
  kQuadPairs,  // four products of 8 x 8 x 4: fused multiply-adds in binary32, and C in the end
};

/// Types of elements that the same shapes take.
enum class ElementClass : std::uint8_t {
  kHalf,
  kBrain,
  kTf32,
  kDouble,
  kByte,
  kNibble,
  kBit,
  kEight,
  kSmall,  // floats of 4 to 8 bits in a byte each (kind::f8f6f4 and mxf8f6f4, for sm_120)
};

struct ElementType {
  Type type;
  ElementClass element_class;
  Element element;  // nothing for doubles
};
/// Finds the type of A's or B's elements; fails if products have none of this type, or if it is one
/// of those that need a kind.
const ElementType& element_type(const Decoder& decoder, Type type, bool has_kind = false);

/// A shape with types that it takes.
struct MatrixForm {
  ElementClass elements;
  std::uint16_t rows;
  std::uint16_t columns;
  std::uint16_t depth;
  bool is_wmma;
  Arithmetic arithmetic;
  std::uint8_t step;  // elements that are added at once; 0: all

  [[nodiscard]] bool is_transposed() const { return columns > rows; }
  /// Registers of A or B: wmma repeats those of binary16 to have eight.
  [[nodiscard]] std::size_t operand_registers(const Fragment& fragment) const {
    return is_wmma && elements == ElementClass::kHalf ? 8 : fragment.shape.units();
  }
  [[nodiscard]] FragmentShape a() const;
  [[nodiscard]] FragmentShape b() const;
  [[nodiscard]] FragmentShape sums() const;
};

/// Takes the shape's modifier, such as .m16n8k16. Fails unless the instruction has the shape with
/// elements of this class.
const MatrixForm& take_form(Decoder& decoder, ElementClass elements, bool is_wmma);

/// Takes the shape of a wmma instruction whose sums can have this type.
const MatrixForm& take_form_of_sums(Decoder& decoder, Type type);

/// Bits of an accumulator's registers, and elements in each.
struct SumType {
  Accumulator accumulator = Accumulator::kF32;
  std::uint8_t bits = 32;
  std::uint8_t parts = 1;
};
/// Returns the type of C or D. Fails unless sums of such elements can have it.
SumType sum_type(const Decoder& decoder, Type type, ElementClass elements);

}  // namespace emu
