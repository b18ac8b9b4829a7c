// Tensor maps: what is refused, what is encoded, and where the elements of boxes are, against a
// reference that goes through them one by one.
#include "fovea_emulator/tensor_map.hpp"

#include <array>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emulator/machine/tensor_map.hpp"
#include "fovea_emulator/error.hpp"
#include "tensor_reference.hpp"

namespace emu {
namespace {

TensorMapDesc matrix() {
  return {.type = TensorMapType::kBF16,
          .rank = 3,
          .address = 0x1000,
          .dims = {100, 30, 7},
          .strides = {208, 208 * 30},
          .box = {64, 8, 2},
          .swizzle = TensorMapSwizzle::k128};
}

// What encode() says of the map once it is changed; nothing if it takes it.
std::string refusal(const std::function<void(TensorMapDesc&)>& change) {
  TensorMapDesc desc = matrix();
  change(desc);
  try {
    encode(desc);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(TensorMapTest, TakesWhatTheDriverTakes) {
  EXPECT_EQ(refusal([](TensorMapDesc& /*desc*/) {}), "");
  EXPECT_EQ(refusal([](TensorMapDesc& desc) { desc.dims[0] = std::uint64_t{1} << 32U; }), "");
  EXPECT_EQ(refusal([](TensorMapDesc& desc) { desc.strides[1] = (std::uint64_t{1} << 40U) - 16; }),
            "");
  EXPECT_EQ(refusal([](TensorMapDesc& desc) { desc.box[2] = 256; }), "");
  EXPECT_EQ(refusal([](TensorMapDesc& desc) { desc.element_strides[2] = 8; }), "");
  EXPECT_EQ(refusal([](TensorMapDesc& desc) { desc.fill = TensorMapFill::kNan; }), "");
  EXPECT_EQ(refusal([](TensorMapDesc& desc) { desc.address = 0x1010; }), "");
  // What lies behind the rank may be anything.
  EXPECT_EQ(refusal([](TensorMapDesc& desc) {
              desc.rank = 2;
              desc.dims[2] = 0;
              desc.box[2] = 0;
              desc.element_strides[2] = 0;
              desc.strides[1] = 3;
            }),
            "");
  // Rows shorter than the swizzle's span, and without one any row.
  EXPECT_EQ(refusal([](TensorMapDesc& desc) { desc.box[0] = 8; }), "");
  EXPECT_EQ(refusal([](TensorMapDesc& desc) {
              desc.swizzle = TensorMapSwizzle::kNone;
              desc.box[0] = 256;
            }),
            "");
}

TEST(TensorMapTest, RefusesWhatTheDriverRefuses) {
  EXPECT_EQ(refusal([](TensorMapDesc& desc) { desc.rank = 0; }),
            "tensor map: it has 0 dimensions; from 1 to 5 are allowed");
  EXPECT_EQ(refusal([](TensorMapDesc& desc) { desc.rank = 6; }),
            "tensor map: it has 6 dimensions; from 1 to 5 are allowed");
  EXPECT_EQ(refusal([](TensorMapDesc& desc) { desc.address = 0x1008; }),
            "tensor map: its address 0x1008 is not a multiple of 16");
  EXPECT_EQ(refusal([](TensorMapDesc& desc) { desc.dims[2] = 0; }),
            "tensor map: dimension 2 has 0 elements; from 1 to 2^32 are allowed");
  EXPECT_EQ(refusal([](TensorMapDesc& desc) { desc.dims[1] = (std::uint64_t{1} << 32U) + 1; }),
            "tensor map: dimension 1 has 4294967297 elements; from 1 to 2^32 are allowed");
  EXPECT_EQ(refusal([](TensorMapDesc& desc) { desc.box[1] = 0; }),
            "tensor map: the box has 0 elements in dimension 1; from 1 to 256 are allowed");
  EXPECT_EQ(refusal([](TensorMapDesc& desc) { desc.box[1] = 257; }),
            "tensor map: the box has 257 elements in dimension 1; from 1 to 256 are allowed");
  EXPECT_EQ(refusal([](TensorMapDesc& desc) { desc.element_strides[1] = 0; }),
            "tensor map: the element stride of dimension 1 is 0; from 1 to 8 are allowed");
  EXPECT_EQ(refusal([](TensorMapDesc& desc) { desc.element_strides[1] = 9; }),
            "tensor map: the element stride of dimension 1 is 9; from 1 to 8 are allowed");
  EXPECT_EQ(refusal([](TensorMapDesc& desc) { desc.strides[0] = 200; }),
            "tensor map: the stride of dimension 1 is 200; multiples of 16 below 2^40 are allowed");
  EXPECT_EQ(refusal([](TensorMapDesc& desc) { desc.strides[1] = std::uint64_t{1} << 40U; }),
            "tensor map: the stride of dimension 2 is 1099511627776; multiples of 16 below 2^40 "
            "are allowed");
  EXPECT_EQ(refusal([](TensorMapDesc& desc) { desc.box[0] = 63; }),
            "tensor map: rows of its box have 126 bytes, not a multiple of 16");
  EXPECT_EQ(refusal([](TensorMapDesc& desc) { desc.box[0] = 72; }),
            "tensor map: rows of its box have 144 bytes, more than the 128 of its swizzle");
  EXPECT_EQ(refusal([](TensorMapDesc& desc) { desc.swizzle = TensorMapSwizzle::k64; }),
            "tensor map: rows of its box have 128 bytes, more than the 64 of its swizzle");
  EXPECT_EQ(refusal([](TensorMapDesc& desc) {
              desc.swizzle = TensorMapSwizzle::k32;
              desc.box[0] = 24;
            }),
            "tensor map: rows of its box have 48 bytes, more than the 32 of its swizzle");
  EXPECT_EQ(refusal([](TensorMapDesc& desc) {
              desc.type = TensorMapType::kU16;
              desc.fill = TensorMapFill::kNan;
            }),
            "tensor map: only floats can be filled with NaN");
  EXPECT_EQ(refusal([](TensorMapDesc& desc) { desc.type = static_cast<TensorMapType>(13); }),
            "tensor map: unknown type, swizzle or fill");
  EXPECT_EQ(refusal([](TensorMapDesc& desc) { desc.swizzle = static_cast<TensorMapSwizzle>(6); }),
            "tensor map: unknown type, swizzle or fill");
}

TEST(TensorMapTest, BoxesAreWhereEachElementIs) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    std::mt19937_64 random(seed);
    const TensorCase made = random_tensor_case(random);
    const TensorSources expected = expected_sources(made);
    TensorSources found;
    for (const CopyPiece& piece : split_box(made.desc, made.shared, made.coordinates, false)) {
      ASSERT_EQ(piece.shared % 16, 0U);
      for (std::uint32_t i = 0; i < piece.bytes; ++i) {
        const std::uint32_t address =
            swizzled_address(piece.shared + i / 16 * 16, made.desc.swizzle) + i % 16;
        const bool is_inside = i >= piece.first && i < piece.last;
        EXPECT_TRUE(
            found.emplace(address, is_inside ? piece.global + (i - piece.first) : 0).second);
      }
    }
    ASSERT_EQ(found, expected) << "seed " << seed;
    const BoxShape shape = box_shape(made.desc);
    EXPECT_EQ(shape.bytes(), expected.size());
    EXPECT_GE(expected.begin()->first, made.shared);
    EXPECT_LT(expected.rbegin()->first, made.shared + shape.extent());
  }
}

TEST(TensorMapTest, DecodesWhatItEncodes) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    TensorMapDesc desc = random_tensor_case(random).desc;
    const auto rank = static_cast<std::size_t>(desc.rank);
    if (seed % 4 == 0) {
      desc.dims.at(rank - 1) = std::uint64_t{1} << 32U;
      desc.box.at(rank - 1) = 256;
      desc.swizzle = TensorMapSwizzle::kNone;
      desc.strides.fill((std::uint64_t{1} << 40U) - 16);
    }
    const TensorMapDesc found = decode_tensor_map(encode(desc));
    EXPECT_EQ(found.type, desc.type);
    EXPECT_EQ(found.rank, desc.rank);
    EXPECT_EQ(found.address, desc.address);
    EXPECT_EQ(found.swizzle, desc.swizzle);
    EXPECT_EQ(found.fill, desc.fill);
    for (std::size_t i = 0; i < rank; ++i) {
      EXPECT_EQ(found.dims.at(i), desc.dims.at(i));
      EXPECT_EQ(found.box.at(i), desc.box.at(i));
      EXPECT_EQ(found.element_strides.at(i), desc.element_strides.at(i));
      if (i > 0) {
        EXPECT_EQ(found.strides.at(i - 1), desc.strides.at(i - 1));
      }
    }
  }
}

// One bit anywhere, and it is no map any more.
TEST(TensorMapTest, SeesThatAMapWasChanged) {
  const std::array<std::byte, kTensorMapBytes> map = encode(matrix());
  for (std::size_t bit = 0; bit < kTensorMapBytes * 8; ++bit) {
    auto changed = map;
    changed.at(bit / 8) ^= std::byte{static_cast<std::uint8_t>(1U << bit % 8)};
    EXPECT_THROW(decode_tensor_map(changed), Error) << bit;
  }
  EXPECT_THROW(decode_tensor_map(std::array<std::byte, kTensorMapBytes>{}), Error);
  EXPECT_THROW(decode_tensor_map(std::span(map).first(64)), Error);
}

TEST(TensorMapTest, FillsFloatsWithNan) {
  const auto filled = [](TensorMapType type, auto value) {
    const TensorMapDesc desc{.type = type, .fill = TensorMapFill::kNan};
    std::array<std::byte, sizeof(value)> bytes{};
    for (std::uint32_t i = 0; i < bytes.size(); ++i) {
      bytes.at(i) = fill_byte(desc, 16 + i);
    }
    std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  };
  EXPECT_EQ(filled(TensorMapType::kBF16, std::uint16_t{}), 0x7FFF);
  EXPECT_EQ(filled(TensorMapType::kF16, std::uint16_t{}), 0x7FFF);
  EXPECT_EQ(filled(TensorMapType::kF32, std::uint32_t{}), 0x7FFF'FFFFU);
  EXPECT_EQ(filled(TensorMapType::kF64, std::uint64_t{}), 0x7FFF'FFFF'FFFF'FFFFU);
  EXPECT_EQ(fill_byte({.type = TensorMapType::kF32}, 3), std::byte{0});
}

}  // namespace
}  // namespace emu
