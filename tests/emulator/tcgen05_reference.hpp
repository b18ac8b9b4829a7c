// Where the operands of tcgen05.mma lie, written from the published layouts (CUTLASS,
// cute/atom/mma_traits_sm100_frag.hpp; PTX ISA 9.7.16.10), and memory that holds random ones.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "emulator/operations/tcgen05_product.hpp"
#include "tests/emulator/wgmma_reference.hpp"

namespace emu::reference {

/// What a random product is made of. M and N are of all blocks together.
struct UmmaCase {
  UmmaKind kind = UmmaKind::kF16;
  unsigned blocks = 1;
  unsigned rows = 128;
  unsigned columns = 64;
  Element a = Element::kF16;
  Element b = Element::kF16;
  bool is_half_sum = false;
  bool is_saturating = false;
  bool is_a_negated = false;
  bool is_b_negated = false;
  bool is_a_k_major = true;
  bool is_b_k_major = true;
  bool is_a_in_tensor_memory = false;
  bool adds = true;
  unsigned swizzle_of_a = 0;  // 0 none, 1 of 32 bytes, 2 of 64, 3 of 128
  unsigned swizzle_of_b = 0;
  unsigned scale_a_byte = 0;
  unsigned scale_b_byte = 0;
  unsigned lane = 0;  // D's and A's first

  [[nodiscard]] unsigned depth() const { return kind == UmmaKind::kF16 ? 16 : 32; }
  [[nodiscard]] bool is_halved() const { return blocks == 2 && rows == 128; }
  [[nodiscard]] UmmaForm form() const {
    return {.kind = kind, .blocks = blocks, .is_a_in_tensor_memory = is_a_in_tensor_memory};
  }

  /// As tables 42 and 43 of the PTX ISA have it.
  [[nodiscard]] std::uint32_t instruction() const {
    const auto code = [](Element element) -> std::uint32_t {
      switch (element) {
        case Element::kBF16:
        case Element::kE5M2:
        case Element::kS8:
          return 1;
        case Element::kE2M3:
          return 3;
        case Element::kE3M2:
          return 4;
        case Element::kE2M1:
          return 5;
        default:
          return 0;
      }
    };
    std::uint32_t bits = code(a) << 7U | code(b) << 10U | std::uint32_t{is_a_negated} << 13U |
                         std::uint32_t{is_b_negated} << 14U | std::uint32_t{!is_a_k_major} << 15U |
                         std::uint32_t{!is_b_k_major} << 16U | columns / 8 << 17U;
    if (kind == UmmaKind::kMxF8F6F4) {
      return bits | 1U << 23U | rows / 128 << 27U | scale_a_byte << 29U | scale_b_byte << 4U;
    }
    const std::uint32_t sum = kind == UmmaKind::kI8 ? 2 : is_half_sum ? 0 : 1;
    return bits | rows / 16 << 24U | sum << 4U | std::uint32_t{is_saturating} << 3U;
  }
};

/// A word of tensor memory.
struct Word {
  unsigned block;
  unsigned lane;
  unsigned column;
};

/// Layouts A (256 rows, a pair), B (128, a pair), D (128) and F (64).
inline Word word_of_d(const UmmaCase& umma, unsigned row, unsigned column) {
  if (umma.blocks == 2 && umma.rows == 256) {
    return {row / 128, row % 128, column};
  }
  if (umma.blocks == 2) {
    const unsigned half = umma.columns / 2;
    return {row / 64, row % 64 + column / half * 64, column % half};
  }
  return {0, umma.rows == 64 ? umma.lane + row / 16 * 32 + row % 16 : row, column};
}

/// Blocks' memory with random operands in it, each in a region of its own.
class UmmaMemories {
 public:
  static constexpr std::uint32_t kA = 0x4000;  // in shared memory
  static constexpr std::uint32_t kB = 0x10000;
  static constexpr std::uint32_t kShared = 0x24000;
  static constexpr unsigned kColumnOfD = 8;  // in tensor memory
  static constexpr unsigned kColumnOfA = 300;
  static constexpr unsigned kColumnOfScalesOfA = 400;
  static constexpr unsigned kColumnOfScalesOfB = 420;

  std::array<std::vector<std::byte>, 2> shared;
  std::array<std::vector<std::uint32_t>, 2> tensor;
  /// Bytes and words that are the operands'.
  std::array<std::vector<bool>, 2> is_of_a;
  std::array<std::vector<bool>, 2> is_of_b;
  std::array<std::vector<bool>, 2> is_tensor_of_a;
  std::array<std::vector<bool>, 2> is_of_scales;
  UmmaProduct product;

  UmmaMemories(const UmmaCase& umma, std::mt19937& random) : umma_(umma) {
    for (unsigned block = 0; block < 2; ++block) {
      shared.at(block).resize(kShared);
      tensor.at(block).resize(kTensorWords);
      is_of_a.at(block).resize(kShared);
      is_of_b.at(block).resize(kShared);
      is_tensor_of_a.at(block).resize(kTensorWords);
      is_of_scales.at(block).resize(kTensorWords);
      for (std::byte& byte : shared.at(block)) {
        byte = static_cast<std::byte>(random());
      }
      for (std::uint32_t& word : tensor.at(block)) {
        word = static_cast<std::uint32_t>(random());
      }
    }
    product.form = umma.form();
    product.instruction = umma.instruction();
    product.adds = umma.adds;
    product.d = umma.lane << 16U | kColumnOfD;
    product.scale_a = kColumnOfScalesOfA;
    product.scale_b = kColumnOfScalesOfB;
    a_place_ = place(umma.is_a_k_major, umma.swizzle_of_a, umma.a, kA, random, product.a);
    b_place_ = place(umma.is_b_k_major, umma.swizzle_of_b, umma.b, kB, random, product.b);
    if (umma.is_a_in_tensor_memory) {
      product.a = umma.lane << 16U | kColumnOfA;
    }
  }

  void set_a(unsigned row, unsigned k, unsigned bits) {
    const unsigned block = row / (umma_.rows / umma_.blocks);
    const unsigned line = row % (umma_.rows / umma_.blocks);
    if (!umma_.is_a_in_tensor_memory) {
      put(shared.at(block), is_of_a.at(block), kA, a_place_, umma_.a, line, k, bits);
      return;
    }
    const unsigned width = umma_.a <= Element::kBF16 ? 16 : 8;
    for (unsigned copy = 0; copy < (umma_.is_halved() ? 2 : 1); ++copy) {
      const unsigned lane = word_of_d(umma_, row, copy * umma_.columns / 2).lane;
      const std::size_t at = tensor_place(lane, kColumnOfA + k * width / 32);
      const std::uint32_t mask = ((1U << width) - 1) << (k * width % 32);
      tensor.at(block)[at] = (tensor.at(block)[at] & ~mask) | bits << (k * width % 32);
      is_tensor_of_a.at(block)[at] = true;
    }
  }
  void set_b(unsigned column, unsigned k, unsigned bits) {
    const unsigned block = column / (umma_.columns / umma_.blocks);
    put(shared.at(block), is_of_b.at(block), kB, b_place_, umma_.b,
        column % (umma_.columns / umma_.blocks), k, bits);
  }
  void set_scale_a(unsigned row, unsigned scale) {
    const unsigned rows = umma_.rows / umma_.blocks;
    for (unsigned copy = 0; copy < 4; ++copy) {
      put_scale(row / rows, row % rows % 32 + 32 * copy, kColumnOfScalesOfA + row % rows / 32,
                umma_.scale_a_byte, scale);
    }
  }
  /// Each block has those of all columns.
  void set_scale_b(unsigned column, unsigned scale) {
    const unsigned half = umma_.columns / 2;
    const unsigned upper = umma_.is_halved() && column >= half ? 1 : 0;
    const unsigned line = column - upper * half;
    for (unsigned block = 0; block < umma_.blocks; ++block) {
      for (unsigned copy = 0; copy < (umma_.is_halved() ? 2 : 4); ++copy) {
        put_scale(block, line % 32 + 32 * copy + 64 * upper, kColumnOfScalesOfB + line / 32,
                  umma_.scale_b_byte, scale);
      }
    }
  }
  std::uint32_t& d(unsigned row, unsigned column) {
    const Word word = word_of_d(umma_, row, column);
    return tensor.at(word.block)[tensor_place(word.lane, kColumnOfD + word.column)];
  }
  std::array<UmmaMemory, 2> memory() { return {{{shared[0], tensor[0]}, {shared[1], tensor[1]}}}; }

 private:
  // Where a matrix lies, and its descriptor.
  static Placement place(bool is_k_major, unsigned swizzle, Element element, std::uint32_t start,
                         std::mt19937& random, std::uint64_t& bits) {
    constexpr std::array<std::uint64_t, 4> kCodes = {0, 6, 4, 2};
    const unsigned width = 16U << swizzle;
    // Rows of groups do not overlap: along K there are at most two pieces or four groups, and at
    // most 32 of the others.
    const unsigned atom = 8 * width;
    const bool is_plain = swizzle == 0;
    unsigned groups = atom;
    unsigned pieces = atom;
    if (is_k_major) {
      groups = atom * (is_plain ? 2 + static_cast<unsigned>(random() % 2) : 1);
    } else {
      const unsigned elements = width / (element <= Element::kBF16 ? 2 : 1);
      pieces = atom * (4 + static_cast<unsigned>(random() % 2));
      pieces = std::min(pieces, 0x10000 / std::max(256 / elements, 1U));
    }
    const bool is_swapped = !is_k_major && is_plain;
    const std::uint64_t leading = is_swapped ? groups : pieces;
    const std::uint64_t stride = is_swapped ? pieces : groups;
    bits = start >> 4U | leading >> 4U << 16U | stride >> 4U << 32U | std::uint64_t{1} << 46U |
           kCodes.at(swizzle) << 61U;
    return {.is_k_major = is_k_major,
            .width = width,
            .element = element <= Element::kBF16 ? 2U : 1U,
            .groups = groups,
            .pieces = pieces};
  }

  static void put(std::vector<std::byte>& bytes, std::vector<bool>& is_operand, std::uint32_t start,
                  const Placement& placement, Element element, unsigned line, unsigned k,
                  unsigned bits) {
    const unsigned packed = element == Element::kE2M1                                ? 4
                            : element == Element::kE2M3 || element == Element::kE3M2 ? 6
                                                                                     : 0;
    if (packed == 0) {
      const std::uint32_t at = start + placement.offset(line, k);
      std::memcpy(&bytes[at], &bits, placement.element);
      // All 16 bytes are read as one.
      std::fill_n(is_operand.begin() + at / 16 * 16, 16, true);
      return;
    }
    const std::uint32_t at = start + placement.offset(line, k / 16 * 16);
    for (unsigned bit = 0; bit < packed; ++bit) {
      const unsigned place = k % 16 * packed + bit;
      const auto mask = static_cast<std::byte>(1U << place % 8);
      std::byte& byte = bytes[at + place / 8];
      byte = (bits >> bit & 1U) != 0 ? byte | mask : byte & ~mask;
    }
    std::fill_n(is_operand.begin() + at, 2 * packed, true);
  }

  void put_scale(unsigned block, unsigned lane, unsigned column, unsigned byte, unsigned scale) {
    const std::size_t at = tensor_place(lane, column);
    std::uint32_t& word = tensor.at(block)[at];
    word = (word & ~(0xFFU << 8 * byte)) | scale << 8 * byte;
    is_of_scales.at(block)[at] = true;
  }

  UmmaCase umma_;
  Placement a_place_;
  Placement b_place_;
};

}  // namespace emu::reference
