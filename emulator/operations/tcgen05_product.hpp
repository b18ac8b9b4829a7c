// One tcgen05.mma: the places of its operands in shared and tensor memory, and the computation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "emulator/operations/umma_descriptor.hpp"
#include "emulator/program/tensor_address.hpp"

namespace emu {

/// The instruction with the values of its operands.
struct UmmaProduct {
  UmmaForm form;
  std::uint32_t d = 0;        // address in tensor memory, as are the scales'
  std::uint32_t scale_a = 0;  // only for kinds with scales
  std::uint32_t scale_b = 0;
  std::uint64_t a = 0;            // descriptor, or address in tensor memory
  std::uint64_t b = 0;            // descriptor
  std::uint32_t instruction = 0;  // bits of the instruction descriptor
  bool adds = true;               // adds to D; else overwrites it
  /// Bit mask of the lanes of D that are not written: lanes of block 0, then those of block 1.
  std::array<std::uint32_t, 8> disabled_lanes{};
};

/// Checks the descriptors, and that the operands fit into tensor memory. The functions below
/// require a product that passes.
CheckResult check_product(const UmmaProduct& product);

/// Bytes of a block's shared memory. Block 0 is the only one, or that of even rank in a pair.
struct SharedRange {
  std::size_t block = 0;
  std::uint32_t first = 0;
  std::uint32_t bytes = 0;
};
/// Memory that a product reads, and the part of D that it writes: disjoint ranges, ordered by block
/// and address.
struct UmmaAccesses {
  std::vector<SharedRange>
      a;  // empty if A is in tensor memory; not checked against the size of shared memory
  std::vector<SharedRange> b;
  std::vector<TensorRange> a_words;
  std::vector<TensorRange> scales;  // scales of A and B, with all four copies
  std::vector<TensorRange> d;       // written, and read if the product adds to it
};
UmmaAccesses accesses_of(const UmmaProduct& product);

/// Memory of a block.
struct UmmaMemory {
  std::span<const std::byte> shared;  // from address 0
  std::span<std::uint32_t> tensor;    // kTensorWords words, indexed by tensor_place
};

/// Computes D. `memory` has product.form.blocks entries, which must contain all accesses. Refuses
/// if the copies of a scale factor in the groups of 32 lanes differ.
CheckResult multiply(const UmmaProduct& product, std::span<const UmmaMemory> memory);

}  // namespace emu
