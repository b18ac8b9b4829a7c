// Where wgmma finds the elements of its operands, and which descriptors it refuses.
#include "emulator/operations/matrix_descriptor.hpp"

#include <array>
#include <random>

#include <gtest/gtest.h>

#include "tests/emulator/wgmma_reference.hpp"

namespace emu {
namespace {

constexpr std::array<Swizzle, 4> kSwizzles = {Swizzle::kNone, Swizzle::k32, Swizzle::k64,
                                              Swizzle::k128};

std::uint64_t bits_of_descriptor(unsigned start, unsigned leading, unsigned stride, unsigned base,
                                 Swizzle swizzle) {
  return std::uint64_t{start} >> 4U | std::uint64_t{leading} >> 4U << 16U |
         std::uint64_t{stride} >> 4U << 32U | std::uint64_t{base} << 49U |
         static_cast<std::uint64_t>(swizzle) << 62U;
}

TEST(MatrixDescriptor, HoldsItsFields) {
  const auto descriptor =
      MatrixDescriptor::from_bits(bits_of_descriptor(0x3FFF0, 0x12340, 0x2AAA0, 5, Swizzle::k64));
  EXPECT_EQ(descriptor.start, 0x3FFF0U);
  EXPECT_EQ(descriptor.leading, 0x12340U);
  EXPECT_EQ(descriptor.stride, 0x2AAA0U);
  EXPECT_EQ(descriptor.base_offset, 5U);
  EXPECT_EQ(descriptor.swizzle, Swizzle::k64);
}

TEST(MatrixDescriptor, FindsEveryElement) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const std::size_t mode = random() % 4;
    const unsigned width = 16U << mode;
    const bool has_16_bits = random() % 2 != 0;
    const bool is_k_major = !has_16_bits || random() % 2 != 0;
    const MatrixShape shape{.lines = 8 * (1 + random() % 32),
                            .depth = has_16_bits ? std::size_t{16} : std::size_t{32},
                            .element_bytes = has_16_bits ? std::size_t{2} : std::size_t{1},
                            .is_k_major = is_k_major};
    const reference::Placement placement{
        .is_k_major = is_k_major,
        .width = width,
        .element = static_cast<unsigned>(shape.element_bytes),
        .groups = 8 * width * (1 + static_cast<unsigned>(random() % 5)),
        .pieces = 8 * width * (1 + static_cast<unsigned>(random() % 5))};
    const unsigned pattern = mode == 0 ? 16 * (random() % 4096) : 128 * (random() % 512);
    const unsigned base = mode == 0 ? 0 : pattern / 128 % 8;
    // The n-th step along K of a K-major tile.
    const unsigned step = is_k_major && mode > 0 ? random() % (width / 32) : 0;
    // Without a swizzle, MN-major, the offsets change their names.
    const bool is_swapped = !is_k_major && mode == 0;
    const std::uint64_t bits = bits_of_descriptor(
        pattern + 32 * step, is_swapped ? placement.groups : placement.pieces,
        is_swapped ? placement.pieces : placement.groups, base, kSwizzles.at(mode));
    ASSERT_TRUE(check_matrix(bits, shape));
    const MatrixDescriptor descriptor = MatrixDescriptor::from_bits(bits);
    for (unsigned line = 0; line < shape.lines; ++line) {
      for (unsigned k = 0; k < shape.depth; ++k) {
        const unsigned along = k + 32 * step / static_cast<unsigned>(shape.element_bytes);
        ASSERT_EQ(address_of(descriptor, shape, line, k), pattern + placement.offset(line, along))
            << "mode " << mode << " K-major " << is_k_major << " line " << line << " k " << k;
      }
    }
  }
}

// Written out from the tables of the PTX ISA (5.5.7) and its example of MN-major, 32 bytes, bf16
// (9.7.15.5.1.2.1.3: ((8,2,2),(8,2)):((1,8,128),(16,256))).
TEST(MatrixDescriptor, KnowsThePublishedTables) {
  const MatrixShape rows{.lines = 8, .depth = 16, .element_bytes = 2};
  constexpr std::array<std::array<unsigned, 2>, 8> k32 = {
      {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {9, 8}, {11, 10}, {13, 12}, {15, 14}}};
  const auto wide = MatrixDescriptor::from_bits(bits_of_descriptor(0, 0, 0, 0, Swizzle::k32));
  for (unsigned line = 0; line < 8; ++line) {
    EXPECT_EQ(address_of(wide, rows, line, 0), k32.at(line)[0] * 16);
    EXPECT_EQ(address_of(wide, rows, line, 8), k32.at(line)[1] * 16);
  }
  const auto widest = MatrixDescriptor::from_bits(bits_of_descriptor(0x60, 0, 0, 0, Swizzle::k128));
  constexpr std::array<unsigned, 8> k128 = {6, 7, 4, 5, 2, 3, 0, 1};
  for (unsigned line = 0; line < 8; ++line) {
    EXPECT_EQ(address_of(widest, rows, line, 0), line * 128 + k128.at(line) * 16);
  }
  const MatrixShape columns{.lines = 32, .depth = 16, .element_bytes = 2, .is_k_major = false};
  const auto example =
      MatrixDescriptor::from_bits(bits_of_descriptor(0, 256, 512, 0, Swizzle::k32));
  EXPECT_EQ(address_of(example, columns, 9, 0), 18U);
  EXPECT_EQ(address_of(example, columns, 16, 0), 256U);
  EXPECT_EQ(address_of(example, columns, 1, 8), 514U);
  EXPECT_EQ(address_of(example, columns, 0, 4), 128U + 16);
}

TEST(MatrixDescriptor, RefusesWhatMeansNothing) {
  const MatrixShape shape{.lines = 64, .depth = 16, .element_bytes = 2};
  const MatrixShape transposed{.lines = 64, .depth = 16, .element_bytes = 2, .is_k_major = false};
  const std::uint64_t good = bits_of_descriptor(1024, 16, 1024, 0, Swizzle::k128);
  EXPECT_TRUE(check_matrix(good, shape));
  for (const unsigned bit : {14U, 15U, 30U, 31U, 46U, 47U, 48U, 52U, 57U, 61U}) {
    EXPECT_FALSE(check_matrix(good | std::uint64_t{1} << bit, shape)) << bit;
  }
  EXPECT_FALSE(check_matrix(bits_of_descriptor(1024, 16, 1024, 1, Swizzle::kNone), shape));
  EXPECT_TRUE(check_matrix(bits_of_descriptor(1040, 16, 1024, 0, Swizzle::kNone), shape));
  EXPECT_TRUE(check_matrix(bits_of_descriptor(1024 + 96, 16, 1024, 0, Swizzle::k128), shape));
  EXPECT_FALSE(check_matrix(bits_of_descriptor(1024 + 112, 16, 1024, 0, Swizzle::k128), shape));
  EXPECT_FALSE(check_matrix(bits_of_descriptor(1024 + 48, 16, 512, 0, Swizzle::k64), shape));
  EXPECT_TRUE(check_matrix(good, transposed));
  EXPECT_FALSE(check_matrix(bits_of_descriptor(1040, 16, 1024, 0, Swizzle::k128), transposed));
}

}  // namespace
}  // namespace emu
