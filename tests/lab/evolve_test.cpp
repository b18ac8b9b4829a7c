// Evolution over landscapes that are known: what is proposed, kept, confirmed and gone on with.
#include "lab/evolve/evolve.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/error.hpp"
#include "lab/evolve/children.hpp"
#include "lab/evolve/tuning_draw.hpp"

namespace fovea::lab {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::vector<TuningSpace> two_designs() {
  return {{.kernel = "ring",
           .plan = "ring",
           .family = "ring",
           .values = {{"head_dim", 64}, {"stages", 2}, {"columns", 64}, {"warps", 4}, {"ahead", 0}},
           .ranges = {{"stages", {2, 3, 4, 5, 6}},
                      {"columns", {32, 64, 96, 128, 160, 192}},
                      {"warps", {1, 2, 4, 8}},
                      {"ahead", {0, 2, 4}}}},
          {.kernel = "panel",
           .plan = "panel",
           .family = "panel",
           .values = {{"panels", 1}, {"stages", 3}},
           .ranges = {{"panels", {1, 2, 3, 4}}, {"stages", {2, 3, 4, 5}}}}};
}

/// Rises by a few percent a step to 1.35 at stages 5, columns 160, warps 8; panels are slower.
double smooth(const Variant& variant) {
  if (variant.kernel == "panel") {
    return 0.8 + 0.02 * value_of(variant.values, "panels");
  }
  const double away = std::abs(value_of(variant.values, "stages") - 5) +
                      std::abs(value_of(variant.values, "columns") - 160) / 32.0 +
                      (value_of(variant.values, "warps") == 8 ? 0 : 1);
  return 1.35 - 0.05 * away;
}

double flat(const Variant& /*variant*/) {
  return 1.0;
}

/// Measures a landscape, with noise that a seed draws.
class Landscape : public Evaluator {
 public:
  std::function<double(const Variant&)> speed = smooth;
  std::function<std::string(const Variant&)> fault = [](const Variant&) { return ""; };
  double noise = 0.0;
  std::uint64_t noise_seed = 1;
  std::vector<Hint> told;
  int asked = 0;
  int profiled = 0;
  int interrupt_at = -1;
  std::vector<std::uint64_t> seeds;

  CandidateOutcome evaluate(const Variant& variant, std::uint64_t seed) override {
    seeds.push_back(seed);
    if (asked++ == interrupt_at) {
      throw Interrupted();
    }
    if (const std::string why = fault(variant); !why.empty()) {
      return {.valid = false, .failed_at = why == "crash" ? "process" : "compile", .why = why};
    }
    std::uint64_t mixed = (std::hash<std::string>()(change_between({}, {variant.kernel, {}, {}}) +
                                                    values_json(variant.values).dump()) ^
                           (noise_seed * 0x9E3779B97F4A7C15ULL)) +
                          seed * 0xBF58476D1CE4E5B9ULL;
    mixed = (mixed ^ (mixed >> 31U)) * 0x94D049BB133111EBULL;
    const double drawn = static_cast<double>(mixed >> 40U) / (1U << 24U) * 2 - 1;  // -1 to 1
    const double speed_up = speed(variant) * (1 + noise * drawn);
    return {.valid = true,
            .failed_at = "",
            .why = "",
            .seconds = 1e-3 / speed_up,
            .spread = noise,
            .baseline_seconds = 1e-3,
            .speed_up = speed_up};
  }
  std::vector<Hint> findings(const Variant& /*variant*/, std::string& missing) override {
    ++profiled;
    missing = told.empty() ? "no profiler" : "";
    return told;
  }
};

/// A ledger's path that is free.
class EvolveTest : public testing::Test {
 protected:
  void SetUp() override {
    // Memory is the place where that can be: these tests write thousands of lines to the disk, one
    // by one.
    const fs::path memory = "/dev/shm";
    const fs::path where =
        ::access(memory.c_str(), W_OK) == 0 ? memory : fs::path(testing::TempDir());
    std::string pattern = (where / "fovea-evolve-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = (folder_ / "ledger.jsonl").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  EvolveSetup setup(std::uint64_t seed, PopulationKind kind = PopulationKind::kBest) const {
    EvolveSetup made;
    made.spaces = spaces_;
    made.start = {.kernel = "ring", .values = spaces_.front().values, .files = {}};
    made.population = kind;
    made.seed = seed;
    made.budget = {.trials = 100, .seconds = 0};
    made.now = [] { return 0.0; };
    made.header = {{"kind", "run"},
                   {"seed", seed},
                   {"population", to_string(kind)},
                   {"baseline", {{"kernel", "ring"}}}};
    return made;
  }
  EvolveReport run(const EvolveSetup& made, Evaluator& evaluator, bool resume = false) const {
    DrawnProposer proposer(made.seed, made.population, illegal_);
    Ledger ledger(path_, resume);
    return evolve(made, evaluator, proposer, ledger);
  }
  EvolveReport run_anew(const EvolveSetup& made, Evaluator& evaluator) const {
    fs::remove(path_);
    return run(made, evaluator);
  }
  std::string text() const {
    std::ostringstream whole;
    whole << std::ifstream(path_).rdbuf();
    return whole.str();
  }

  fs::path folder_;
  std::string path_;
  std::vector<TuningSpace> spaces_ = two_designs();
  WhyIllegal illegal_ = [](const Variant&) { return std::string(); };
};

TEST_F(EvolveTest, FindsTheBestOfALandscapeInNoise) {
  for (const auto kind :
       {PopulationKind::kBest, PopulationKind::kInsight, PopulationKind::kElites}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Landscape landscape;
      landscape.noise = 0.005;
      landscape.noise_seed = seed;
      landscape.fault = [](const Variant& variant) {
        return value_of(variant.values, "stages") == 6 ? "it spills" : "";
      };
      const EvolveReport report = run_anew(setup(seed, kind), landscape);
      ASSERT_TRUE(report.confirmed.has_value());
      const Variant& best = report.trials[static_cast<std::size_t>(report.best)].proposal.variant;
      EXPECT_GE(smooth(best), 1.25) << "seed " << seed << ", " << to_string(kind);
      EXPECT_NEAR(report.confirmed->speed_up, smooth(best), 0.01);
      EXPECT_EQ(report.trials.size(), 100);
    }
  }
}

TEST_F(EvolveTest, KeepsNothingThatIsOnlyLuck) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Landscape landscape;
    landscape.speed = flat;
    landscape.noise = 0.028;  // so that some of them are 3% faster than others
    landscape.noise_seed = seed;
    const EvolveReport report = run_anew(setup(seed), landscape);
    EXPECT_EQ(report.best, 0) << "seed " << seed;
    EXPECT_FALSE(report.confirmed.has_value());
    EXPECT_EQ(std::ranges::count_if(report.trials, &Candidate::kept), 1);  // the start
  }
}

TEST_F(EvolveTest, ElitesThatAreNoFasterThanTheStartAreNotTheBest) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Landscape landscape;
    landscape.speed = flat;
    landscape.noise = 0.01;
    landscape.noise_seed = seed;
    const EvolveReport report = run_anew(setup(seed, PopulationKind::kElites), landscape);
    EXPECT_EQ(report.best, 0) << "seed " << seed;
    EXPECT_FALSE(report.confirmed.has_value());
  }
}

TEST_F(EvolveTest, ConfirmsOnOtherInputs) {
  Landscape landscape;
  const EvolveReport report = run(setup(6), landscape);
  ASSERT_TRUE(report.confirmed.has_value());
  ASSERT_EQ(landscape.seeds.size(), 101U);
  EXPECT_EQ(std::set(landscape.seeds.begin(), landscape.seeds.end() - 1),
            std::set<std::uint64_t>{6});
  EXPECT_NE(landscape.seeds.back(), 6U);
}

// Another start has the designs' own values among its neighbours, and no candidate says otherwise.
TEST_F(EvolveTest, AnotherDesignIsOfAnotherFamily) {
  Landscape landscape;
  EvolveSetup made = setup(1);
  std::ranges::find(made.start.values, "stages", &std::pair<std::string, int>::first)->second = 6;
  for (const Candidate& trial : run(made, landscape).trials) {
    if (trial.proposal.reason.starts_with("another design")) {
      EXPECT_EQ(trial.proposal.variant.kernel, "panel");
    }
  }
}

TEST_F(EvolveTest, ReportsWhatTheBestMeasuresOnceMore) {
  Landscape landscape;
  const auto lucky = [&](const Variant& variant) {  // until the budget is spent
    return smooth(variant) - (landscape.asked > 100 ? 0.1 : 0.0);
  };
  landscape.speed = lucky;
  EvolveReport report = run(setup(1), landscape);
  const auto index = static_cast<std::size_t>(report.best);
  EXPECT_NEAR(report.confirmed->speed_up, report.trials[index].outcome.speed_up - 0.1, 1e-9);
  EXPECT_NEAR(report.to_json().at("best_speed_up").get<double>(), report.confirmed->speed_up, 1e-9);
  // One that is wrong when it runs again is not reported: the next best is.
  landscape.asked = 0;
  landscape.fault = [&](const Variant&) { return landscape.asked == 101 ? "wrong" : ""; };
  const int first = report.best;
  report = run_anew(setup(1), landscape);
  EXPECT_NE(report.best, first);
  EXPECT_EQ(report.confirmed->valid, true);
}

TEST_F(EvolveTest, ChangesTwoParametersAndNothingTwice) {
  illegal_ = [](const Variant& variant) {
    return value_of(variant.values, "stages") == 4 ? "there is no room" : "";
  };
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Landscape landscape;
    const EvolveReport report = run_anew(setup(seed), landscape);
    std::set<std::string> seen;
    int beside = 0;
    int changes = 0;
    std::set<std::string> kernels;
    for (const Candidate& trial : report.trials) {
      const Variant& variant = trial.proposal.variant;
      EXPECT_TRUE(seen.insert(variant_key(variant, spaces_)).second);
      EXPECT_NE(value_of(variant.values, "stages"), 4);
      kernels.insert(variant.kernel);
      if (trial.number < 2 || trial.proposal.reason.starts_with("the next entry in the table")) {
        continue;
      }
      const Variant& from =
          report.trials[static_cast<std::size_t>(trial.proposal.parents.front())].proposal.variant;
      int changed = 0;
      for (const ParameterRange& range : find_space(spaces_, variant.kernel).ranges) {
        const auto place = [&](const Variant& other) {
          return std::ranges::find(range.values, value_of(other.values, range.name)) -
                 range.values.begin();
        };
        const auto step = std::abs(place(variant) - place(from));
        changed += step != 0 ? 1 : 0;
        beside += step == 1 ? 1 : 0;
      }
      EXPECT_EQ(changed, 2);
      changes += changed;
    }
    EXPECT_EQ(kernels.size(), 2);  // designs
    EXPECT_GT(beside * 2, changes);
  }
}

// Times that differ by less than what decides on a candidate must not steer a search.
TEST_F(EvolveTest, WhatKeepsTheSameCandidatesProposesTheSame) {
  for (const auto& [speed, noise] : {std::pair(&flat, 0.01), std::pair(&smooth, 0.001)}) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      std::vector<EvolveReport> runs;
      for (const std::uint64_t noise_seed : {1, 2}) {
        Landscape landscape;
        landscape.speed = speed;
        landscape.noise = noise;
        landscape.noise_seed = noise_seed;
        runs.push_back(run_anew(setup(seed), landscape));
      }
      ASSERT_EQ(runs[0].trials.size(), runs[1].trials.size());
      int of_other_designs = 0;
      for (std::size_t i = 0; i < runs[0].trials.size(); ++i) {
        const Candidate& candidate = runs[0].trials[i];
        const Candidate& other = runs[1].trials[i];
        ASSERT_EQ(variant_key(candidate.proposal.variant, spaces_),
                  variant_key(other.proposal.variant, spaces_))
            << "seed " << seed << ", candidate " << i;
        ASSERT_EQ(std::pair(candidate.kept, candidate.leads), std::pair(other.kept, other.leads))
            << "else this test asks for nothing";
        EXPECT_NE(candidate.outcome.speed_up, other.outcome.speed_up);
        of_other_designs += candidate.proposal.variant.kernel == "panel" ? 1 : 0;
      }
      EXPECT_GE(of_other_designs, 5);
    }
  }
}

TEST_F(EvolveTest, EndsWhenTheTableIsExhaustedOrNothingIsKept) {
  Landscape landscape;
  landscape.speed = flat;
  EvolveSetup made = setup(5);
  made.budget.trials = 0;
  const EvolveReport all = run(made, landscape);
  EXPECT_EQ(all.why, "exhausted");
  EXPECT_EQ(all.trials.size(), 5U * 6 * 4 * 3 + 4U * 4);
  made.patience = 3;
  const EvolveReport report = run_anew(made, landscape);
  EXPECT_EQ(report.why, "converged");
  EXPECT_EQ(report.trials.size(), 1U + 3U * kChildren);
}

TEST_F(EvolveTest, TimeAndInterruptionsEndIt) {
  Landscape landscape;
  EvolveSetup made = setup(5);
  double clock = 0;
  made.now = [&] { return clock += 1.0; };  // a second between any two looks
  made.budget = {.trials = 0, .seconds = 10};
  const EvolveReport timed = run(made, landscape);
  EXPECT_EQ(timed.why, "budget");
  EXPECT_EQ(timed.trials.size(), 10U);
  landscape.asked = 0;
  landscape.interrupt_at = 7;
  const EvolveReport cut = run_anew(setup(5), landscape);
  EXPECT_EQ(cut.why, "interrupted");
  EXPECT_EQ(cut.trials.size(), 7U);
  EXPECT_NE(text().find("\"why\":\"interrupted\""), std::string::npos);
}

TEST_F(EvolveTest, AStartThatCannotBeTriedEndsItAndOneThatIsInvalidDoesNot) {
  Landscape landscape;
  landscape.fault = [&](const Variant&) { return landscape.asked == 1 ? "crash" : ""; };
  EXPECT_THROW(run(setup(1), landscape), Error);
  landscape.asked = 0;
  landscape.fault = [&](const Variant&) { return landscape.asked == 1 ? "spills" : "crash"; };
  EXPECT_EQ(run_anew(setup(1), landscape).valid_share(), 0.0);
  landscape.asked = 0;
  landscape.fault = [&](const Variant&) { return landscape.asked == 1 ? "spills" : ""; };
  EXPECT_NE(run_anew(setup(1), landscape).best, 0);
}

TEST_F(EvolveTest, FindingsOfAProfileChooseTheParameter) {
  Landscape landscape;
  landscape.speed = flat;
  landscape.told = {{.rule = "long_scoreboard",
                     .means = "loads are waited for",
                     .attempt = "more stages",
                     .parameter = "key_slots, stages",
                     .strength = 0.4},
                    {.rule = "other", .means = "", .attempt = "", .parameter = "no such"}};
  EvolveSetup made = setup(2, PopulationKind::kInsight);
  made.budget.trials = 30;
  const EvolveReport report = run(made, landscape);
  for (const Candidate& trial : report.trials) {
    if (trial.proposal.reason.starts_with("the profile says")) {
      EXPECT_NE(value_of(trial.proposal.variant.values, "stages"),
                value_of(report.trials[static_cast<std::size_t>(trial.proposal.parents.front())]
                             .proposal.variant.values,
                         "stages"));
    }
  }
  EXPECT_GT(std::ranges::count_if(report.trials,
                                  [](const Candidate& trial) {
                                    return trial.proposal.reason ==
                                           "the profile says: loads are waited for; more stages";
                                  }),
            20);
  EXPECT_EQ(landscape.profiled, 1);
}

TEST_F(EvolveTest, ElitesHaveChildrenTogether) {
  Landscape landscape;
  const EvolveReport report = run(setup(3, PopulationKind::kElites), landscape);
  EXPECT_GT(
      std::ranges::count_if(
          report.trials, [](const Candidate& trial) { return trial.proposal.parents.size() == 2; }),
      5);
}

/// The lines of candidates and of the end, without what differs from run to run.
std::string course(const std::string& ledger) {
  std::istringstream lines(ledger);
  std::string course;
  for (std::string line; std::getline(lines, line);) {
    Json json = Json::parse(line);
    if (json.at("kind") == "candidate" || json.at("kind") == "run") {
      course += json.dump() + "\n";
    }
  }
  return course;
}

TEST_F(EvolveTest, GoesOnFromWhereverItWasKilled) {
  for (const auto kind : {PopulationKind::kInsight, PopulationKind::kElites}) {
    Landscape landscape;
    landscape.noise = 0.005;
    landscape.told = {{.rule = "r", .means = "m", .attempt = "t", .parameter = "columns"}};
    EvolveSetup made = setup(9, kind);
    made.budget.trials = 15;
    const EvolveReport unbroken = run_anew(made, landscape);
    const std::string whole = text();
    const std::size_t last_lines = whole.size() - 900;
    for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
      const bool at_line = cut == 0 || whole[cut - 1] == '\n' || whole[cut] == '\n';
      if (!at_line && (cut < last_lines || cut % 10 != 0)) {
        continue;
      }
      std::ofstream(path_, std::ios::trunc) << whole.substr(0, cut);
      const EvolveReport report = run(made, landscape, true);
      ASSERT_EQ(course(text()), course(whole)) << "cut at " << cut;
      ASSERT_EQ(report.best, unbroken.best);
      ASSERT_EQ(report.confirmed->speed_up, unbroken.confirmed->speed_up);
    }
    // Nothing is measured again, and a finished ledger stays as it is.
    landscape.asked = 0;
    (void)run(made, landscape, true);
    EXPECT_EQ(landscape.asked, 0);
    EXPECT_EQ(text(), whole);
    made.budget.trials = 20;
    EXPECT_EQ(run(made, landscape, true).trials.size(), 20U);
  }
}

TEST_F(EvolveTest, TheTimeOfAResumedRunCountsOn) {
  Landscape landscape;
  landscape.speed = flat;
  EvolveSetup made = setup(5);
  double clock = 0;
  made.now = [&] { return clock += 1.0; };
  made.budget = {.trials = 5, .seconds = 0};
  (void)run(made, landscape);
  made.budget = {.trials = 0, .seconds = 12};
  const EvolveReport report = run(made, landscape, true);
  EXPECT_EQ(report.why, "budget");
  EXPECT_EQ(report.trials.size(), 12U);  // a second each
}

TEST_F(EvolveTest, ALastLineOfAnythingIsLeftOut) {
  Landscape landscape;
  EvolveSetup made = setup(4);
  made.budget.trials = 10;
  (void)run(made, landscape);
  const std::string whole = text();
  std::ofstream(path_, std::ios::app) << std::string(3, '\0') << "junk\n";
  (void)run(made, landscape, true);
  EXPECT_EQ(course(text()), course(whole));
}

TEST_F(EvolveTest, RefusesLedgersOfOtherRuns) {
  Landscape landscape;
  EvolveSetup made = setup(1);
  made.budget.trials = 12;
  (void)run(made, landscape);
  const std::string whole = text();
  const auto why = [&](const EvolveSetup& other, bool resume) -> std::string {
    try {
      (void)run(other, landscape, resume);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(why(made, false).find("exists; use --resume to continue"), std::string::npos);
  EvolveSetup other = setup(2);
  EXPECT_NE(why(other, true).find("whose seed is 1 instead of 2"), std::string::npos);
  for (const char* const key : {"sources", "baseline"}) {
    other = made;
    other.header[key] = "another";
    EXPECT_NE(why(other, true).find(std::string("whose ") + key + " is"), std::string::npos) << key;
  }
  other = made;
  other.spaces.front().ranges.pop_back();  // a table of another version
  EXPECT_NE(why(other, true).find("its tables have changed"), std::string::npos);
  {
    const Ledger held(path_, true);
    EXPECT_NE(why(made, true).find("another run writes"), std::string::npos);
  }
  EXPECT_EQ(text(), whole);
  std::ofstream(path_, std::ios::trunc) << "photos\n" << whole;
  EXPECT_NE(why(made, true).find("line 1 is not a line of a ledger"), std::string::npos);
  // Files of others are not touched.
  for (const std::string content : {R"({"kind":"profile"})", R"({"a":1})", "photos", "{"}) {
    std::ofstream(path_, std::ios::trunc) << content;
    const bool may_be_one = content == "{";
    EXPECT_EQ(why(made, true).find("is not a ledger") == std::string::npos, may_be_one) << content;
    EXPECT_EQ(text() == content, !may_be_one);
  }
  for (const std::string parent : {"99", "-1", "3"}) {
    std::string damaged = whole;
    const std::size_t begin = damaged.find("\"parents\":[", damaged.find("\"number\":3"));
    damaged.replace(begin, damaged.find(']', begin) - begin, "\"parents\":[" + parent);
    std::ofstream(path_, std::ios::trunc) << damaged;
    EXPECT_NE(why(made, true).find("candidate 3 cannot be derived from " + parent),
              std::string::npos);
  }
}

}  // namespace
}  // namespace fovea::lab
