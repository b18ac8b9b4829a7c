// The resized position table: its weights, and torch's numbers.
#include "ops/position.hpp"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace fovea::ops {
namespace {

TEST(AxisWeights, AddUpToOneWithinTheTable) {
  for (const std::int64_t table : {1, 2, 7, 16, 32}) {
    for (const std::int64_t positions : {1, 2, 5, 16, 17, 100, 256}) {
      const AxisWeights axis(table, positions);
      for (std::int64_t position = 0; position < positions; ++position) {
        const auto weights = axis.weights(position);
        EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0), 1.0, 1e-6);
        EXPECT_GE(axis.first(position), 0);
        EXPECT_LE(axis.first(position) + std::ssize(weights), table);
      }
    }
  }
}

// torch.nn.functional.interpolate(torch.tensor([[[[1., 2., 4., 8.]]]]), size=(1, n),
// mode="bilinear", align_corners=False, antialias=True), torch 2.13.
TEST(ResizedPositions, AreTorchs) {
  std::vector<float> table;  // the same in every row: 4 x 4 x 1
  for (int row = 0; row < 4; ++row) {
    table.insert(table.end(), {1, 2, 4, 8});
  }
  const auto check = [&](int width, const std::vector<float>& expected) {
    const ResizedPositions positions(table, 4, 1, {.height = 3, .width = width});
    for (int patch = 0; patch < 3 * width; ++patch) {
      float found = 0;
      positions.row(patch, &found);
      EXPECT_NEAR(found, expected[static_cast<std::size_t>(patch % width)], 1e-6F)
          << width << " patch " << patch;
    }
  };
  check(4, {1, 2, 4, 8});
  check(1, {3.625F});
  check(2, {1.857143F, 5.428572F});
  check(3, {1.3F, 3, 6.8F});
  check(6, {1, 1.5F, 2.333333F, 3.666667F, 6, 8});
}

TEST(ResizedPositions, AreTheTableItselfWhereItFits) {
  constexpr std::int64_t kWidth = 5;
  std::vector<float> table(9 * kWidth);
  std::iota(table.begin(), table.end(), 0.1F);
  const ResizedPositions positions(table, 3, kWidth, {.height = 3, .width = 3});
  std::vector<float> row(kWidth);
  for (std::int64_t patch = 0; patch < 9; ++patch) {
    positions.row(patch, row.data());
    EXPECT_TRUE(std::equal(row.begin(), row.end(), table.begin() + patch * kWidth)) << patch;
  }
}

}  // namespace
}  // namespace fovea::ops
