// The journal that the library in a program's process writes, and settings on their way there.
#include "lab/programs/journal.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "lab/programs/settings.hpp"

namespace fovea::programs {
namespace {

class JournalTest : public ::testing::Test {
 protected:
  void SetUp() override { std::ofstream{file_}; }
  void TearDown() override { std::filesystem::remove(file_); }

  std::filesystem::path file_ = std::filesystem::temp_directory_path() /
                                (std::string("fovea-journal-") +
                                 ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(JournalTest, CountsFindingsByInstructionAndLaunch) {
  Journal journal(file_);
  emu::Finding finding{.kind = emu::FindingKind::kRace, .message = "m", .kernel = "k", .line = 3};
  for (const std::uint64_t number : {1, 2, 4}) {
    const LaunchRecord launch{
        .number = number, .kernel = "k", .schedules = 5, .operations = 10, .seconds = 0.5};
    journal.add(launch);
    journal.add_finding(launch, finding, 7);
    journal.add_finding(launch, finding, 8);
  }
  finding.line = 4;
  journal.add_finding({.number = 4}, finding, 0);
  journal.add_refusal("no");
  journal.add_refusal("no");
  journal.add_note("note");
  const JournalSummary summary = read_journal(file_);
  EXPECT_EQ(summary.launches, 3U);
  EXPECT_EQ(summary.schedules, 15U);
  EXPECT_EQ(summary.operations, 30U);
  ASSERT_EQ(summary.findings.size(), 2U);
  EXPECT_EQ(summary.findings[0]["launches"], 3);
  EXPECT_EQ(summary.findings[0]["launch"], 1);
  EXPECT_EQ(summary.findings[0]["seed"], 7);
  EXPECT_EQ(summary.findings[0]["kind"], "race");
  EXPECT_EQ(summary.refusals, std::vector<std::string>{"no"});
  EXPECT_EQ(summary.notes, std::vector<std::string>{"note"});
}

TEST_F(JournalTest, LeavesOutLinesThatAreNotComplete) {
  Journal(file_).add({.number = 1, .kernel = "k"});
  std::ofstream(file_, std::ios::app) << R"({"event": "laun)";
  EXPECT_EQ(read_journal(file_).launches, 1U);
}

TEST(Settings, TravelInTheEnvironment) {
  const Settings settings{.schedules = 9,
                          .kernel = "sum",
                          .launches = {2, 5},
                          .arch = 100,
                          .max_memory = 123,
                          .threads = 3,
                          .run = {.seed = 4,
                                  .policy = emu::Policy::kLazy,
                                  .resident_blocks = 2,
                                  .check_last_stores = false,
                                  .max_steps = 77},
                          .journal = "/tmp/a b"};
  setenv(kSettingsVariable, to_text(settings).c_str(), 1);
  const Settings read = settings_from_environment();
  unsetenv(kSettingsVariable);
  EXPECT_EQ(to_text(read), to_text(settings));
  EXPECT_TRUE(read.searches(5, "_Z3sumv"));
  EXPECT_FALSE(read.searches(4, "_Z3sumv"));
  EXPECT_FALSE(read.searches(5, "_Z4sum2v"));
}

}  // namespace
}  // namespace fovea::programs
