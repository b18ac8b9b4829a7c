// Products of whole matrices, bit for bit what a tensor core's step makes of each element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "emulator/operations/matrix_descriptor.hpp"
#include "emulator/operations/tensor_arithmetic.hpp"

namespace emu {

/// Rows of A or columns of B, `depth` elements each: those of a line lie together.
struct Lines {
  Element element = Element::kF16;
  std::size_t count = 0;
  std::size_t depth = 0;
  bool is_negated = false;            // of floats
  std::vector<std::uint16_t> bits{};  // (count, depth)
  /// Nothing, or of each line the power of two, as E8M0, that all of its elements are multiplied
  /// by: 2^(scale - 127), and 255 is NaN.
  std::vector<std::uint8_t> scales{};
};

/// Puts 16 bytes in their places: of one line from element k on, or of one k from `line` on. Of
/// elements of less than 8 bits the bytes hold 16 side by side, and nothing behind them (PTX ISA
/// 9.7.16.10.4.4).
void put_chunk(Lines& lines, std::size_t line, std::size_t k, bool is_k_major,
               std::span<const std::byte, kChunkBytes> chunk);

/// How sums are made, and in what they are kept.
struct SumRule {
  Precision precision;  // of floats
  Accumulator accumulator = Accumulator::kF32;
  bool is_saturating = false;  // of whole numbers: kept within 32 bits
};

/// d (a.count, b.count), words of 32 bits, += a b^T. Sums of floats are `fused_sum` of all of a
/// line, with the line's two scales; whole numbers are exact, and wrap around or saturate in the
/// end. Both are floats or both are not; the depth is 16 or 32. A line of scales is of floats
/// alone.
void multiply_add(const Lines& a, const Lines& b, std::span<std::uint32_t> d, const SumRule& rule);

/// One element of a sum of floats by itself, through `fused_sum`.
std::uint32_t single_sum(const Lines& a, std::size_t row, const Lines& b, std::size_t column,
                         std::uint32_t c, const SumRule& rule);

}  // namespace emu
