// The gate of times: what it refuses and what it passes, on the committed figures that once went
// unnoticed, and on made-up ones.
#include "lab/measure/time_gate.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/file.hpp"

namespace fovea::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGpuName = "NVIDIA H200";
const fs::path kResults = FOVEA_H200_RESULTS;
// Between these two, attention lost 40% and 9% on two problems.
const fs::path kBefore = kResults / "2026-11-22-2-945a95062cad.json";
const fs::path kAfter = kResults / "2026-11-24-2-53aee851b447.json";

std::vector<TimedFigure> figures_of(const fs::path& file) {
  return timed_figures(io::read_small_file(file), file.string());
}

const TimeChange& change_of(const std::vector<TimeChange>& changes, const std::string& what) {
  const auto found = std::ranges::find(changes, what, &TimeChange::what);
  if (found == changes.end()) {
    ADD_FAILURE() << "no figure of " << what;
    return changes.front();
  }
  return *found;
}

std::vector<std::string> slower_in(const std::vector<TimeChange>& changes) {
  std::vector<std::string> names;
  for (const TimeChange& change : changes) {
    if (change.verdict == TimeVerdict::kSlower) {
      names.push_back(change.what);
    }
  }
  return names;
}

TEST(TimeGate, RefusesWhatOnceWentUnnoticed) {
  const std::vector<TimeChange> changes =
      compare_times(figures_of(kAfter), earlier_figures(kBefore.string(), kGpuName));
  // The pooling head took the norm of the tokens into itself, which no peer says.
  EXPECT_EQ(slower_in(changes),
            (std::vector<std::string>{"attention b1024_h12_n196_d64", "attention b256_h16_n256_d72",
                                      "pool b1024_n196_width768"}));
  const TimeChange& worst = change_of(changes, "attention b256_h16_n256_d72");
  EXPECT_NEAR(worst.change, 0.40, 0.01);
  EXPECT_EQ(worst.peer, "cuDNN 9.19.0");
  EXPECT_LT(worst.peer_change, kSteadyPeer);
  EXPECT_EQ(worst.file, kBefore.filename());
}

TEST(TimeGate, PassesAFileBesideItself) {
  const std::vector<TimeChange> changes =
      compare_times(figures_of(kAfter), earlier_figures(kAfter.string(), kGpuName));
  EXPECT_FALSE(changes.empty());
  EXPECT_TRUE(std::ranges::all_of(
      changes, [](const TimeChange& change) { return change.verdict == TimeVerdict::kSteady; }));
}

TEST(TimeGate, PassesAMachineThatIsATenthSlower) {
  std::vector<TimedFigure> slowed = figures_of(kAfter);
  for (TimedFigure& figure : slowed) {
    figure.seconds *= 1.1;
    for (auto* const others : {&figure.peers, &figure.ceilings}) {
      for (auto& [name, seconds] : *others) {
        seconds *= 1.1;
      }
    }
  }
  const EarlierFigures earlier = earlier_figures(kAfter.string(), kGpuName);
  EXPECT_EQ(slower_in(compare_times(slowed, earlier)), std::vector<std::string>{});
  // A kernel that lost more than the machine is still found.
  slowed.front().seconds *= 1.2;
  EXPECT_EQ(slower_in(compare_times(slowed, earlier)),
            std::vector<std::string>{slowed.front().what});
}

TEST(TimeGate, AFolderGivesEachFigureOfItsNewestFile) {
  const EarlierFigures earlier = earlier_figures(kResults.parent_path().string(), kGpuName);
  // Kernels were measured after the encoder was, and cards of long ago are still known.
  EXPECT_GE(earlier.at("attention b256_h16_n256_d72").file, kAfter.filename());
  EXPECT_GE(earlier.at("encoder bf16, batch 32").file, "2026-11-23-3-d202b969dd3c.json");
  EXPECT_TRUE(earlier.contains("attention_e4m3 b1024_h12_n196_d64"));
  EXPECT_TRUE(earlier_figures(kResults.parent_path().string(), "NVIDIA H900").empty());
}

TEST(TimeGate, TheTenthRunOfADayIsAfterItsNinth) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("time-gate-{}", ::getpid());
  fs::create_directories(folder);
  for (const std::string name : {"2026-01-31-1234567-dirty.json", "2026-01-31-9-0123456789ab.json",
                                 "2026-01-31-10-0123456789ab.json"}) {
    std::ofstream(folder / name) << R"({"machine": {"gpu": {"name": "NVIDIA H200"}}, "kernels":
        {"figures": [{"card": "card", "case": "case", "flops": 1, "seconds": 1}]}})";
  }
  EXPECT_EQ(earlier_figures(folder.string(), kGpuName).at("card case").file,
            "2026-01-31-10-0123456789ab.json");
  fs::remove_all(folder);
}

TEST(TimeGate, RefusesAnotherGpuAndNoResult) {
  EXPECT_THROW((void)earlier_figures(kAfter.string(), "NVIDIA H100 80GB HBM3"), Error);
  EXPECT_THROW((void)earlier_figures((kResults / "none.json").string(), kGpuName), Error);
  EXPECT_THROW((void)timed_figures("[1]", "a list"), Error);
}

TimedFigure made_up_figure(double seconds) {
  return {.what = "card case", .work = 1e9, .seconds = seconds, .peers = {{"peer", 1e-3}}};
}

TimeChange judged_change(const TimedFigure& earlier, const TimedFigure& now) {
  const std::vector<TimedFigure> figures = {now};
  return compare_times(figures, {{earlier.what, {earlier, "2026-01-01-1-abc.json"}}}).front();
}

TEST(TimeGate, JudgesAtItsLimits) {
  const TimedFigure before = made_up_figure(1e-3);
  EXPECT_EQ(judged_change(before, made_up_figure(1.049e-3)).verdict, TimeVerdict::kSteady);
  EXPECT_EQ(judged_change(before, made_up_figure(1.051e-3)).verdict, TimeVerdict::kSlower);
  TimedFigure now = made_up_figure(1.06e-3);
  now.peers["peer"] = 1.019e-3;
  EXPECT_EQ(judged_change(before, now).verdict, TimeVerdict::kSlower) << "the machine is the same";
  now.peers["peer"] = 1.03e-3;
  EXPECT_EQ(judged_change(before, now).verdict, TimeVerdict::kSteady) << "2.9% beside its peer";
  // The fastest of several peers counts, which is bound by the same.
  now.peers = {{"peer", 1e-3}, {"slow", 9e-3}};
  TimedFigure with_slow = before;
  with_slow.peers = {{"peer", 1e-3}, {"slow", 8e-3}};
  EXPECT_EQ(judged_change(with_slow, now).peer, "peer");
}

TEST(TimeGate, TellsWhatItCannotJudge) {
  const TimedFigure before = made_up_figure(1e-3);
  const auto why_not = [&](const TimedFigure& now) {
    const TimeChange change = judged_change(before, now);
    EXPECT_EQ(change.verdict, TimeVerdict::kNotJudged);
    return change.reason;
  };
  TimedFigure now = made_up_figure(2e-3);
  now.peers = {{"peer of another version", 1e-3}};
  EXPECT_EQ(why_not(now), "no peer and no ceiling was measured in both runs");
  now = made_up_figure(2e-3);
  now.what = "card another";
  EXPECT_EQ(why_not(now), "there is no earlier figure for it");
  now = made_up_figure(2e-3);
  now.work *= 2;
  EXPECT_NE(why_not(now).find("another problem"), std::string::npos);
  now = made_up_figure(1.1e-3);
  now.spread = 0.2e-3;
  EXPECT_NE(why_not(now).find("AMBIGUOUS"), std::string::npos);
  now = made_up_figure(1e-3);
  now.peers["peer"] = 0.9e-3;
  EXPECT_NE(why_not(now).find("its peer became faster"), std::string::npos);
}

// A kernel that no library has beside it is judged by what its GPU does at its best.
TEST(TimeGate, CeilingsStandInForAPeer) {
  TimedFigure before = made_up_figure(1e-3);
  before.peers.clear();
  before.ceilings = {{"copy_bytes_per_second", 1e-12}, {"bf16_flops", 1e-15}};
  TimedFigure now = before;
  now.seconds = 1.1e-3;
  EXPECT_EQ(judged_change(before, now).verdict, TimeVerdict::kSlower);
  now.ceilings["bf16_flops"] = 1.1e-15;
  EXPECT_EQ(judged_change(before, now).verdict, TimeVerdict::kSteady);
}

}  // namespace
}  // namespace fovea::lab
