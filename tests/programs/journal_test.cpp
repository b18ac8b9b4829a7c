// The journal that the library in a program's process writes, and settings on their way there.
#include "lab/programs/journal.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
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
  Journal journal({.journal = file_});
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
  journal.add_ignored({0, 2});
  journal.add_ignored({0, 0, 0});
  journal.add_ignored({0, 1, 4});
  const JournalSummary summary = read_journal(file_);
  EXPECT_EQ(summary.launches, 3U);
  EXPECT_EQ(summary.schedules, 15U);
  EXPECT_EQ(summary.operations, 30U);
  ASSERT_EQ(summary.findings.size(), 2U);
  EXPECT_EQ(summary.findings[0].launches, 3U);
  EXPECT_EQ(summary.findings[0].launch, 1U);
  EXPECT_EQ(summary.findings[0].seed, 7U);
  EXPECT_EQ(summary.findings[0].finding.kind, emu::FindingKind::kRace);
  EXPECT_EQ(to_json(summary.findings[1])["launch"], 4);
  EXPECT_EQ(summary.ignored_by, (std::vector<std::uint64_t>{0, 3, 4}));
  EXPECT_EQ(summary.refusals, std::vector<std::string>{"no"});
  EXPECT_EQ(summary.notes, std::vector<std::string>{"note"});
}

TEST_F(JournalTest, LeavesOutLinesThatAreNotComplete) {
  Journal({.journal = file_}).add({.number = 1, .kernel = "k"});
  std::ofstream(file_, std::ios::app) << R"({"event": "laun)";
  EXPECT_EQ(read_journal(file_).launches, 1U);
}

TEST_F(JournalTest, FindingsTravelAsAWhole) {
  const emu::Finding finding{.kind = emu::FindingKind::kNoTensorFence,
                             .message = "m",
                             .kernel = "k",
                             .instruction = "i",
                             .line = 3,
                             .source = "a.cu:4",
                             .block = {1, 2, 3},
                             .warp = -1,
                             .lanes = 0xFFFFFFFF,
                             .place = "tile[3]",
                             .other = emu::EarlierAccess{.kernel = "o", .line = 7, .warp = 5},
                             .count = 9};
  Journal({.journal = file_}).add_finding({.number = 2}, finding, 5);
  const emu::Finding read = read_journal(file_).findings.at(0).finding;
  EXPECT_EQ(read.text(), finding.text());
}

// The program may have written to the journal itself.
TEST_F(JournalTest, WhatNoJournalHasIsAnError) {
  Journal({.journal = file_})
      .add_finding({.number = 1}, {.kind = emu::FindingKind::kRace, .message = "m"}, 0);
  std::ifstream input(file_);
  std::string line;
  std::getline(input, line);
  const nlohmann::json finding = nlohmann::json::parse(line);
  const nlohmann::json launch = {{"event", "launch"}, {"number", 1},     {"kernel", "k"},
                                 {"schedules", 1},    {"operations", 1}, {"seconds", 0.5},
                                 {"chosen", true}};
  const nlohmann::json note = {{"event", "note"}, {"text", "t"}};
  const nlohmann::json ignored = {{"event", "ignored"}, {"counts", {1, 2}}};
  const auto error_of = [&](const nlohmann::json& json) -> std::string {
    std::ofstream(file_) << json.dump() << '\n';
    try {
      static_cast<void>(read_journal(file_));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const auto is_told = [&](const nlohmann::json& json, const std::string& field) {
    return error_of(json).find("line 1: " + field) != std::string::npos;
  };
  for (const nlohmann::json& event : {finding, launch, note, ignored}) {
    EXPECT_EQ(error_of(event), "") << event;
    for (const auto& [key, value] : event.items()) {
      if (key == "number") {
        continue;  // nobody reads it
      }
      for (const nlohmann::json& wrong :
           {nlohmann::json(nullptr), nlohmann::json(-1), nlohmann::json({{"x", "y"}})}) {
        nlohmann::json changed = event;
        changed[key] = wrong;
        const bool is_right = key == "seconds" && wrong.is_number();
        EXPECT_EQ(error_of(changed).empty(), is_right) << changed;
      }
    }
  }
  for (const auto& [key, value] : finding["finding"].items()) {
    nlohmann::json changed = finding;
    changed["finding"][key] = nlohmann::json::array({nlohmann::json::array()});
    EXPECT_TRUE(is_told(changed, "finding." + key)) << changed;
  }
  nlohmann::json unknown = finding;
  unknown["finding"]["kind"] = "nonsense";
  EXPECT_TRUE(is_told(unknown, "finding.kind: unknown kind"));
  EXPECT_NE(error_of(nlohmann::json::array({1})), "");
  EXPECT_NE(error_of("text"), "");
}

TEST(Settings, MalformedOnesAreAnError) {
  const auto is_error = [](const std::string& text) {
    setenv(kSettingsVariable, text.c_str(), 1);
    try {
      static_cast<void>(settings_from_environment());
    } catch (const Error&) {
      unsetenv(kSettingsVariable);
      return true;
    }
    unsetenv(kSettingsVariable);
    return false;
  };
  const auto right = nlohmann::json::parse(to_text({.journal = "/tmp/a"}));
  EXPECT_FALSE(is_error(right.dump()));
  for (const auto& [key, value] : std::vector<std::pair<std::string, nlohmann::json>>{
           {"schedules", 0},
           {"schedules", "2"},
           {"threads", 0},
           {"arch", 70},
           {"policy", 99},
           {"policy", "lazy"},
           {"resident_blocks", 0},
           {"max_findings", 0},
           {"all", 1},
           {"ignored", {{{"kind", 200}, {"line", 1}, {"source", ""}}}},
           {"ignored", {3}}}) {
    nlohmann::json changed = right;
    changed[key] = value;
    EXPECT_TRUE(is_error(changed.dump())) << changed;
  }
  EXPECT_TRUE(is_error("[]"));
  EXPECT_TRUE(is_error("{"));
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
