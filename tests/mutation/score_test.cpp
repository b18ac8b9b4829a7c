// The mutation score: what it counts, and what it says of mutants of a kernel.
#include "lab/mutation/score.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "fovea/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "lab/cards/card.hpp"

namespace fovea::mutation {
namespace {

MutantResult result_of(const std::string& kind, Fate fate) {
  return {.mutant = {.kernel = "one", .kind = kind, .line = 3}, .fate = fate};
}

TEST(MutationScoreTest, WhatNoCaseReachesDoesNotCount) {
  const std::vector<MutantResult> results = {
      result_of("b", Fate::kCaught), result_of("a", Fate::kSurvived), result_of("b", Fate::kCaught),
      result_of("a", Fate::kNotReached)};
  EXPECT_DOUBLE_EQ(share_caught(results), 2.0 / 3.0);
  const std::string table = score_table(results);
  EXPECT_LT(table.find("\na "), table.find("\nb "));
  EXPECT_NE(table.find("     0       1           1\n"), std::string::npos) << table;
  EXPECT_NE(table.find("     2       3           1\n"), std::string::npos) << table;
  const auto json = nlohmann::json::parse(to_json({.schedules = 7}, results));
  EXPECT_EQ(json["schedules"], 7);
  EXPECT_EQ(json["mutants"].size(), 4U);
  EXPECT_EQ(json["mutants"][1]["fate"], "survived");
  EXPECT_DOUBLE_EQ(share_caught({}), 1.0);
}

class KernelScoreTest : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu::find_kernel_image("layer_norm_bf16_3", 90) == nullptr) {
      GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
    }
  }

  static std::vector<MutantResult> score_of(const ScoreOptions& options) {
    const std::vector<std::string> names = {"layer_norm"};
    return score(lab::find_cards(names), options, [](const MutantResult& /*result*/) {});
  }
};

TEST_F(KernelScoreTest, ABarrierAndTheWaitForTheGridBeforeAreMissed) {
  const std::vector<MutantResult> results =
      score_of({.schedules = 10, .only_kernel = "layer_norm_bf16_3"});
  std::set<std::string> kinds;
  for (const MutantResult& result : results) {
    kinds.insert(result.mutant.kind);
    EXPECT_EQ(result.fate, Fate::kCaught) << result.mutant.kind << ' ' << result.mutant.line;
    EXPECT_NE(result.reason.find("race"), std::string::npos) << result.reason;
    EXPECT_FALSE(result.mutant.source.empty());
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"no bar.sync", "no griddepcontrol.wait"}));
}

TEST_F(KernelScoreTest, AsManyAsAreAskedForAndTheSameAgain) {
  const ScoreOptions options{.seed = 3, .schedules = 1, .limit = 1};
  const std::vector<MutantResult> first = score_of(options);
  EXPECT_EQ(first.size(), 3U);  // of each of its kernels
  const std::vector<MutantResult> again = score_of(options);
  EXPECT_TRUE(std::ranges::equal(
      first, again, {},
      [](const MutantResult& result) { return std::pair(result.mutant.line, result.reason); },
      [](const MutantResult& result) { return std::pair(result.mutant.line, result.reason); }));
}

TEST_F(KernelScoreTest, ALineWithNothingToChangeIsAnError) {
  EXPECT_THROW(static_cast<void>(score_of({.only_line = 1})), Error);
}

}  // namespace
}  // namespace fovea::mutation
