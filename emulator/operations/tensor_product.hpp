// Products of whole matrices, bit for bit what a tensor core's step makes of each element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "emulator/operations/tensor_arithmetic.hpp"

namespace emu {

/// Rows of A or columns of B, `depth` elements each: those of a line lie together.
struct Lines {
  Element element = Element::kF16;
  std::size_t count = 0;
  std::size_t depth = 0;
  bool is_negated = false;            // of floats
  std::vector<std::uint16_t> bits{};  // (count, depth)
};

/// d (a.count, b.count), binary32 or whole numbers of 32 bits, += a b^T. Sums of floats are
/// `fused_sum` of all of a line; whole numbers wrap around. Both are floats or both are not; the
/// depth is even and at most 32.
void multiply_add(const Lines& a, const Lines& b, std::span<std::uint32_t> d);

/// The same, each element by itself through `fused_sum` or whole numbers: slow, and what the other
/// one is compared with.
void multiply_add_singly(const Lines& a, const Lines& b, std::span<std::uint32_t> d);

}  // namespace emu
