// Which descriptors of tcgen05.mma are refused, and what those that are not say.
#include "emulator/operations/umma_descriptor.hpp"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/emulator/tcgen05_reference.hpp"

namespace emu {
namespace {

using reference::UmmaCase;

std::string wrong(const UmmaCase& umma, std::uint32_t change = 0) {
  return check_instruction(umma.form(), umma.instruction() ^ change).reason;
}

UmmaCase case_of(UmmaKind kind, unsigned blocks, Element element) {
  UmmaCase umma;
  umma.kind = kind;
  umma.blocks = blocks;
  umma.a = umma.b = element;
  return umma;
}

TEST(UmmaDescriptor, HoldsItsFields) {
  UmmaCase umma = case_of(UmmaKind::kMxF8F6F4, 2, Element::kE5M2);
  umma.b = Element::kE2M1;
  umma.rows = 256;
  umma.columns = 208;
  umma.is_a_k_major = false;
  umma.is_b_negated = true;
  umma.scale_a_byte = 3;
  umma.scale_b_byte = 2;
  EXPECT_EQ(wrong(umma), "");
  const UmmaInstruction scaled = UmmaInstruction::from_bits(umma.form(), umma.instruction());
  EXPECT_EQ(scaled.a, Element::kE5M2);
  EXPECT_EQ(scaled.b, Element::kE2M1);
  EXPECT_EQ(scaled.accumulator, Accumulator::kF32);
  EXPECT_EQ(scaled.rows, 256U);
  EXPECT_EQ(scaled.columns, 208U);
  EXPECT_FALSE(scaled.is_a_k_major);
  EXPECT_TRUE(scaled.is_b_k_major);
  EXPECT_FALSE(scaled.is_a_negated);
  EXPECT_TRUE(scaled.is_b_negated);
  EXPECT_FALSE(scaled.is_saturating);
  EXPECT_EQ(scaled.scale_a_byte, 3U);
  EXPECT_EQ(scaled.scale_b_byte, 2U);
  EXPECT_EQ(scaled.shape_of_a(umma.form()).lines, 128U);
  EXPECT_EQ(scaled.shape_of_b(umma.form()).lines, 104U);
  EXPECT_EQ(scaled.shape_of_b(umma.form()).depth, 32U);

  UmmaCase whole = case_of(UmmaKind::kI8, 1, Element::kS8);
  whole.b = Element::kU8;
  whole.rows = 64;
  whole.is_saturating = true;
  const UmmaInstruction bytes = UmmaInstruction::from_bits(whole.form(), whole.instruction());
  EXPECT_EQ(bytes.a, Element::kS8);
  EXPECT_EQ(bytes.b, Element::kU8);
  EXPECT_EQ(bytes.accumulator, Accumulator::kS32);
  EXPECT_TRUE(bytes.is_saturating);
  EXPECT_EQ(bytes.scale_a_byte, 0U);
}

// Table 39 of the PTX ISA, written out.
TEST(UmmaDescriptor, KnowsTheShapes) {
  struct Shapes {
    UmmaKind kind;
    unsigned blocks;
    Element element;
    std::set<unsigned> rows;
    unsigned step;
    std::set<unsigned> more_columns;
  };
  const std::vector<Shapes> all = {{UmmaKind::kF16, 1, Element::kBF16, {64, 128}, 8, {}},
                                   {UmmaKind::kF16, 2, Element::kBF16, {128, 256}, 16, {}},
                                   {UmmaKind::kF8F6F4, 1, Element::kE4M3, {64, 128}, 8, {}},
                                   {UmmaKind::kF8F6F4, 2, Element::kE4M3, {128, 256}, 16, {}},
                                   {UmmaKind::kI8, 1, Element::kS8, {64, 128}, 16, {8, 24}},
                                   {UmmaKind::kI8, 2, Element::kS8, {128, 256}, 32, {}},
                                   {UmmaKind::kMxF8F6F4, 1, Element::kE4M3, {128}, 8, {}},
                                   {UmmaKind::kMxF8F6F4, 2, Element::kE4M3, {128, 256}, 16, {}}};
  for (const Shapes& shapes : all) {
    for (unsigned rows = 0; rows < 512; rows += shapes.kind == UmmaKind::kMxF8F6F4 ? 128 : 16) {
      for (unsigned columns = 0; columns < 512; columns += 8) {
        UmmaCase umma = case_of(shapes.kind, shapes.blocks, shapes.element);
        umma.rows = rows;
        umma.columns = columns;
        const bool is_there = shapes.rows.contains(rows) && columns > 0 && columns <= 256 &&
                              (columns % shapes.step == 0 || shapes.more_columns.contains(columns));
        ASSERT_EQ(wrong(umma).empty(), is_there)
            << int(shapes.kind) << ' ' << shapes.blocks << ' ' << rows << ' ' << columns;
        // Table 52: B of bytes, transposed.
        umma.is_b_k_major = false;
        const unsigned step = shapes.kind == UmmaKind::kF16 ? shapes.step : 16 * shapes.blocks;
        ASSERT_EQ(wrong(umma).empty(), shapes.rows.contains(rows) && columns > 0 &&
                                           columns <= 256 && columns % step == 0)
            << int(shapes.kind) << ' ' << shapes.blocks << ' ' << rows << ' ' << columns;
      }
    }
  }
  UmmaCase umma;
  umma.rows = 32;
  EXPECT_EQ(wrong(umma), "M is 32, but must be 64 or 128");
  umma.kind = UmmaKind::kMxF8F6F4;
  umma.rows = 256;
  EXPECT_EQ(wrong(umma), "M is 256, but must be 128");
  umma.rows = 128;
  umma.columns = 264;
  EXPECT_EQ(wrong(umma), "N is 264, but must be a multiple of 8 from 8 to 256");
}

TEST(UmmaDescriptor, RefusesWhatAKindHasNot) {
  const UmmaCase halves = case_of(UmmaKind::kF16, 1, Element::kF16);
  const UmmaCase small = case_of(UmmaKind::kF8F6F4, 1, Element::kE4M3);
  const UmmaCase bytes = case_of(UmmaKind::kI8, 1, Element::kS8);
  const UmmaCase scaled = case_of(UmmaKind::kMxF8F6F4, 1, Element::kE4M3);
  for (const UmmaCase& umma : {halves, small, bytes, scaled}) {
    EXPECT_EQ(wrong(umma), "");
    EXPECT_EQ(wrong(umma, 4), "a sparse A is not emulated");
    EXPECT_EQ(wrong(umma, 1U << 6U), "its reserved bits 0x40 must be 0");
  }
  for (const UmmaCase& umma : {halves, small, bytes}) {
    EXPECT_EQ(wrong(umma, 1U << 23U), "its reserved bits 0x800000 must be 0");
    EXPECT_EQ(wrong(umma, 1U << 29U), "its reserved bits 0x20000000 must be 0");
    EXPECT_EQ(wrong(umma, 1U << 30U), "it has a maximum shift, which only .ws supports");
  }
  EXPECT_EQ(wrong(scaled, 8), "its reserved bits 0x8 must be 0");
  EXPECT_EQ(wrong(scaled, 1U << 31U), "its reserved bits 0x80000000 must be 0");
  EXPECT_EQ(wrong(scaled, 1U << 24U), "its reserved bits 0x1000000 must be 0");
  EXPECT_EQ(wrong(scaled, 1U << 23U), "scales have type 0, but must have UE8M0 (1)");
  // Types.
  EXPECT_EQ(wrong(halves, 2U << 7U), "A's type 2 is reserved in this kind");
  EXPECT_EQ(wrong(halves, 5U << 10U), "B's type 5 is reserved in this kind");
  EXPECT_EQ(wrong(small, 2U << 7U), "A's type 2 is reserved in this kind");
  EXPECT_EQ(wrong(small, 5U << 7U), "");
  EXPECT_EQ(wrong(scaled, 6U << 10U), "B's type 6 is reserved in this kind");
  EXPECT_EQ(wrong(bytes, 3U << 7U), "A's type 2 is reserved in this kind");
  EXPECT_EQ(wrong(bytes, 3U << 4U), "D's type is 1, but must be S32 (2)");
  EXPECT_EQ(wrong(halves, 3U << 4U), "D's type is 2, but must be F16 (0) or F32 (1)");
  EXPECT_EQ(wrong(halves, 1U << 4U), "");
  EXPECT_EQ(wrong(case_of(UmmaKind::kF16, 1, Element::kBF16), 1U << 4U),
            "D is F16, but A or B is not");
  EXPECT_EQ(wrong(small, 1U << 4U), "");
  // Signs and ends.
  EXPECT_EQ(wrong(bytes, 1U << 13U), "A is negated, but integers cannot be");
  EXPECT_EQ(wrong(bytes, 1U << 14U), "B is negated, but integers cannot be");
  EXPECT_EQ(wrong(bytes, 8), "");
  EXPECT_EQ(wrong(halves, 8), "floats cannot saturate");
  // Majors.
  EXPECT_EQ(wrong(small, 3U << 15U), "");
  EXPECT_EQ(wrong(small, 5U << 7U | 1U << 15U),
            "A has elements of less than 8 bits, which cannot be transposed");
  EXPECT_EQ(wrong(small, 3U << 10U | 1U << 16U),
            "B has elements of less than 8 bits, which cannot be transposed");
  UmmaCase in_tensor_memory = small;
  in_tensor_memory.is_a_in_tensor_memory = true;
  EXPECT_EQ(wrong(in_tensor_memory), "");
  EXPECT_EQ(wrong(in_tensor_memory, 1U << 15U), "A is in tensor memory and cannot be transposed");
  EXPECT_EQ(wrong(in_tensor_memory, 4U << 7U),
            "A is in tensor memory with elements of less than 8 bits, which is not emulated");
}

TEST(UmmaDescriptor, RefusesMatricesThatMeanNothing) {
  const MatrixShape shape{.lines = 128, .depth = 32, .element_bytes = 1};
  // From 0x4000 on, 128 bytes wide, 1024 from one group of rows to the next.
  constexpr std::uint64_t kBits = 0x400 | 1ULL << 16U | 64ULL << 32U | 1ULL << 46U | 2ULL << 61U;
  const auto wrong_matrix = [&](std::uint64_t change) {
    return check_umma_matrix(kBits ^ change, shape).reason;
  };
  EXPECT_EQ(wrong_matrix(0), "");
  EXPECT_EQ(wrong_matrix(1ULL << 14U), "its reserved bits 0x4000 must be 0");
  EXPECT_EQ(wrong_matrix(1ULL << 31U), "its reserved bits 0x80000000 must be 0");
  EXPECT_EQ(wrong_matrix(1ULL << 53U), "its reserved bits 0x20000000000000 must be 0");
  EXPECT_EQ(wrong_matrix(1ULL << 60U), "its reserved bits 0x1000000000000000 must be 0");
  EXPECT_EQ(wrong_matrix(1ULL << 46U), "its bits 46-48 are 0, but must be 1");
  EXPECT_EQ(wrong_matrix(1ULL << 48U), "its bits 46-48 are 5, but must be 1");
  EXPECT_EQ(wrong_matrix(1ULL << 52U),
            "it gives the leading dimension as an address (bit 52), which only sm_103a supports");
  EXPECT_EQ(wrong_matrix(3ULL << 61U), "its swizzle, of 128 bytes in units of 32, is not emulated");
  EXPECT_EQ(wrong_matrix(1ULL << 61U), "its swizzle 3 is reserved");
  EXPECT_EQ(wrong_matrix(7ULL << 61U), "its swizzle 5 is reserved");
  EXPECT_EQ(wrong_matrix(5ULL << 61U), "its swizzle 7 is reserved");
  EXPECT_EQ(wrong_matrix(6ULL << 61U), "");  // 64 bytes
  EXPECT_EQ(wrong_matrix(4ULL << 61U), "");  // 32 bytes
  EXPECT_EQ(wrong_matrix(7),
            "32 contiguous bytes from 0x4070 on do not lie in one row of the swizzle of 128 "
            "bytes");
  EXPECT_EQ(wrong_matrix(6), "");
  EXPECT_EQ(wrong_matrix(2ULL << 61U | 1ULL << 49U), "it has a base offset without a swizzle");
}

}  // namespace
}  // namespace emu
