// Descriptors of tcgen05.mma: the instruction descriptor, and those of matrices in shared memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/operations/matrix_descriptor.hpp"
#include "emulator/operations/tensor_product.hpp"

namespace emu {

/// Supported kinds, all dense. (kind::tf32, mxf4 and mxf4nvf4 are not supported.)
enum class UmmaKind : std::uint8_t { kF16, kF8F6F4, kI8, kMxF8F6F4 };

/// Modifiers and operands of the instruction, without the descriptors.
struct UmmaForm {
  UmmaKind kind = UmmaKind::kF16;
  std::size_t blocks = 1;  // cta_group: 1 or 2
  bool is_a_in_tensor_memory = false;

  /// Number of elements along K: 32 bytes of A's and B's rows in shared memory, with 16 elements of
  /// 4 or 6 bits in each 16 bytes.
  [[nodiscard]] std::size_t depth() const { return kind == UmmaKind::kF16 ? 16 : 32; }
  [[nodiscard]] bool has_scales() const { return kind == UmmaKind::kMxF8F6F4; }
};

/// Decoded instruction descriptor (PTX ISA 9.7.16.4.2). D has the shape (rows, columns) over all
/// blocks.
struct UmmaInstruction {
  Element a = Element::kF16;
  Element b = Element::kF16;
  Accumulator accumulator = Accumulator::kF32;
  std::size_t rows = 0;     // M
  std::size_t columns = 0;  // N
  bool is_a_k_major = true;
  bool is_b_k_major = true;
  bool is_a_negated = false;
  bool is_b_negated = false;
  bool is_saturating = false;
  std::size_t scale_a_byte = 0;  // byte index in each word of scale factors in tensor memory
  std::size_t scale_b_byte = 0;

  /// Decodes a descriptor. Unused bits are ignored; the result for reserved codes is unspecified.
  [[nodiscard]] static UmmaInstruction from_bits(const UmmaForm& form, std::uint32_t bits);

  /// Shapes of a block's part of A and B: each block has its rows of A and its columns of B.
  [[nodiscard]] MatrixShape shape_of_a(const UmmaForm& form) const;
  [[nodiscard]] MatrixShape shape_of_b(const UmmaForm& form) const;
};

/// Checks the bits of an instruction descriptor.
CheckResult check_instruction(const UmmaForm& form, std::uint32_t bits);

/// Checks an sm_100 descriptor of a matrix of this shape in shared memory (PTX ISA 9.7.16.4.1).
/// MatrixDescriptor::from_bits decodes a descriptor that passes.
CheckResult check_umma_matrix(std::uint64_t bits, const MatrixShape& shape);

}  // namespace emu
