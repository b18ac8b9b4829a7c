// MXFP8: rounding in blocks, where the scales lie, products over blocks, and the mistakes that the
// judge must reject.
#include "ops/block_scales.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "fovea/error.hpp"
#include "ops/reference/reference_backend.hpp"
#include "ops/reference/tensors.hpp"
#include "tests/ops/compared.hpp"

namespace fovea::ops {
namespace {

std::vector<float> normal(std::int64_t count, float deviation, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> distribution(0.05F * deviation, deviation);
  std::vector<float> values(static_cast<std::size_t>(count));
  std::ranges::generate(values, [&] { return distribution(engine); });
  return values;
}

/// A matrix of kMXFP8 in memory.
class Matrix {
 public:
  Matrix(std::int64_t rows, std::int64_t width)
      : layout_{rows, width}, bytes_(matrix_bytes(DType::kMXFP8, rows, width)) {}
  Matrix(std::span<const float> values, std::int64_t rows, std::int64_t width)
      : Matrix(rows, width) {
    std::vector<double> row(static_cast<std::size_t>(width));
    for (std::int64_t r = 0; r < rows; ++r) {
      std::ranges::copy(values.subspan(static_cast<std::size_t>(r * width), row.size()),
                        row.begin());
      reference::store_row(view(), r, row);
    }
  }

  [[nodiscard]] TensorView view() {
    return {bytes_.data(), DType::kMXFP8, {layout_.rows, layout_.width}};
  }
  [[nodiscard]] std::uint8_t& scale(std::int64_t row, std::int64_t block) {
    return bytes_[static_cast<std::size_t>(layout_.offset() + layout_.place(row, block))];
  }
  [[nodiscard]] std::vector<float> values() {
    std::vector<float> all;
    for (std::int64_t i = 0; i < layout_.rows * layout_.width; ++i) {
      all.push_back(static_cast<float>(reference::load(view(), i)));
    }
    return all;
  }
  [[nodiscard]] const BlockScales& layout() const { return layout_; }

 private:
  BlockScales layout_;
  std::vector<std::uint8_t> bytes_;
};

TEST(BlockScale, IsTheLeastPowerWithWhichNothingSaturates) {
  for (const float largest : {1e-30F, 0.3F, 1.0F, 1.74F, 1.75F, 1.76F, 3.5F, 447.9F, 448.0F, 448.1F,
                              511.0F, 3e30F, std::numeric_limits<float>::max()}) {
    const double scale = to_float(block_scale(largest));
    EXPECT_LE(largest / scale, 448.0) << largest;
    EXPECT_GT(largest / scale, 224.0) << largest;
  }
  EXPECT_EQ(to_float(block_scale(448.0F)), 1.0F);
  EXPECT_EQ(to_float(block_scale(std::nextafter(448.0F, 500.0F))), 2.0F);
}

TEST(BlockScale, OfNothingAndOfWhatIsNotFinite) {
  EXPECT_EQ(block_scale(0.0F).bits, kNoBlock.bits);
  EXPECT_EQ(block_scale(std::numeric_limits<float>::denorm_min()).bits, 0);
  EXPECT_EQ(to_float(Float8E8M0{0}), 0x1p-127F);
  EXPECT_EQ(to_float(Float8E8M0{127}), 1.0F);
  EXPECT_EQ(to_float(Float8E8M0{254}), 0x1p127F);
  EXPECT_TRUE(std::isnan(to_float(Float8E8M0{255})));
  EXPECT_EQ(block_scale(INFINITY).bits, 255);

  // One NaN stays where it is; infinity leaves no number of its block.
  std::vector<float> values(32, 3.0F);
  std::vector<Float8E4M3> numbers(32);
  values[5] = NAN;
  const Float8E8M0 scale = round_block(values, numbers);
  EXPECT_TRUE(std::isnan(to_float(numbers[5])));
  EXPECT_EQ(to_float(numbers[6]) * to_float(scale), 3.0F);
  values[5] = -INFINITY;
  EXPECT_EQ(round_block(values, numbers).bits, 255);
}

TEST(BlockScale, RoundsToNearestEvenInUnitsOfTheBlock) {
  std::vector<float> values(32, 0.0F);
  std::vector<Float8E4M3> numbers(32);
  values = {448, 17, 19, 18, -18, 0.0009765625F, 0.0009765626F};
  numbers.resize(values.size());
  EXPECT_EQ(to_float(round_block(values, numbers)), 1.0F);
  std::vector<float> rounded;
  std::ranges::transform(numbers, std::back_inserter(rounded),
                         [](Float8E4M3 number) { return to_float(number); });
  EXPECT_EQ(rounded, (std::vector<float>{448, 16, 20, 18, -18, 0, 0x1p-9F}));
}

// As CUTLASS's SfAtom has it: ((32, 4), (32, 4)) : ((16, 4), (0, 1)).
TEST(BlockScales, LieInAtoms) {
  const BlockScales scales{.rows = 200, .width = 300};
  EXPECT_EQ(scales.blocks(), 10);
  EXPECT_EQ(scales.bytes(), 2 * 3 * 512);
  EXPECT_EQ(scales.place(0, 3), 3);
  EXPECT_EQ(scales.place(1, 0), 16);
  EXPECT_EQ(scales.place(31, 0), 31 * 16);
  EXPECT_EQ(scales.place(32, 0), 4);
  EXPECT_EQ(scales.place(127, 3), 31 * 16 + 3 * 4 + 3);
  EXPECT_EQ(scales.place(0, 4), 512);
  EXPECT_EQ(scales.place(128, 0), 3 * 512);
  EXPECT_EQ(scales.offset(), 200 * 300 + 416);
  EXPECT_EQ(matrix_bytes(DType::kMXFP8, 200, 300), 200U * 300 + 416 + 6 * 512);
  EXPECT_EQ(matrix_bytes(DType::kBF16, 200, 300), 200U * 300 * 2);

  std::set<std::int64_t> places;
  for (std::int64_t row = 0; row < scales.rows; ++row) {
    for (std::int64_t block = 0; block < scales.blocks(); ++block) {
      const std::int64_t place = scales.place(row, block);
      EXPECT_TRUE(place >= 0 && place < scales.bytes() && places.insert(place).second);
    }
  }
}

TEST(BlockScales, RoundAMatrixWithAShortBlockAtTheEnd) {
  constexpr std::int64_t kRows = 3;
  constexpr std::int64_t kWidth = 48;
  std::vector<float> values = normal(kRows * kWidth, 1.0F, 1);
  values[40] = 1000.0F;  // in the short block of row 0, and felt there alone
  const RoundedBlocks rounded = round_to_blocks(values, kRows, kWidth);
  ASSERT_EQ(rounded.scales.size(), 512U);
  const BlockScales layout{kRows, kWidth};
  const auto scale = [&](std::int64_t row, std::int64_t block) {
    return to_float(rounded.scales[static_cast<std::size_t>(layout.place(row, block))]);
  };
  EXPECT_EQ(scale(0, 1), 4.0F);
  EXPECT_LT(scale(0, 0), 0.02F);
  EXPECT_LT(scale(1, 1), 0.02F);
  EXPECT_EQ(rounded.scales[2].bits, kNoBlock.bits);  // row 0 has no block 2
  for (std::int64_t i = 0; i < kRows * kWidth; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const float unit = scale(i / kWidth, i % kWidth / 32);
    const float step = std::max(std::abs(values[at]) / 16, unit * 0x1p-10F);
    EXPECT_NEAR(to_float(rounded.numbers[at]) * unit, values[at], step) << i;
  }
}

// What decides between the two ways to choose a scale: that of section 6.3 of the specification
// saturates the largest of a block when it is above 448 of 512.
TEST(BlockScales, RoundingUpIsMoreAccurateThanTheSpecificationsExample) {
  const std::vector<float> values = normal(32 * 4096, 1.0F, 2);
  const auto error = [&](const std::function<float(float)>& choose) {
    double sum = 0;
    for (std::size_t first = 0; first < values.size(); first += 32) {
      const auto block = std::span(values).subspan(first, 32);
      float largest = 0;
      for (const float value : block) {
        largest = std::max(largest, std::abs(value));
      }
      const float scale = choose(largest);
      for (const float value : block) {
        const double off = double{to_float(to_e4m3(value / scale))} * scale - value;
        sum += off * off;
      }
    }
    return std::sqrt(sum / static_cast<double>(values.size()));
  };
  const double up = error([](float largest) { return to_float(block_scale(largest)); });
  const double down =
      error([](float largest) { return std::ldexp(1.0F, std::ilogb(largest) - 8); });
  EXPECT_NEAR(up, 0.0266, 0.0003);
  EXPECT_NEAR(down, 0.0293, 0.0003);
}

TEST(BlockScales, AreRefusedWhereNumbersStandAlone) {
  EXPECT_TRUE(valid(LayerNormProblem{.rows = 1, .width = 32, .output = DType::kMXFP8}));
  EXPECT_TRUE(valid(LinearProblem{.rows = 1, .in = 32, .out = 8, .input = DType::kMXFP8}));
  EXPECT_FALSE(
      valid(LayerNormProblem{.rows = 1, .width = 32, .output = DType::kMXFP8, .row_scales = true}));
  EXPECT_FALSE(valid(
      LinearProblem{.rows = 1, .in = 32, .out = 8, .input = DType::kMXFP8, .row_scales = true}));
  EXPECT_FALSE(
      valid(LinearProblem{.rows = 1, .in = 32, .out = 8, .input = DType::kMXFP8, .norm = true}));
  EXPECT_FALSE(valid(LinearProblem{
      .rows = 1, .in = 32, .out = 8, .epilogue = Epilogue::kResidual, .output = DType::kMXFP8}));
  Matrix matrix(1, 32);
  EXPECT_THROW(reference::store(matrix.view(), 0, 1.0), Error);
}

/// gelu(x W^T + bias) of operands in MXFP8, as the judge sees it.
class BlockProductTest : public testing::Test {
 protected:
  static constexpr std::int64_t kRows = 140;  // more than an atom
  static constexpr std::int64_t kIn = 336;    // ten blocks and a half
  static constexpr std::int64_t kOut = 80;

  BlockProductTest() {
    // Columns of other sizes, so that neighbouring blocks have other scales.
    std::vector<float> values = normal(kRows * kIn, 1.0F, 3);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] *= std::ldexp(1.0F, static_cast<int>(i % kIn / 32 * 5 % 7) - 3);
    }
    x_ = Matrix(values, kRows, kIn);
    weights_ = Matrix(normal(kOut * kIn, 0.02F, 4), kOut, kIn).values();
    bias_ = normal(kOut, 0.3F, 5);
  }

  [[nodiscard]] std::vector<double> product(Matrix& x, Epilogue epilogue) const {
    std::vector<double> y(static_cast<std::size_t>(kRows * kOut));
    reference::compute(LinearCall{{.rows = kRows,
                                   .in = kIn,
                                   .out = kOut,
                                   .epilogue = epilogue,
                                   .input = DType::kMXFP8,
                                   .output = DType::kF64},
                                  layer(),
                                  x.view(),
                                  {y.data(), DType::kF64, {kRows, kOut}}});
    return y;
  }

  [[nodiscard]] reference::Kept<LinearWeights> layer() const {
    return reference::Kept<LinearWeights>(
        {.in = kIn, .out = kOut, .weight = weights_, .bias = bias_});
  }

  /// What a right program writes in bf16.
  [[nodiscard]] static std::vector<double> in_bf16(std::vector<double> values) {
    for (double& value : values) {
      value = to_float(to_bfloat16(static_cast<float>(value)));
    }
    return values;
  }

  [[nodiscard]] reference::Verdict judged(Matrix x) const {
    const std::vector<double> expected = product(x_, Epilogue::kGeluTanh);
    return reference::judge({.rows = kRows,
                             .columns = kOut,
                             .type = DType::kBF16,
                             .actual = in_bf16(product(x, Epilogue::kGeluTanh)),
                             .expected = expected,
                             .framework = in_bf16(expected)},
                            reference::tolerance_of(DType::kBF16));
  }

  /// x with the scales that `of` chooses for each row and block.
  [[nodiscard]] Matrix with_scales(
      const std::function<std::uint8_t(std::int64_t, std::int64_t)>& of) const {
    Matrix changed = x_;
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t block = 0; block < changed.layout().blocks(); ++block) {
        changed.scale(row, block) = of(row, block);
      }
    }
    return changed;
  }

  mutable Matrix x_{1, 1};
  std::vector<float> weights_;
  std::vector<float> bias_;
};

TEST_F(BlockProductTest, IsThatOfTheNumbersTimesTheirScales) {
  const std::vector<float> x = x_.values();
  const std::vector<double> y = product(x_, Epilogue::kNone);
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t o = 0; o < kOut; ++o) {
      double sum = bias_[static_cast<std::size_t>(o)];
      for (std::int64_t i = 0; i < kIn; ++i) {
        sum += double{x[static_cast<std::size_t>(row * kIn + i)]} *
               double{weights_[static_cast<std::size_t>(o * kIn + i)]};
      }
      ASSERT_NEAR(y[static_cast<std::size_t>(row * kOut + o)], sum, 1e-12);
    }
  }
}

TEST_F(BlockProductTest, MistakesInTheScalesAreRejected) {
  const std::int64_t blocks = x_.layout().blocks();
  EXPECT_TRUE(judged(x_).passes()) << judged(x_).reason;
  EXPECT_FALSE(judged(with_scales([&](std::int64_t row, std::int64_t block) {
                 return x_.scale(row, (block + 1) % blocks);
               })).passes())
      << "scale of the neighbouring block";
  EXPECT_FALSE(judged(with_scales([&](std::int64_t row, std::int64_t block) {
                 return x_.scale((row + 1) % kRows, block);
               })).passes())
      << "scales of the neighbouring row";
  EXPECT_FALSE(judged(with_scales([&](std::int64_t row, std::int64_t block) {
                 return static_cast<std::uint8_t>(x_.scale(row, block) + (block == blocks - 1));
               })).passes())
      << "scale off by one power, in the short block alone";
  EXPECT_FALSE(judged(with_scales([&](std::int64_t row, std::int64_t block) {
                 const std::int64_t line = row * blocks + block;  // as if row by row
                 return x_.scale(line / 4 % kRows, line % 4);
               })).passes())
      << "scales permuted as if unswizzled";
  EXPECT_FALSE(judged(with_scales([&](std::int64_t row, std::int64_t block) {
                 return x_.scale(row, block / 2);  // the second half of a row has the first's
               })).passes())
      << "scales read as those of blocks of 16";
}

TEST_F(BlockProductTest, ResultsAreRoundedInBlocks) {
  Matrix y(kRows, kOut);
  const LinearProblem problem{.rows = kRows,
                              .in = kIn,
                              .out = kOut,
                              .epilogue = Epilogue::kGeluTanh,
                              .input = DType::kMXFP8,
                              .output = DType::kMXFP8};
  reference::compute(LinearCall{problem, layer(), x_.view(), y.view()});
  const std::vector<double> exact = product(x_, Epilogue::kGeluTanh);
  const std::vector<float> narrow(exact.begin(), exact.end());
  EXPECT_EQ(y.values(), Matrix(narrow, kRows, kOut).values());
}

}  // namespace
}  // namespace fovea::ops
