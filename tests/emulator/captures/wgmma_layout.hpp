// How operands of wgmma lie in shared memory: the fields of matrix descriptors, and a model of the
// products of whole numbers that finds the elements by them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/captures/micro_kernel.hpp"

namespace captures {

/// Bits 62 and 63 of a descriptor.
enum class SwizzleMode : std::uint8_t { kNone = 0, k128 = 1, k64 = 2, k32 = 3 };

/// Bytes, all of them.
struct OperandLayout {
  SwizzleMode mode = SwizzleMode::k128;
  std::uint32_t first = 0;  // where it begins
  std::uint32_t leading = 16;
  std::uint32_t stride = 1024;
  std::uint32_t base = 0;      // the number of the row of 128 bytes that the pattern begins in
  std::uint32_t step = 32;     // to the next part of K
  bool is_transposed = false;  // M or N is contiguous, not K

  /// The descriptor without the address.
  [[nodiscard]] std::uint64_t fields() const;
};

/// Rows of K as wide as the swizzle. Without one, cores of 8 rows of 16 bytes: two of them side by
/// side, or with `in_columns` those of the second 16 bytes behind all of the first.
OperandLayout k_major(SwizzleMode mode, bool in_columns = false);
/// `size`: M or N.
OperandLayout mn_major(SwizzleMode mode, int size);

struct IntegerProduct {
  OperandLayout a{};
  OperandLayout b{};
  std::size_t b_offset = 0;
  int n = 0;
  int steps = 0;
  bool is_a_signed = false;
  bool is_b_signed = false;
  bool is_a_in_registers = false;
  bool accumulates = true;
};
/// Of shared memory, accumulators and registers of A. K-major operands of bytes.
std::vector<Bytes> integer_products(const std::vector<Bytes>& inputs,
                                    const IntegerProduct& product);

}  // namespace captures
