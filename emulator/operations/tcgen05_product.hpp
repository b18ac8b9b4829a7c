// One tcgen05.mma: where its operands lie in shared and tensor memory, and what it computes.
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
  std::uint32_t d = 0;        // an address in tensor memory, as the next ones
  std::uint32_t scale_a = 0;  // of kinds that have scales
  std::uint32_t scale_b = 0;
  std::uint64_t a = 0;            // a descriptor, or an address in tensor memory
  std::uint64_t b = 0;            // a descriptor
  std::uint32_t instruction = 0;  // the instruction descriptor's bits
  bool adds = true;               // to what D is; else D is written only
  /// Lanes of D that are not written, as bits: lane 0 of block 0 first, those of block 1 behind.
  std::array<std::uint32_t, 8> disabled_lanes{};
};

/// Checks its descriptors, and that its places in tensor memory exist (lanes, and columns up to the
/// last). All functions below need a product that is allowed.
Support check_product(const UmmaProduct& product);

/// Bytes of a block's shared memory. Block 0 is the one of even rank of the pair, or the only one.
struct SharedRange {
  std::size_t block = 0;
  std::uint32_t first = 0;
  std::uint32_t bytes = 0;
};
/// All that it reads, and writes in D: disjoint ranges, in the order of blocks and addresses.
struct UmmaAccesses {
  std::vector<SharedRange> a;  // empty where A is in tensor memory; may be outside of shared memory
  std::vector<SharedRange> b;
  std::vector<TensorRange> a_words;
  std::vector<TensorRange> scales;  // of A and B: all four copies
  std::vector<TensorRange> d;       // written, and read where it adds
};
UmmaAccesses accesses_of(const UmmaProduct& product);

/// A block's memory.
struct UmmaMemory {
  std::span<const std::byte> shared;  // from address 0 on
  std::span<std::uint32_t> tensor;    // kTensorWords, as tensor_place has them
};

/// Computes D. `memory` has product.form.blocks entries, which hold all of its accesses. False
/// where copies of a scale factor differ: each group of 32 lanes must have the same.
Support multiply(const UmmaProduct& product, std::span<const UmmaMemory> memory);

}  // namespace emu
