// Quantiles beside the values that numpy.quantile gives.
#include "core/quantile.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace fovea {
namespace {

TEST(Quantile, InterpolatesBetweenSortedValues) {
  EXPECT_EQ(quantile({5, 1, 3, 2, 4}, 0.0), 1);
  EXPECT_EQ(quantile({5, 1, 3, 2, 4}, 0.5), 3);
  EXPECT_EQ(quantile({5, 1, 3, 2, 4}, 1.0), 5);
  EXPECT_DOUBLE_EQ(quantile({5, 1, 3, 2, 4}, 0.01), 1.04);
  EXPECT_DOUBLE_EQ(quantile({2, 1}, 0.9), 1.9);
  EXPECT_EQ(quantile({7}, 0.9), 7);
}

TEST(Quantile, OfValuesThatAreNotAllNumbersIsNotOne) {
  EXPECT_TRUE(std::isnan(quantile({1, std::numeric_limits<double>::quiet_NaN(), 2}, 0.01)));
}

}  // namespace
}  // namespace fovea
