// Candidates as lines of a ledger, as answers of a proposer and as what `try` prints of them.
#include "lab/evolve/evolution.hpp"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lab/evolve/children.hpp"
#include "lab/evolve/evolve.hpp"

namespace fovea::lab {
namespace {

using Json = nlohmann::ordered_json;

TEST(Trials, AreTheSameFromALedger) {
  std::vector<Candidate> trials(2);
  trials[0].proposal.variant = {.kernel = "ring", .values = {{"stages", 2}}, .files = {}};
  trials[1] = {.number = 1,
               .generation = 1,
               .proposal = {.variant = {.kernel = "ring",
                                        .values = {{"stages", 3}},
                                        .files = {{"kernels/a.cuh", "int a;"}}},
                            .parents = {0},
                            .reason = "why not",
                            .refused = "no"},
               .outcome = {.valid = false, .failed_at = "small", .why = "wrong"},
               .kept = true,
               .leads = true,
               .cost_seconds = 2.5};
  const Json json = to_json(trials[1], trials);
  const Candidate read = trial_from(json);
  EXPECT_EQ(read.proposal.variant.files, trials[1].proposal.variant.files);
  EXPECT_EQ(read.proposal.reason + read.proposal.refused, "why notno");
  EXPECT_EQ(read.outcome.failed_at + read.outcome.why, "smallwrong");
  EXPECT_TRUE(read.kept && read.leads);
  EXPECT_EQ(to_json(read, trials), json);
}

TEST(Proposals, AreReadOrRefusedWithTheReason) {
  const std::vector<TuningSpace> spaces = {
      {.kernel = "ring",
       .plan = "ring",
       .family = "ring",
       .values = {{"head_dim", 64}, {"stages", 2}, {"columns", 64}},
       .ranges = {{"stages", {2, 3, 4, 5, 6}}, {"columns", {32, 64, 96}}}},
      {.kernel = "panel",
       .plan = "panel",
       .family = "panel",
       .values = {{"panels", 1}},
       .ranges = {}}};
  KernelSources sources = KernelSources::built_in();
  const std::string path = sources.files().begin()->first;
  const std::set<std::string> tried;
  std::vector<Candidate> trials(2);
  trials[0].proposal.variant = {.kernel = "ring", .values = spaces[0].values, .files = {}};
  trials[1].proposal.refused = "garbage";
  Situation situation;
  situation.spaces = spaces;
  situation.trials = trials;
  situation.tried = &tried;
  const auto read = [&](const std::string& answer) {
    return proposal_from(answer, situation, sources);
  };
  const Proposal good =
      read(R"({"parameters":{"stages":4},"files":{")" + path + R"(":"x"},"reason":"why not"})");
  EXPECT_EQ(good.refused, "");
  EXPECT_EQ(value_of(good.variant.values, "stages"), 4);
  EXPECT_EQ(value_of(good.variant.values, "columns"), 64);
  EXPECT_EQ(good.variant.files.at(path), "x");
  EXPECT_EQ(good.reason, "why not");
  EXPECT_EQ(read(R"({"kernel":"panel"})").variant.kernel, "panel");
  for (const auto& [answer, why] : std::vector<std::pair<std::string, std::string>>{
           {"garbage", "is not a JSON object: garbage"},
           {"[]", "is not a JSON object"},
           {"{}", "has neither"},
           {R"({"parameters":{"stages":7}})",
            "sets stages to 7, which is not one of 2, 3, 4, 5, 6"},
           {R"({"parameters":{"stages":2.5}})", "sets stages to 2.5"},
           {R"({"parameters":{"stages":"2"}})", "sets stages to \"2\""},
           {R"({"parameters":{"stages":1e300}})", "sets stages to"},
           {R"({"parameters":{"stages":4294967298}})", "sets stages to 4294967298"},
           {R"({"parameters":{"head_dim":128}})", "names a parameter 'head_dim'"},
           {R"({"parameters":[4]})", "not a JSON object"},
           {R"({"kernel":"none"})", "names a kernel 'none'"},
           {R"({"files":{"../../etc/passwd":""}})", "which is not one of the sources"},
           {R"({"files":{")" + path + R"(":5}})", "has no text for the file"},
           {R"({"files":7})", "not a JSON object"},
           {R"({"parent":-1,"kernel":"ring"})", "has the parent -1"},
           {R"({"parent":1,"kernel":"ring"})", "has the parent 1"},
           {R"({"parent":2,"kernel":"ring"})", "has the parent 2"},
           {R"({"parent":{},"kernel":"ring"})", "has the parent {}"}}) {
    EXPECT_NE(read(answer).refused.find(why), std::string::npos)
        << answer << ": " << read(answer).refused;
  }
}

TEST(Outcomes, AreReadFromWhatTryPrints) {
  const auto outcome = outcome_from_try(
      R"({"valid":true,"failed_at":null,"reason":"","seconds":0.004,"spread":0.00004,
          "baseline_seconds":0.005,"baseline_spread":0.0001,"speed_up":1.25})");
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->speed_up, 1.25);
  EXPECT_EQ(outcome->spread, 0.02);
  EXPECT_FALSE(outcome_from_try("").has_value());
  EXPECT_FALSE(outcome_from_try("Segmentation fault").has_value());
  EXPECT_FALSE(outcome_from_try("{}").has_value());
  const auto failed = outcome_from_try(R"({"valid":false,"failed_at":"small","reason":"wrong"})");
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->failed_at + failed->why, "smallwrong");
  EXPECT_TRUE(failed->failed());
  const auto unknown = outcome_from_try(R"({"valid":null,"failed_at":null,"reason":""})");
  ASSERT_TRUE(unknown.has_value());
  EXPECT_EQ(unknown->valid, std::nullopt);
  EXPECT_FALSE(unknown->failed());
  EXPECT_FALSE(outcome_from_try(R"({"valid":1,"failed_at":null})").has_value());
}

TEST(EvolveReport, MedianOfAnEvenNumberLiesBetweenTheTwo) {
  EvolveReport report;
  for (const double speed_up : {4.0, 1.0, 3.0, 2.0, 9.0}) {
    report.trials.emplace_back();
    report.trials.back().outcome.valid = speed_up < 9.0;
    report.trials.back().outcome.speed_up = speed_up;
  }
  EXPECT_EQ(report.median_speed_up(), 2.5);
  report.trials.erase(report.trials.begin());
  EXPECT_EQ(report.median_speed_up(), 2.0);
  EXPECT_EQ(EvolveReport().median_speed_up(), 0.0);
}

}  // namespace
}  // namespace fovea::lab
