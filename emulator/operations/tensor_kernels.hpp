// Kernels of matrix products in vectors of 16 lines, compiled for several instruction sets of the
// CPU.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "emulator/operations/tensor_product.hpp"

namespace emu {

/// Values of one k for the lines of a block.
template <typename T>
struct alignas(kBlockLines * sizeof(T)) BlockVector {
  std::array<T, kBlockLines> lines;
};

/// Elements of a matrix, decoded for the multiplication. Lines beyond `count` are zeros.
struct DecodedLines {
  std::size_t count = 0;
  std::size_t depth = 0;
  std::vector<BlockVector<float>> values{};             // shape (blocks, depth)
  std::vector<BlockVector<std::int32_t>> tops{};        // (blocks, depth / 2): two in a word
  std::vector<BlockVector<std::int32_t>> shifts{};      // for each block: exponents of the scales
  std::vector<BlockVector<std::int32_t>> is_special{};  // for each block: -1: fused_sum computes it
};

/// The elements from `first` to `first + count - 1` of all lines.
struct Step {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// Elements of D that fused_sum has to compute.
struct SpecialSums {
  std::vector<std::size_t> indexes{};
  std::vector<BlockVector<std::int32_t>> masks{};  // memory for the kernels: of a block's rows
};

struct TensorKernels {
  /// Decodes a matrix.
  void (*decode)(const Lines& lines, DecodedLines& to);
  /// Computes d += a b^T for one step. Leaves the elements of `d` that fused_sum has to compute as
  /// they are, and appends their indexes to `special`.
  void (*multiply)(const DecodedLines& a, const DecodedLines& b, std::span<std::uint32_t> d,
                   const SumRule& rule, const Step& step, SpecialSums& special);
};

/// Returns the kernels for the floats or integers of `element` on this CPU.
const TensorKernels& tensor_kernels(Element element);

}  // namespace emu
