// Verdicts over samples with the noise of a GPU, the step protocol with programs that follow it and
// that do not, and figures of saved files.
#include "lab/measure/compare.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "lab/measure/compare_files.hpp"
#include "lab/system/process.hpp"

namespace fovea::lab {
namespace {

using Json = nlohmann::ordered_json;

/// Pairs of a GPU whose samples spread by this share from the 10th to the 90th percentile.
class Noise {
 public:
  Noise(std::uint64_t seed, double spread, double ratio)
      : draw_(seed), noise_(0, spread / 2.56), ratio_(ratio) {}

  double drift = 0.0;     // from one sample to the next
  double outliers = 0.0;  // share of the samples that take up to 40% longer
  double step = 0.0;      // by which clocks fall at a moment that is drawn
  double modes = 0.0;     // between which each sample chooses

  std::optional<SamplePair> operator()() {
    const bool a_leads = turn_ % 2 == 0 ? uniform_(draw_) < 0.5 : !a_led_;
    a_led_ = a_leads;
    ++turn_;
    SamplePair pair;
    (a_leads ? pair.a : pair.b) = sample() * (a_leads ? 1 : ratio_);
    (a_leads ? pair.b : pair.a) = sample() * (a_leads ? ratio_ : 1);
    return pair;
  }

 private:
  double sample() {
    ++samples_;
    double seconds = 1e-4 * std::exp(noise_(draw_) + drift * samples_);
    if (samples_ > when_) {
      seconds *= 1 + step;
    }
    if (uniform_(draw_) < 0.5) {
      seconds *= 1 + modes;
    }
    if (uniform_(draw_) < outliers) {
      seconds *= 1 + 0.4 * uniform_(draw_);
    }
    return seconds;
  }

  std::mt19937_64 draw_;
  std::normal_distribution<double> noise_;
  std::uniform_real_distribution<double> uniform_{0, 1};
  double ratio_;
  int turn_ = 0;
  bool a_led_ = false;
  int samples_ = 0;
  int when_ = static_cast<int>(50 * uniform_(draw_));
};

/// How many of 300 comparisons, each with another seed, do not give the expected verdict.
int wrong_of(double spread, double ratio, Speed expected, void (*change)(Noise&)) {
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Noise noise(seed, spread, ratio);
    change(noise);
    wrong += judge_until_clear({}, std::ref(noise)).verdict.speed == expected ? 0 : 1;
  }
  return wrong;
}

TEST(Compare, FindsTwoPercentAndNothingInTheNoiseOfAGpu) {
  const auto changes = {+[](Noise& /*noise*/) {}, +[](Noise& noise) { noise.drift = 5e-4; },
                        +[](Noise& noise) { noise.drift = -5e-4; },
                        +[](Noise& noise) { noise.outliers = 0.1; },
                        +[](Noise& noise) { noise.step = 0.1; }};
  int kind = 0;
  for (const auto change : changes) {
    for (const double spread : {0.002, 0.005, 0.01}) {
      SCOPED_TRACE(testing::Message() << "noise " << kind << ", spread " << spread);
      EXPECT_EQ(wrong_of(spread, 1.00, Speed::kSame, change), 0);
      EXPECT_EQ(wrong_of(spread, 1.02, Speed::kSlower, change), 0);
      EXPECT_EQ(wrong_of(spread, 1 / 1.02, Speed::kFaster, change), 0);
    }
    ++kind;
  }
}

TEST(Compare, IsAmbiguousRatherThanWrong) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    for (const double ratio : {1.0, 1.02, 1 / 1.02}) {
      Noise noise(seed, 0.01, ratio);
      noise.modes = 0.09;
      noise.outliers = 0.3;
      const Speed speed = judge_until_clear({}, std::ref(noise)).verdict.speed;
      const Speed right = ratio > 1 ? Speed::kSlower : ratio < 1 ? Speed::kFaster : Speed::kSame;
      EXPECT_TRUE(speed == right || speed == Speed::kAmbiguous) << seed << " " << ratio;
    }
  }
}

TEST(Compare, TakesPairsWhileTheVerdictIsAmbiguousUpToALimit) {
  Noise on_the_line(1, 0.01, 1.01);
  const JudgedPairs longest = judge_until_clear({}, std::ref(on_the_line));
  EXPECT_EQ(longest.verdict.speed, Speed::kAmbiguous);
  EXPECT_EQ(longest.pairs, PairLimits{}.limit);
  Noise quiet(1, 0.001, 1.0);
  EXPECT_EQ(judge_until_clear({}, std::ref(quiet)).pairs, PairLimits{}.first);
  EXPECT_EQ(judge_until_clear({.limit = 20}, std::ref(on_the_line)).pairs, 20);
}

TEST(Compare, DropsPairsOfASlowedGpuAndGivesUpWhenItStaysSlow) {
  int turn = 0;
  const JudgedPairs judged = judge_until_clear({}, [&]() -> std::optional<SamplePair> {
    return ++turn % 2 == 0 ? std::optional(SamplePair{1, 1.05}) : std::nullopt;
  });
  EXPECT_EQ(judged.verdict.speed, Speed::kSlower);
  EXPECT_EQ(judged.pairs, 16);
  EXPECT_EQ(judged.dropped, 16);
  EXPECT_THROW((void)judge_until_clear({}, [] { return std::nullopt; }), Error);
}

TEST(Compare, AFewPairsOrNoNumbersAreAmbiguous) {
  const std::vector<SamplePair> alike(40, {1, 1});
  EXPECT_EQ(judge_pairs(alike, 0.01).speed, Speed::kSame);
  EXPECT_EQ(judge_pairs(std::span(alike).first(10), 0.01).speed, Speed::kAmbiguous);
  EXPECT_EQ(judge_pairs(std::span(alike).first(11), 0.01).speed, Speed::kSame);
  EXPECT_EQ(judge_pairs({}, 0.01).speed, Speed::kAmbiguous);
  std::vector<SamplePair> damaged = alike;
  damaged.back().b = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(judge_pairs(damaged, 0.01).speed, Speed::kAmbiguous);
  // A half to the power of so many is no double.
  for (const std::size_t count : {std::size_t{1080}, std::size_t{5000}}) {
    std::vector<SamplePair> pairs(count, {1, 1});
    for (std::size_t i = 0; i < count; i += 2) {
      pairs[i].b = 1.05;
    }
    EXPECT_EQ(judge_pairs(pairs, 0.01).speed, Speed::kAmbiguous) << count;
    EXPECT_EQ(judge_pairs(std::vector<SamplePair>(count, {1, 1.02}), 0.01).speed, Speed::kSlower);
  }
  EXPECT_EQ(judge_interval(1.011, 1.03, 0.01), Speed::kSlower);
  EXPECT_EQ(judge_interval(0.97, 0.989, 0.01), Speed::kFaster);
  EXPECT_EQ(judge_interval(0.97, 1.0, 0.01), Speed::kAmbiguous);
  EXPECT_EQ(judge_interval(0.97, 1.0, 0.05), Speed::kSame);
}

/// A program that follows the protocol, in a shell: `on_sample` is what it does for each line.
StepProgram program_of(const std::string& what, const std::string& on_sample,
                       const std::string& on_start = "", const std::string& card = "gemm") {
  const std::string ready =
      R"({"ready": {"card": ")" + card + R"(", "case": "c", "problem": "p", "bus": "0"}})";
  return {what,
          {"sh", "-c",
           on_start + "\necho '" + ready + "'\nwhile read line; do " + on_sample + "; done"}};
}

std::string sample_of(const std::string& seconds) {
  return R"(echo '{"seconds": )" + seconds + R"(, "sm_mhz": 1980, "watts": 400}')";
}

std::string refusal(const StepProgram& a, const StepProgram& b, double max_seconds = 60) {
  StepOptions options;
  options.ready_seconds = max_seconds;
  options.sample_seconds = max_seconds;
  try {
    (void)compare_steps(a, b, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(CompareSteps, SamplesTwoProgramsInTurnsAndNeverBothAtOnce) {
  const TemporaryFile log({});
  const TemporaryFile starts({});
  const TemporaryFile lock({});
  const std::string alone = "mkdir " + lock.path() + ".d || exit 9; ";
  const auto sample = [&](const std::string& seconds) {
    return alone + "echo " + seconds + " >> " + log.path() + "; rmdir " + lock.path() + ".d; " +
           sample_of(seconds);
  };
  StepOptions options;
  options.pairs_per_start = 10;
  const std::string on_start = "echo >> " + starts.path();
  const StepComparison result = compare_steps(program_of("A", sample("2e-3"), on_start),
                                              program_of("B", sample("3e-3"), on_start), options);
  EXPECT_EQ(result.judged.verdict.speed, Speed::kSlower);
  EXPECT_NEAR(result.judged.verdict.ratio, 1.5, 1e-9);
  EXPECT_EQ(result.judged.pairs, 16);
  EXPECT_EQ(result.a.seconds, 2e-3);
  EXPECT_EQ(result.b.sm_mhz, 1980);
  EXPECT_NE(result.a.ready.find("gemm"), std::string::npos);
  // Each two pairs are A B B A or B A A B, and both begin.
  const std::string order =
      run_process({"sh", "-c", "cut -c1 " + log.path() + " | tr -d '\\n'"}).output;
  ASSERT_EQ(order.size(), 32U);
  for (std::size_t i = 0; i < order.size(); i += 4) {
    const std::string four = order.substr(i, 4);
    EXPECT_TRUE(four == "2332" || four == "3223") << four;
  }
  std::set<std::string> fours;
  for (std::size_t i = 0; i < order.size(); i += 4) {
    fours.insert(order.substr(i, 4));
  }
  EXPECT_EQ(fours.size(), 2U);
  // 16 pairs, and after ten of them both programs start anew.
  EXPECT_EQ(std::filesystem::file_size(starts.path()), 4U);
}

TEST(CompareSteps, LeavesOutSamplesOfASlowedGpu) {
  const TemporaryFile count({});
  const std::string slow = R"(echo '{"seconds": 9, "slowed": true}')";
  const StepComparison result = compare_steps(
      program_of("A", sample_of("2e-3")),
      program_of("B", "echo >> " + count.path() + "; if [ $(wc -l < " + count.path() +
                          ") -le 3 ]; then " + slow + "; else " + sample_of("3e-3") + "; fi"),
      {});
  EXPECT_EQ(result.judged.dropped, 3);
  EXPECT_NEAR(result.judged.verdict.ratio, 1.5, 1e-9);
  EXPECT_EQ(result.b.seconds, 3e-3);
  EXPECT_EQ(result.b.spread, 0);
}

TEST(CompareSteps, NamesTheSideThatDoesNotFollowTheProtocol) {
  const StepProgram good = program_of("A", sample_of("1e-3"));
  const auto other = [](const std::string& on_sample, const std::string& on_start = "",
                        const std::string& card = "gemm") {
    return program_of("B (other)", on_sample, on_start, card);
  };
  const auto says = [&](const StepProgram& b, const std::string& words, double max_seconds = 60) {
    const std::string message = refusal(good, b, max_seconds);
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  says({"B (other)", {"/no/such/program"}}, "cannot start /no/such/program");
  says(other("", "echo no such option >&2; exit 2"),
       "B (other) ended with exit code 2: no such option, and did not say that it is ready");
  says(other("", "sleep 600"), "B (other) did not answer within 2 s, and did not say", 2);
  says(other("", "echo fovea 1.0"), "does not follow the step protocol: got fovea 1.0");
  says(other("", "echo '{\"sample\": 1}'"), "its first line is not {\"ready\"");
  says(other("sleep 600"), "B (other) did not answer within 2 s, and did not give a sample", 2);
  says(other("echo garbage"), "got garbage");
  says(other("kill -SEGV $$"), "ended with exit code 139");
  for (const char* const seconds : {"0", "-1", "\"fast\"", "null", "1e999"}) {
    const std::string message = refusal(good, other(sample_of(seconds)));
    EXPECT_NE(message.find("B (other)"), std::string::npos) << seconds << message;
  }
  says(other(sample_of("1e-3"), "", "attention"),
       R"(they run different cards: "gemm" and "attention")");
  for (const auto& [key, what] :
       {std::pair("case", "cases"), {"problem", "problems"}, {"bus", "GPUs"}}) {
    Json ready = {{"card", "gemm"}, {"case", "c"}, {"problem", "p"}, {"bus", "0"}};
    ready[key] = "another";
    says({"B (other)", {"sh", "-c", "echo '" + Json{{"ready", ready}}.dump() + "'; sleep 600"}},
         std::string("they run different ") + what);
  }
}

std::string profile_of(const std::string& figures) {
  return R"({"kind": "profile", "kernel": "k", "figures": {)" + figures + "}}";
}

FileComparison compared(const std::string& a, const std::string& b) {
  return compare_texts("a.json", a, "b.json", b, kFilesThreshold);
}

TEST(CompareFiles, NamesTheFiguresThatMovedAndSortsThem) {
  const FileComparison result = compared(
      profile_of(R"("seconds": 1e-4, "registers": 168, "sectors_per_store": 4, "local_loads": 0,
                    "stall_barrier": 0.30, "stall_membar": 0.00, "dram": 0.5, "fences": 96)"),
      profile_of(R"("seconds": 1.2e-4, "registers": 168, "sectors_per_store": 16,
                    "local_loads": 4096, "stall_barrier": 0.31, "stall_membar": 0.3, "dram": 0.41,
                    "fences": 192)"));
  EXPECT_EQ(result.speed, Speed::kSlower);
  std::vector<std::string> names;
  for (const ChangedFigure& figure : result.figures) {
    names.push_back(figure.name);
  }
  // What the kernel does comes before how it waited.
  EXPECT_EQ(names, (std::vector<std::string>{"local_loads", "sectors_per_store", "fences",
                                             "stall_membar", "dram", "seconds"}));
  EXPECT_TRUE(result.figures[2].work);
  EXPECT_FALSE(result.figures[3].work);
}

// Waits of a ring of one stage fewer, as an H200 counted them: what is waited for tells the cause.
TEST(CompareFiles, WaitsAreSortedByTheTimeThatTheyTakeOrGive) {
  const FileComparison result = compared(
      profile_of(R"("seconds": 1.15e-3, "matrix_units": 0.826, "l2": 0.599, "product_wait": 0.076,
                    "stall_dispatch_stall": 0.039, "epilogue_share": 0.171, "full_wait": 0.220,
                    "stall_wait": 0.153, "epilogue_wait": 0.60, "stall_long_scoreboard": 0.362)"),
      profile_of(R"("seconds": 1.61e-3, "matrix_units": 0.527, "l2": 0.412, "product_wait": 0.013,
                    "stall_dispatch_stall": 0.014, "epilogue_share": 0.089, "full_wait": 0.357,
                    "stall_wait": 0.089, "epilogue_wait": 0.30, "stall_long_scoreboard": 0.551)"));
  std::vector<std::string> names;
  for (const ChangedFigure& figure : result.figures) {
    names.push_back(figure.name);
  }
  const std::vector<std::string> first = {"stall_long_scoreboard", "full_wait", "stall_wait",
                                          "product_wait", "stall_dispatch_stall"};
  ASSERT_EQ(names.size(), 10U);
  EXPECT_EQ(std::vector(names.begin(), names.begin() + 5), first);
  // A share of the epilogue alone is no share of the time.
  EXPECT_NE(std::find(names.begin() + 5, names.end(), "epilogue_wait"), names.end());
}

// Shares of samples, and what waits for TMA is in: a slower memory moves them.
TEST(CompareFiles, WhatWarpsWaitForIsNoWorkOfTheKernel) {
  const FileComparison result = compared(
      profile_of(R"("seconds": 1e-4, "full_wait": 0.2, "idle_warps": 0.2, "epilogue_share": 0.1,
                    "bank_conflicts": 100, "global_stores": 100)"),
      profile_of(R"("seconds": 1e-4, "full_wait": 0.6, "idle_warps": 0.6, "epilogue_share": 0.4,
                    "bank_conflicts": 400, "global_stores": 200)"));
  ASSERT_EQ(result.figures.size(), 5U);
  EXPECT_EQ(result.figures[0].name, "global_stores");
  EXPECT_TRUE(result.figures[0].work);
  for (std::size_t i = 1; i < result.figures.size(); ++i) {
    EXPECT_FALSE(result.figures[i].work) << result.figures[i].name;
  }
}

TEST(CompareFiles, NothingMovesBetweenTwoLaunchesOfAKernel) {
  const FileComparison result = compared(
      profile_of(R"("seconds": 1.00e-4, "registers": 168, "stall_barrier": 0.30, "l2": 0.40)"),
      profile_of(R"("seconds": 1.02e-4, "registers": 168, "stall_barrier": 0.31, "l2": 0.39)"));
  EXPECT_EQ(result.speed, Speed::kSame);
  EXPECT_TRUE(result.figures.empty());
}

std::string report_of(const std::string& figures) {
  return R"({"machine": {}, "kernels": {"figures": [)" + figures + "]}}";
}

std::string time_of(const std::string& name, double seconds, double spread) {
  return R"({"card": ")" + name + R"(", "case": "c", "plan": "", "seconds": )" +
         std::to_string(seconds) + R"(, "spread": )" + std::to_string(spread) + "}";
}

TEST(CompareFiles, JudgesTheTimesOfBenchReportsByTheirSpreads) {
  const FileComparison result =
      compared(report_of(time_of("slower", 1, 0.01) + "," + time_of("same", 1, 0.01) + "," +
                         time_of("unclear", 1, 0.2) + "," + time_of("gone", 1, 0)),
               report_of(time_of("slower", 1.1, 0.01) + "," + time_of("same", 1.01, 0.01) + "," +
                         time_of("unclear", 1.05, 0.2) + "," + time_of("faster", 1, 0)));
  EXPECT_EQ(result.speed, Speed::kSlower);
  ASSERT_EQ(result.times.size(), 3U);
  EXPECT_EQ(result.times[0].name, "slower c");
  EXPECT_EQ(result.times[0].verdict.speed, Speed::kSlower);
  EXPECT_EQ(result.times[1].name, "unclear c");
  EXPECT_EQ(result.times[1].verdict.speed, Speed::kAmbiguous);
  EXPECT_EQ(result.times[2].verdict.speed, Speed::kSame);
  EXPECT_EQ(result.unmatched,
            (std::vector<std::string>{"only in A: gone c", "only in B: faster c"}));
}

TEST(CompareFiles, SaysWhatAFileIsThatCannotBeCompared) {
  const auto says = [](const std::string& a, const std::string& b, const std::string& words) {
    try {
      (void)compared(a, b);
      ADD_FAILURE() << words;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  const std::string profile = profile_of(R"("seconds": 1)");
  const std::string report = report_of(time_of("x", 1, 0));
  says("{", profile, "a.json is not JSON");
  says(profile, "[]", "b.json is neither a profile");
  says(profile, "[1, 2]", "b.json is neither a profile");
  says(profile, report, "a.json is a profile, and b.json is a bench report");
  says(report, report_of("1, {}, " + time_of("y", 1, 0)), "no figure in common");
  says(profile, "[" + profile + "," + profile + "]", "of different cases");
  says(profile_of(R"("seconds": "fast")"), profile, "no figure in common");
  says(profile_of(R"("seconds": 1e300)"), profile, "a.json: \"seconds\" is 1e+300, which");
  says(report, report_of(R"({"card": "x", "case": "c", "seconds": 1e-300})"),
       "b.json: \"seconds\" is 1e-300, which");
}

}  // namespace
}  // namespace fovea::lab
