// Drawn tensors: reading, repetition and the changes that mutants make.
#include "lab/cards/tensor.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace fovea::lab {
namespace {

TEST(Tensor, RepeatsABlockWithoutRowsInStep) {
  const Tensor tensor = Tensor::random("a", DType::kE4M3, 20'000, 768, {0, 40}, 1);
  EXPECT_LT(tensor.block().size(), tensor.bytes());
  const auto period = static_cast<std::int64_t>(tensor.block().size());
  EXPECT_NE(period % 768, 0);
  const std::int64_t again = period + 5;  // element 5, one block later
  EXPECT_EQ(tensor.at(again / 768, again % 768), tensor.at(0, 5));
  std::vector<float> row(768);
  tensor.read(19'999LL * 768, row);
  for (std::int64_t column = 0; column < 768; ++column) {
    EXPECT_EQ(tensor.at(19'999, column), double{row[static_cast<std::size_t>(column)]});
  }
}

TEST(Tensor, DrawsWhatItWasAskedFor) {
  const Tensor tensor = Tensor::random("a", DType::kBF16, 300, 300, {0.5, 2.0}, 7);
  double sum = 0;
  double squares = 0;
  for (std::int64_t row = 0; row < 300; ++row) {
    for (std::int64_t column = 0; column < 300; ++column) {
      sum += tensor.at(row, column);
      squares += tensor.at(row, column) * tensor.at(row, column);
    }
  }
  const double mean = sum / 90'000;
  EXPECT_NEAR(mean, 0.5, 0.03);
  EXPECT_NEAR(std::sqrt(squares / 90'000 - mean * mean), 2.0, 0.03);
}

TEST(Tensor, NarrowTypesNeverHoldNan) {
  for (const DType type : {DType::kE4M3, DType::kU8, DType::kI8}) {
    const Tensor tensor = Tensor::random("a", type, 64, 64, {100, 1000}, 1);
    for (std::int64_t row = 0; row < 64; ++row) {
      for (std::int64_t column = 0; column < 64; ++column) {
        ASSERT_TRUE(std::isfinite(tensor.at(row, column)));
      }
    }
  }
}

TEST(Tensor, RearrangedAsMutantsDo) {
  const std::vector<double> values = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const Tensor tensor = Tensor::from_values("t", DType::kF32, 3, 4, values);
  EXPECT_EQ(tensor.rows_moved(1).at(0, 2), 6.0);
  EXPECT_EQ(tensor.rows_moved(1).at(2, 2), 2.0);
  EXPECT_EQ(Tensor::from_values("t", DType::kF32, 1, 4, std::vector<double>{1, 1.01, 7, 7.5})
                .neighbours_swapped()
                .row(0),
            (std::vector<float>{1, 7, 1.01F, 7.5}));
  const Tensor swapped = tensor.columns_swapped(0, 2, 2);
  EXPECT_EQ(swapped.at(1, 0), 6.0);
  EXPECT_EQ(swapped.at(1, 3), 5.0);
}

TEST(Tensor, EncodesEveryTypeItDecodes) {
  for (const DType type : {DType::kE4M3, DType::kF16, DType::kBF16, DType::kF32}) {
    EXPECT_EQ(rounded(type, 1.5), 1.5F);
    EXPECT_EQ(rounded(type, -0.25), -0.25F);
    EXPECT_TRUE(std::isnan(rounded(type, std::numeric_limits<double>::quiet_NaN())));
  }
  EXPECT_EQ(rounded(DType::kU8, 254.6), 255.0F);
  EXPECT_EQ(rounded(DType::kI8, -300.0), -127.0F);
}

}  // namespace
}  // namespace fovea::lab
