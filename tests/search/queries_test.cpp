// Vectors of texts, photos and words to avoid against sums in long double, and what is refused.
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "fovea/error.hpp"
#include "fovea/search.hpp"

namespace fovea {
namespace {

std::vector<float> random_vectors(std::int64_t count, std::int64_t dimension, float scale = 1) {
  static std::mt19937 random{std::random_device{}()};
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(static_cast<std::size_t>(count * dimension));
  for (float& value : values) {
    value = normal(random);
  }
  return values;
}

void add(std::span<const float> vector, long double weight, std::vector<long double>& sum) {
  long double squares = 0;
  for (const float value : vector) {
    squares += static_cast<long double>(value) * value;
  }
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] += weight * vector[i] / std::sqrt(squares);
  }
}

std::string refusal(std::span<const float> queries, std::int64_t dimension,
                    const std::vector<QueryTerm>& terms) {
  try {
    (void)combine_queries(queries, dimension, terms);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(CombineQueries, EveryQueryHasEveryTerm) {
  for (const std::int64_t dimension : {1, 7, 64, 768}) {
    const auto width = static_cast<std::size_t>(dimension);
    // Numbers whose squares binary32 cannot hold count as others do.
    const std::vector<float> queries = random_vectors(5, dimension, 1e-30F);
    const std::vector<float> photo = random_vectors(1, dimension, 1e25F);
    const std::vector<float> avoided = random_vectors(1, dimension);
    const std::vector<QueryTerm> terms{{photo, 0.4}, {avoided, -0.7}};
    const std::vector<float> combined = combine_queries(queries, dimension, terms);
    ASSERT_EQ(combined.size(), queries.size());
    for (std::size_t query = 0; query < 5; ++query) {
      std::vector<long double> want(width);
      add(std::span(queries).subspan(query * width, width), 1, want);
      add(photo, 0.4L, want);
      add(avoided, -0.7L, want);
      for (std::size_t i = 0; i < width; ++i) {
        EXPECT_NEAR(combined[query * width + i], static_cast<double>(want[i]), 2e-7);
      }
    }
  }
}

TEST(CombineQueries, WhatIsLeftOfAQueryIsAVector) {
  const std::vector<float> query = random_vectors(1, 32);
  std::vector<float> longer = query;
  for (float& value : longer) {
    value *= 4;
  }
  EXPECT_EQ(refusal(query, 32, {{longer, -1}}),
            "query 0 and the terms cancel each other: nothing is left to search for");
  EXPECT_EQ(refusal(query, 32, {{longer, 1e300}}),
            "query 0 and the terms add up to more than a float holds: the weights are too large");
}

TEST(CombineQueries, RefusalsNameTheQueryOrTheTerm) {
  const std::vector<float> queries = random_vectors(3, 4);
  const std::vector<float> good = random_vectors(1, 4);
  const std::vector<float> short_one = random_vectors(1, 3);
  const std::vector<float> zeros(4);
  std::vector<float> broken = good;
  broken[2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(refusal(queries, 4, {{good}}), "none");
  EXPECT_EQ(refusal({}, 4, {{good}}), "none");
  EXPECT_EQ(refusal(queries, 4, {{good}, {short_one}}), "term 1 has 3 numbers, not 4");
  EXPECT_EQ(refusal(queries, 4, {{zeros}}), "term 0 is all zeros, so it has no direction");
  EXPECT_EQ(refusal(queries, 4, {{broken}}), "term 0 holds NaN or infinity");
  EXPECT_EQ(refusal(queries, 4, {{good, std::numeric_limits<double>::infinity()}}),
            "the weight of term 0 is inf, which is not finite");
  EXPECT_EQ(refusal(queries, 5, {}), "12 numbers are not a whole number of queries of 5 numbers");
  EXPECT_EQ(refusal(queries, 0, {}), "invalid dimension 0; it must be at least 1");
  std::vector<float> with_zeros = queries;
  with_zeros.insert(with_zeros.end(), 4, 0.0F);
  EXPECT_EQ(refusal(with_zeros, 4, {}), "query 3 is all zeros, so it has no direction");
}

}  // namespace
}  // namespace fovea
