// 16-bit float conversions, exhaustively where the domain allows.
#include "core/dtype.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace fovea {
namespace {

TEST(Float16, EveryValueSurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits <= 0xffffU; ++bits) {
    const Float16 value{static_cast<std::uint16_t>(bits)};
    const float wide = to_float(value);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(to_float(to_float16(wide))));
    } else {
      EXPECT_EQ(to_float16(wide).bits, value.bits) << bits;
    }
  }
}

TEST(Float16, RoundsToNearestEven) {
  EXPECT_EQ(to_float16(1.0F + 0x1p-11F).bits, 0x3c00);             // tie, down to even
  EXPECT_EQ(to_float16(1.0F + 3 * 0x1p-11F).bits, 0x3c02);         // tie, up to even
  EXPECT_EQ(to_float16(1.0F + 0x1p-11F + 0x1p-20F).bits, 0x3c01);  // above the tie
  EXPECT_EQ(to_float16(65519.0F).bits, 0x7bff);                    // largest finite
  EXPECT_EQ(to_float16(65520.0F).bits, 0x7c00);                    // rounds to infinity
  EXPECT_EQ(to_float16(0x1p-25F).bits, 0);                         // tie with zero
  EXPECT_EQ(to_float16(0x1.8p-25F).bits, 1);                       // smallest subnormal
  EXPECT_EQ(to_float16(-0x1p-24F).bits, 0x8001);
}

TEST(BFloat16, EveryValueSurvivesAndTiesGoToEven) {
  for (std::uint32_t bits = 0; bits <= 0xffffU; ++bits) {
    const BFloat16 value{static_cast<std::uint16_t>(bits)};
    const float wide = to_float(value);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(to_float(to_bfloat16(wide))));
    } else {
      EXPECT_EQ(to_bfloat16(wide).bits, value.bits) << bits;
    }
  }
  EXPECT_EQ(to_bfloat16(1.0F + 0x1p-8F).bits, 0x3f80);
  EXPECT_EQ(to_bfloat16(1.0F + 3 * 0x1p-8F).bits, 0x3f82);
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
}

TEST(Float8E4M3, EveryValueComesBack) {
  for (int bits = 0; bits < 256; ++bits) {
    const Float8E4M3 value{static_cast<std::uint8_t>(bits)};
    const float wide = to_float(value);
    if ((bits & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(wide));
      EXPECT_EQ(to_e4m3(wide).bits & 0x7f, 0x7f);
    } else {
      EXPECT_EQ(to_e4m3(wide).bits, value.bits) << bits;
    }
  }
  EXPECT_EQ(to_float(Float8E4M3{0x7e}), 448.0F);
  EXPECT_EQ(to_float(Float8E4M3{0x01}), 0x1p-9F);
  EXPECT_EQ(to_float(Float8E4M3{0xb8}), -1.0F);
}

TEST(Float8E4M3, RoundsToTheNearestTiesToEven) {
  for (int bits = 0; bits < 0x7e; ++bits) {  // neighbours, and the middle between them
    const float low = to_float(Float8E4M3{static_cast<std::uint8_t>(bits)});
    const float high = to_float(Float8E4M3{static_cast<std::uint8_t>(bits + 1)});
    const float middle = (low + high) / 2;
    EXPECT_EQ(to_e4m3(middle).bits, bits % 2 == 0 ? bits : bits + 1) << bits;
    EXPECT_EQ(to_e4m3(std::nextafter(middle, 0.0F)).bits, bits) << bits;
    EXPECT_EQ(to_e4m3(std::nextafter(middle, 1e9F)).bits, bits + 1) << bits;
    EXPECT_EQ(to_e4m3(-std::nextafter(middle, 1e9F)).bits, (bits + 1) | 0x80) << bits;
  }
  EXPECT_EQ(to_e4m3(1e9F).bits, 0x7e);
  EXPECT_EQ(to_e4m3(-std::numeric_limits<float>::infinity()).bits, 0xfe);
}

}  // namespace
}  // namespace fovea
