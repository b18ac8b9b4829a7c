// Rules: each fires on figures that it is for, and on no healthy profile.
#include "lab/profile/rules.hpp"

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "lab/h200_profiles.hpp"

namespace fovea::lab {
namespace {

using test::h200_profile;

std::vector<std::string> fired(const Profile& profile) {
  std::vector<std::string> names;
  for (const Finding& finding : findings(profile)) {
    names.emplace_back(finding.rule->name);
  }
  return names;
}

/// A real profile and what differs from it.
struct Sick {
  std::string from;
  std::map<std::string, double> figures;
};

Profile profile_of(const Sick& sick) {
  Profile profile = h200_profile(sick.from);
  for (const auto& [figure, value] : sick.figures) {
    profile.figures[figure] = value;
  }
  return profile;
}

/// Profiles by the rule that must come first.
const std::map<std::string, Sick>& sick_profiles() {
  static const std::map<std::string, Sick> all = {
      {"scattered stores",
       {"qkv",
        {{"bytes_per_store_sector", 4},
         {"write_path", 0.9},
         {"matrix_units", 0.6},
         {"stall_lg_throttle", 0.15}}}},
      {"too few warps", {"norm", {{"dram", 0.4}, {"l2", 0.5}}}},
      {"fewer stages than the latency",
       {"qkv", {{"matrix_units", 0.6}, {"full_wait", 0.16}, {"stall_long_scoreboard", 0.4}}}},
      {"roles out of step", {"attn", {{"dram", 0.4}, {"l2", 0.4}, {"barrier_wait", 0.3}}}},
      {"slow epilogue",
       {"patch", {{"matrix_units", 0.6}, {"epilogue_share", 0.5}, {"epilogue_wait", 0.6}}}},
      {"fences in the loop",
       {"wmma_big", {{"fences", 1e6}, {"stall_membar", 0.4}, {"issue", 0.2}}}},
      {"narrow global accesses", {"widen", {{"stall_lg_throttle", 0.5}}}},
      {"tails everywhere", {"qkv", {{"predicated_off", 0.25}}}},
      {"bound by memory", {"row", {}}},
      {"bank conflicts",
       {"wmma_big",
        {{"layout_conflict_share", 0.85}, {"bank_conflict_share", 0.8}, {"issue", 0.2}}}},
      {"spilled registers", {"wmma_big", {{"spill_share", 0.04}, {"registers", 40}}}},
      {"one CTA per SM",
       {"qkv", {{"matrix_units", 0.5}, {"registers", 255}, {"eligible_warps", 0.2}}}},
      {"grid smaller than the GPU", {"wmma", {}}},
      {"bound by instructions", {"scalar", {}}},
  };
  return all;
}

TEST(Rules, EachFiresOnWhatItIsFor) {
  ASSERT_EQ(rules().size(), sick_profiles().size());
  for (const auto& [name, sick] : sick_profiles()) {
    const auto names = fired(profile_of(sick));
    ASSERT_FALSE(names.empty()) << name;
    EXPECT_EQ(names.front(), name);
  }
}

TEST(Rules, NoneFiresOnAHealthyProfile) {
  for (const std::string name : {"qkv", "fc2_int8", "patch", "attn", "widen"}) {
    EXPECT_EQ(fired(h200_profile(name)), std::vector<std::string>()) << name;
  }
}

// A rule that fires on everything says nothing.
TEST(Rules, NoneFiresOnHalfOfTheRealProfiles) {
  std::map<std::string, int> times;
  const auto names = test::h200_names();
  for (const std::string& name : names) {
    for (const std::string& rule : fired(h200_profile(name))) {
      ++times[rule];
    }
  }
  for (const auto& [rule, count] : times) {
    EXPECT_LE(2 * count, static_cast<int>(names.size())) << rule;
  }
}

// Each condition alone keeps a rule from firing; of "any", all of them together.
TEST(Rules, EveryConditionCounts) {
  for (const Rule& rule : rules()) {
    const Profile sick = profile_of(sick_profiles().at(std::string(rule.name)));
    const auto cured = [&](std::span<const Condition> conditions) {
      Profile other = sick;
      for (const Condition& condition : conditions) {
        other.figures[std::string(condition.figure)] = condition.limit;
      }
      const auto names = fired(other);
      return std::ranges::find(names, rule.name) == names.end();
    };
    for (const Condition& condition : rule.all) {
      EXPECT_TRUE(cured({&condition, 1})) << rule.name << ": " << condition.figure;
    }
    EXPECT_TRUE(rule.any.empty() || cured(rule.any)) << rule.name;
  }
}

TEST(Rules, SayWhatIsMeantAndWhatToTry) {
  const Profile sick = profile_of(sick_profiles().at("scattered stores"));
  const std::string text = to_text(sick);
  EXPECT_NE(text.find("scattered stores: stores are scattered"), std::string::npos) << text;
  EXPECT_NE(text.find("bytes_per_store_sector 4"), std::string::npos) << text;
  EXPECT_NE(text.find("write_path 90.0%"), std::string::npos) << text;
  EXPECT_NE(text.find("try stage the tile through shared memory"), std::string::npos) << text;
  EXPECT_NE(text.find("tuning parameters: vector"), std::string::npos) << text;
  EXPECT_NE(to_text(h200_profile("qkv")).find("no rule applies"), std::string::npos);
  // At most three, the strongest.
  Profile all = sick;
  all.figures.insert_or_assign("spill_share", 0.1);
  all.figures.insert_or_assign("predicated_off", 0.12);
  all.figures.insert_or_assign("barrier_wait", 0.2);
  all.figures.insert_or_assign("layout_conflict_share", 0.2);
  EXPECT_GT(findings(all).size(), 3U);
  EXPECT_EQ(to_text(all).find("tails everywhere"), std::string::npos);
  EXPECT_NE(to_text(all).find("spilled registers"), std::string::npos);
}

// A profile without places knows nothing of its stages: that is not the same as no waiting.
TEST(Rules, AFigureThatIsNotThereMeetsNoCondition) {
  Profile profile = profile_of(sick_profiles().at("fewer stages than the latency"));
  profile.figures.erase("full_wait");
  const auto names = fired(profile);
  EXPECT_EQ(std::ranges::find(names, "fewer stages than the latency"), names.end());
}

}  // namespace
}  // namespace fovea::lab
