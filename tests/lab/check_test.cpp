// A whole check on the host, seed after seed: a kernel that is right, and one that leaves work
// undone.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/device/kernel_image.hpp"
#include "lab/check/check_cards.hpp"
#include "lab/repeating_device.hpp"

namespace fovea::lab {
namespace {

struct Outcome {
  int failed = 0;
  std::vector<SeedResult> seeds;
  std::vector<CheckResult> results;
};

Outcome check_with(std::int64_t missing) {
  RepeatingDevice device(missing);
  const std::vector<std::string> names = {"pixels_repeat"};
  CheckOptions options;
  options.seed = 5;
  options.seeds = 3;
  options.only_case = "rows3_width768";
  Outcome outcome;
  outcome.failed = check(
      device, find_cards(names), options,
      [&](const CheckResult& result) { outcome.results.push_back(result); },
      [&](const SeedResult& seed) { outcome.seeds.push_back(seed); });
  return outcome;
}

class CheckTest : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu::kernel_images().empty()) {
      GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
    }
  }
};

TEST_F(CheckTest, GoesFromSeedToSeed) {
  const Outcome outcome = check_with(0);
  EXPECT_EQ(outcome.failed, 0);
  ASSERT_EQ(outcome.seeds.size(), 3U);
  std::size_t checked = 0;
  for (std::size_t i = 0; i < outcome.seeds.size(); ++i) {
    EXPECT_EQ(outcome.seeds[i].seed, 5 + i);
    EXPECT_EQ(outcome.seeds[i].checked, 5);  // the kernel, two tiles spoiled, two mutants
    checked += static_cast<std::size_t>(outcome.seeds[i].checked);
  }
  EXPECT_EQ(outcome.results.size(), checked);
}

TEST_F(CheckTest, EveryFailureNamesItsSeed) {
  const Outcome outcome = check_with(1);
  std::vector<std::uint64_t> seeds;
  for (const CheckResult& result : outcome.results) {
    if (!result.passed) {
      EXPECT_NE(result.reason, "");
      seeds.push_back(result.seed);
    }
  }
  EXPECT_EQ(seeds, (std::vector<std::uint64_t>{5, 6, 7}));
  EXPECT_EQ(outcome.failed, 3);
}

}  // namespace
}  // namespace fovea::lab
