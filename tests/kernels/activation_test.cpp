// GELU as the epilogues compute it, on the host: against float64, and what becomes of NaN.
#include "kernels/epilogue/activation.cuh"

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/dtype.hpp"
#include "ops/reference/judge.hpp"
#include "ops/reference/rows.hpp"

namespace fovea::epilogue {
namespace {

const float kNan = std::numeric_limits<float>::quiet_NaN();

/// GELU of two numbers, by halves.
std::pair<float, float> gelu_of_two(float low, float high) {
  const std::uint32_t both = gelu_tanh_f16x2(ptx::cvt_f16x2(low, high), __float2half2_rn(0.5F));
  return {ptx::f16_low(both), ptx::f16_high(both)};
}

TEST(Activation, IsGelu) {
  std::vector<double> expected;
  std::vector<double> wide;
  std::vector<double> halves;
  for (float x = -12.0F; x < 12.0F; x += 0.037F) {
    expected.push_back(ops::reference::gelu_tanh(double{x}));
    wide.push_back(double{gelu_tanh(x)});
    halves.push_back(double{gelu_of_two(x, 1.0F).first});
  }
  using ops::reference::Compared;
  using ops::reference::tolerance_of;
  Compared row{.rows = 1, .columns = std::ssize(expected), .actual = wide, .expected = expected};
  EXPECT_EQ(judge(row, tolerance_of(DType::kF32)).reason, "");
  row.actual = halves;
  EXPECT_EQ(judge(row, tolerance_of(DType::kBF16)).reason, "");
  EXPECT_EQ(gelu_of_two(-std::numeric_limits<float>::infinity(), -60000.0F), std::pair(0.0F, 0.0F));
}

// A maximum that leaves out NaN would make it GELU(-240) = 0: a right-looking number.
TEST(Activation, NanStaysNan) {
  EXPECT_TRUE(std::isnan(gelu_tanh(kNan)));
  const auto [low, high] = gelu_of_two(kNan, 2.0F);
  EXPECT_TRUE(std::isnan(low));
  EXPECT_NEAR(high, 1.9546F, 2e-3F);
  EXPECT_TRUE(std::isnan(gelu_of_two(2.0F, kNan).second));
  EXPECT_TRUE(std::isnan(to_float(
      Float8E4M3{static_cast<std::uint8_t>(ptx::cvt_e4m3x2_f16x2(ptx::cvt_f16x2(low, 0.0F)))})));
}

TEST(Activation, IntegersAreStoredLessTheirOffset) {
  const auto stored = [](float value) {
    return static_cast<int>(static_cast<std::int8_t>(to_i8x2(ptx::cvt_f16x2(value, 7.0F))));
  };
  EXPECT_EQ(stored(0.0F), -kGeluOffset);
  EXPECT_EQ(stored(100.5F), 100 - kGeluOffset);  // to even
  EXPECT_EQ(stored(-8.0F), -8 - kGeluOffset);
  EXPECT_EQ(stored(1000.0F), 127);
  EXPECT_EQ(to_i8x2(ptx::cvt_f16x2(1.0F, 96.0F)) >> 8 & 0xffU, 0U);
}

}  // namespace
}  // namespace fovea::epilogue
