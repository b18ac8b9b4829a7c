// Which schedules are run of many.
#include "lab/emulation/schedule_search.hpp"

#include <mutex>
#include <set>

#include <gtest/gtest.h>

namespace fovea::emulation {
namespace {

// Numbers of the schedules that are run, where those from `wrong` on are not clean.
std::set<std::size_t> numbers_run(const ScheduleRange& range, std::size_t wrong,
                                  std::size_t& first) {
  std::set<std::size_t> numbers;
  std::mutex mutex;
  first = search_schedules(range, [&](std::size_t number) {
    const std::scoped_lock lock(mutex);
    EXPECT_TRUE(numbers.insert(number).second);
    return number < wrong;
  });
  return numbers;
}

TEST(ScheduleSearch, RunsUpToTheFirstThatIsNotClean) {
  for (const int threads : {1, 4}) {
    std::size_t first = 0;
    const auto clean = numbers_run({.begin = 2, .end = 9, .threads = threads}, 100, first);
    EXPECT_EQ(clean, (std::set<std::size_t>{2, 3, 4, 5, 6, 7, 8}));
    EXPECT_EQ(first, 9U);
    const auto ran = numbers_run({.end = 1000, .threads = threads}, 20, first);
    EXPECT_EQ(first, 20U);
    for (std::size_t number = 0; number <= first; ++number) {
      EXPECT_TRUE(ran.contains(number));
    }
    EXPECT_LT(ran.size(), 200U);
    const auto all = numbers_run({.end = 50, .all = true, .threads = threads}, 20, first);
    EXPECT_EQ(all.size(), 50U);
    EXPECT_EQ(first, 20U);
  }
}

TEST(ScheduleSearch, ThereMayBeNone) {
  std::size_t first = 0;
  EXPECT_TRUE(numbers_run({.begin = 1, .end = 1, .threads = 0}, 0, first).empty());
  EXPECT_EQ(first, 1U);
  EXPECT_TRUE(numbers_run({.begin = 1, .end = 0}, 0, first).empty());
}

}  // namespace
}  // namespace fovea::emulation
