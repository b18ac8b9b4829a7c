// Folding, rounding and packing of weights, on the host.
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "fovea/error.hpp"
#include "gpu/gpu_weights.hpp"
#include "gpu/launch/gemm.hpp"
#include "gpu/launch/pool.hpp"
#include "ops/block_scales.hpp"
#include "ops/rounding.hpp"

namespace fovea::gpu {
namespace {

std::vector<float> random_values(std::size_t count, std::uint32_t seed, float deviation = 1.0F) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, deviation);
  std::vector<float> values(count);
  for (float& value : values) {
    value = normal(generator);
  }
  return values;
}

double weight_at(const PackedLinear& packed, std::size_t index) {
  switch (packed.type) {
    case DType::kBF16: {
      BFloat16 value;
      std::memcpy(&value.bits, packed.weight.data() + index * 2, 2);
      return to_float(value);
    }
    case DType::kE4M3:
      return to_float(Float8E4M3{static_cast<std::uint8_t>(packed.weight[index])});
    default:
      return static_cast<std::int8_t>(packed.weight[index]);
  }
}

TEST(PackLinearTest, ScaledWeightsAreCloseAndReachTheLargestNumber) {
  constexpr std::size_t kIn = 32;
  constexpr std::size_t kOut = 5;
  const std::vector<float> weight = random_values(kIn * kOut, 1);
  const std::vector<float> bias = random_values(kOut, 2);
  for (const DType input : {DType::kBF16, DType::kE4M3, DType::kI8, DType::kU8}) {
    SCOPED_TRACE(to_string(input));
    const PackedLinear packed = pack_linear({.in = kIn,
                                             .out = kOut,
                                             .weight = weight,
                                             .bias = bias,
                                             .input = {.type = input, .scale = 0.5F}});
    EXPECT_EQ(packed.type, weight_type(input));
    EXPECT_EQ(packed.bias, bias);
    for (std::size_t o = 0; o < kOut; ++o) {
      // The input's scale is in the column's: y = column_scale * (stored input . weight).
      const double scale = packed.type == DType::kBF16 ? 1.0 : packed.column_scale[o] / 0.5;
      double largest = 0;
      for (std::size_t i = 0; i < kIn; ++i) {
        const double stored = weight_at(packed, o * kIn + i);
        largest = std::max(largest, std::abs(stored));
        const double step =
            packed.type == DType::kI8 ? scale * 0.51 : 0.07 * std::abs(weight[o * kIn + i]);
        EXPECT_NEAR(stored * scale, weight[o * kIn + i], step + 1e-6);
      }
      if (packed.type != DType::kBF16) {
        EXPECT_EQ(largest, packed.type == DType::kI8 ? 127 : 448);
      }
    }
  }
}

TEST(PackLinearTest, Mxfp8HasAPowerForEach32Inputs) {
  constexpr std::int64_t kIn = 336;
  constexpr std::int64_t kOut = 130;  // more than an atom
  std::vector<float> weight = random_values(kIn * kOut, 5, 0.03F);
  weight[40] = 100.0F;  // too large for others' steps, were they not of blocks of their own
  const std::vector<float> bias = random_values(kOut, 6);
  ops::LinearWeights weights{
      .in = kIn, .out = kOut, .weight = weight, .bias = bias, .input = {.type = DType::kMXFP8}};
  const PackedLinear packed = pack_linear(weights);
  EXPECT_EQ(packed.type, DType::kMXFP8);
  EXPECT_EQ(packed.bias, bias);
  EXPECT_TRUE(packed.column_scale.empty());
  const ops::BlockScales layout{kOut, kIn};
  ASSERT_EQ(packed.weight.size(), static_cast<std::size_t>(kIn * kOut));
  ASSERT_EQ(packed.block_scales.size(), static_cast<std::size_t>(layout.bytes()));
  for (std::int64_t i = 0; i < kIn * kOut; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto place = static_cast<std::size_t>(layout.place(i / kIn, i % kIn / 32));
    const double scale = to_float(packed.block_scales[place]);
    const double value = scale * to_float(Float8E4M3{static_cast<std::uint8_t>(packed.weight[at])});
    ASSERT_NEAR(value, weight[at], std::max(0.0626 * std::abs(weight[at]), scale * 0x1p-10)) << i;
  }
  const std::vector<std::uint8_t> rounded(weight.size());
  weights.rounded = rounded;
  EXPECT_THROW((void)pack_linear(weights), Error);
}

TEST(PackLinearTest, TakesWhatCalibrationHasRounded) {
  const std::vector<float> weight = random_values(32, 3);
  const std::vector<float> bias{0.25F, -1.0F};
  std::vector<std::uint8_t> rounded(32);
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    rounded[i] = static_cast<std::uint8_t>(i * 7);
  }
  const std::vector<float> scale{0.01F, 0.02F};
  const PackedLinear packed = pack_linear({.in = 16,
                                           .out = 2,
                                           .weight = weight,
                                           .bias = bias,
                                           .input = {.type = DType::kI8, .scale = 3.0F},
                                           .rounded = rounded,
                                           .rounded_scale = scale});
  EXPECT_EQ(std::memcmp(packed.weight.data(), rounded.data(), rounded.size()), 0);
  EXPECT_FLOAT_EQ(packed.column_scale[0], 0.03F);
  EXPECT_FLOAT_EQ(packed.column_scale[1], 0.06F);
}

// The product takes the numbers as they are stored: what their offset adds is taken back.
TEST(PackLinearTest, TheOffsetOfInputsGoesIntoTheBias) {
  constexpr std::size_t kIn = 16;
  constexpr float kScale = 0.03F;
  const std::vector<float> weight = random_values(kIn * 2, 3);
  const std::vector<float> bias{0.25F, -1.0F};
  const PackedLinear packed =
      pack_linear({.in = kIn,
                   .out = 2,
                   .weight = weight,
                   .bias = bias,
                   .input = {.type = DType::kI8, .scale = kScale, .offset = 96}});
  for (std::size_t o = 0; o < 2; ++o) {
    double stored_product = 0;
    double product = bias[o];
    for (std::size_t i = 0; i < kIn; ++i) {
      const double stored = 5.0 * static_cast<double>(i) - 96.0;
      stored_product += stored * weight_at(packed, o * kIn + i);
      product += (stored + 96.0) * packed.column_scale[o] * weight_at(packed, o * kIn + i);
    }
    EXPECT_NEAR(stored_product * packed.column_scale[o] + packed.bias[o], product, 1e-4);
  }
  EXPECT_THROW((void)pack_linear({.in = kIn,
                                  .out = 2,
                                  .weight = weight,
                                  .bias = bias,
                                  .input = {.type = DType::kE4M3, .offset = 96}}),
               Error);
  EXPECT_THROW((void)pack_linear({.in = kIn,
                                  .out = 2,
                                  .weight = weight,
                                  .bias = bias,
                                  .input = {.type = DType::kI8},
                                  .output = {.type = DType::kI8, .offset = 0}}),
               Error);
}

/// What the kernel makes of a packed layer and a row: scale * (x . weight) + shift * sum + bias.
double folded(const PackedLinear& packed, std::size_t output, const std::vector<double>& x,
              double scale, double shift) {
  double product = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    product += x[i] * weight_at(packed, output * x.size() + i);
  }
  return scale * product + shift * packed.column_sum[output] + packed.bias[output];
}

TEST(PackLinearTest, FoldsTheNormBeforeIt) {
  constexpr std::size_t kIn = 256;
  constexpr std::size_t kOut = 6;
  const std::vector<float> weight = random_values(kIn * kOut, 8, 0.1F);
  const std::vector<float> bias = random_values(kOut, 9);
  const std::vector<float> gamma = random_values(kIn, 10);
  const std::vector<float> beta = random_values(kIn, 11);
  const PackedLinear packed = pack_linear({.in = kIn,
                                           .out = kOut,
                                           .weight = weight,
                                           .bias = bias,
                                           .input = {.type = DType::kBF16},
                                           .norm = {.weight = gamma, .bias = beta}});
  const std::vector<float> drawn = random_values(kIn, 12, 3.0F);
  std::vector<double> x(drawn.begin(), drawn.end());
  double mean = 0;
  for (double& value : x) {
    value += 40;
    mean += value / kIn;
  }
  double variance = 0;
  for (const double value : x) {
    variance += (value - mean) * (value - mean) / kIn;
  }
  const double scale = 1 / std::sqrt(variance);
  for (std::size_t o = 0; o < kOut; ++o) {
    double want = bias[o];
    for (std::size_t i = 0; i < kIn; ++i) {
      want += weight[o * kIn + i] * ((x[i] - mean) * scale * gamma[i] + beta[i]);
    }
    // Rounding the weights costs 2^-9 of each of 256 terms of about 0.1.
    EXPECT_NEAR(folded(packed, o, x, scale, -mean * scale), want, 0.01);
    // A row that is all mean leaves nothing: the sums are those of the rounded weights.
    double constant = bias[o];
    for (std::size_t i = 0; i < kIn; ++i) {
      constant += double{weight[o * kIn + i]} * beta[i];
    }
    EXPECT_NEAR(folded(packed, o, std::vector<double>(kIn, 1000.0), 1.0, -1000.0), constant, 1e-3);
  }
}

TEST(PackLinearTest, FoldsNoNormIntoEightBits) {
  const std::vector<float> values(16, 1.0F);
  const std::span<const float> one = std::span(values).first(1);
  EXPECT_THROW((void)pack_linear({.in = 16,
                                  .out = 1,
                                  .weight = values,
                                  .bias = one,
                                  .input = {.type = DType::kI8},
                                  .norm = {.weight = values, .bias = values}}),
               Error);
}

TEST(PackPatchEmbedTest, FoldedFormsGiveTheFormula) {
  constexpr std::size_t kPatch = 2 * 2 * 3;
  constexpr std::size_t kHidden = 16;
  constexpr std::size_t kTokens = 2;
  const std::vector<float> weight = random_values(kPatch * kHidden, 4);
  const std::vector<float> bias = random_values(kHidden, 5);
  const std::vector<float> position = random_values(kTokens * kHidden, 6);
  const ops::PatchEmbedWeights weights{
      .projection = {.in = kPatch, .out = kHidden, .weight = weight, .bias = bias},
      .position = position,
      .scale = {0.01, 0.02, 0.03},
      .shift = {-1.0, -0.5, 0.25}};
  const std::vector<double> pixels{0, 255, 17, 99, 128, 3, 250, 60, 200, 1, 77, 180};
  for (const DType type : {DType::kBF16, DType::kU8}) {
    SCOPED_TRACE(to_string(type));
    const PackedPatchEmbed packed = pack_patch_embed(weights, type);
    EXPECT_EQ(packed.depth, type == DType::kBF16 ? 16 : 12);  // rows of whole 16-byte units
    const auto depth = static_cast<std::size_t>(packed.depth);
    for (std::size_t o = 0; o < kHidden; ++o) {
      double want = bias[o] + position[kHidden + o];
      double got = packed.position[kHidden + o];
      const double column = type == DType::kU8 ? packed.projection.column_scale[o] : 1.0;
      for (std::size_t i = 0; i < kPatch; ++i) {
        want += weight[o * kPatch + i] * (pixels[i] * weights.scale[i % 3] + weights.shift[i % 3]);
        const double pixel = type == DType::kU8 ? pixels[i] : pixels[i] - ops::kPixelCentre;
        got += column * weight_at(packed.projection, o * depth + i) * pixel;
      }
      EXPECT_NEAR(got, want, type == DType::kU8 ? 0.3 : 0.1);
      for (std::size_t i = kPatch; i < depth; ++i) {
        EXPECT_EQ(weight_at(packed.projection, o * depth + i), 0.0);
      }
    }
  }
}

TEST(PackPoolKeysTest, HeadsThatAModelDoesNotHaveAreZeros) {
  constexpr std::size_t kHeads = 12;
  constexpr std::size_t kHidden = 32;
  const std::vector<float> keys = random_values(kHeads * kHidden, 7);
  const PackedPoolKeys packed = pack_pool_keys(keys, kHidden);
  ASSERT_EQ(packed.keys.size(), 16 * kHidden);
  ASSERT_EQ(packed.sums.size(), 16U);
  for (std::size_t head = 0; head < 16; ++head) {
    double sum = 0;
    for (std::size_t i = head * kHidden; i < (head + 1) * kHidden; ++i) {
      EXPECT_EQ(packed.keys[i].bits, head < kHeads ? to_bfloat16(keys[i]).bits : 0);
      sum += double{to_float(packed.keys[i])};
    }
    EXPECT_EQ(packed.sums[head], static_cast<float>(sum));
  }
}

}  // namespace
}  // namespace fovea::gpu
