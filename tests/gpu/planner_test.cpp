// Plans are made once for each problem, and of too many the oldest go.
#include "gpu/launch/planner.hpp"

#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace fovea::gpu {
namespace {

TEST(LruCache, KeepsWhatWasAskedForLast) {
  LruCache<int, std::string> cache(2);
  std::vector<int> made;
  const auto get = [&](int key) {
    return cache.get(key, [&] {
      made.push_back(key);
      return std::to_string(key);
    });
  };
  EXPECT_EQ(get(1), "1");
  EXPECT_EQ(get(2), "2");
  EXPECT_EQ(get(1), "1");
  EXPECT_EQ(get(3), "3");  // in place of 2
  EXPECT_EQ(get(1), "1");
  EXPECT_EQ(made, (std::vector{1, 2, 3}));
  EXPECT_EQ(get(2), "2");
  EXPECT_EQ(made, (std::vector{1, 2, 3, 2}));
  const auto fails = [&] {
    static_cast<void>(cache.get(4, []() -> std::string { fail("no value for 4"); }));
  };
  EXPECT_THROW(fails(), Error);
  EXPECT_EQ(get(4), "4");  // what failed was not kept
}

TEST(Planner, KnowsProblemsByAllThatTheyAre) {
  const DeviceInfo info{
      .name = "a GPU", .compute_major = 9, .sm_count = 132, .shared_bytes_per_block = 232448};
  Planner planner(info);
  GemmProblem problem{.m = 196, .n = 20, .k = 64};
  EXPECT_EQ(planner.gemm(problem).support.why, choose_gemm(problem, info).support.why);
  for (const bool norm : {false, true}) {
    problem.n = 2304;
    problem.row_norm = norm;
    EXPECT_EQ(planner.gemm(problem).plan, choose_gemm(problem, info).plan);
  }
  ops::AttentionProblem attention = ops::packed_attention(64, 196, 12, 64, 0.125, DType::kBF16);
  EXPECT_EQ(plan_level(planner.attention(attention).plan), AttentionLevel::kWgmma);
  EXPECT_EQ(plan_level(planner.attention(attention, AttentionLevel::kMma).plan),
            AttentionLevel::kMma);
  attention.varlen = true;
  EXPECT_EQ(plan_level(planner.attention(attention).plan), AttentionLevel::kMma);
  attention.varlen = false;
  setenv("FOVEA_FORCE_KERNEL", "scalar", 1);
  EXPECT_EQ(plan_level(planner.attention(attention).plan), AttentionLevel::kScalar);
  unsetenv("FOVEA_FORCE_KERNEL");
  EXPECT_EQ(plan_level(planner.attention(attention).plan), AttentionLevel::kWgmma);
}

}  // namespace
}  // namespace fovea::gpu
