// Schedules of a launch that end in any order.
#include "lab/programs/schedule_totals.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace fovea::programs {
namespace {

// Adds schedules in this order; 4 and 6 have findings, and each has as many operations as its
// number.
void add(ScheduleTotals& totals, const std::vector<std::uint64_t>& order) {
  for (const std::uint64_t schedule : order) {
    emu::Report report{.steps = schedule, .ignored_by = {0, 1}};
    if (schedule == 4 || schedule == 6) {
      report.findings.push_back({.kind = emu::FindingKind::kRace, .message = "found"});
    }
    totals.add(schedule, std::move(report));
  }
}

TEST(ScheduleTotalsTest, CountsUpToTheFirstThatIsNotClean) {
  const std::vector<std::vector<std::uint64_t>> orders = {
      {1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1}, {4, 6, 1, 3, 2}};
  for (const std::vector<std::uint64_t>& order : orders) {
    ScheduleTotals totals(1, false);
    add(totals, order);
    EXPECT_EQ(totals.schedules(), 4U);
    EXPECT_EQ(totals.operations(), 10U);
    EXPECT_EQ(totals.ignored_by(), (std::vector<std::uint64_t>{0, 4}));
    ASSERT_EQ(totals.findings().size(), 1U);
    EXPECT_EQ(totals.findings().at(4).front().message, "found");
  }
}

TEST(ScheduleTotalsTest, CountsAllIfThatIsAskedFor) {
  ScheduleTotals totals(1, true);
  add(totals, {3, 6, 1, 5, 2, 4});
  EXPECT_EQ(totals.schedules(), 6U);
  EXPECT_EQ(totals.operations(), 21U);
  EXPECT_EQ(totals.findings().size(), 2U);
}

}  // namespace
}  // namespace fovea::programs
