// The rate of a progress line: steady between batches, falling when nothing happens.
#include "core/rate.hpp"

#include <chrono>

#include <gtest/gtest.h>

namespace fovea::testing {
namespace {

using std::chrono::milliseconds;
const Rate::Clock::time_point kStart{};

TEST(Rate, IsZeroBeforeAnythingIsDone) {
  Rate rate;
  rate.set(kStart, 5);  // not started
  EXPECT_EQ(rate.per_second(kStart), 0);
  rate.start(kStart, 5);
  EXPECT_EQ(rate.per_second(kStart + milliseconds(100)), 0);
}

TEST(Rate, DoesNotSagBetweenBatches) {
  Rate rate;
  rate.start(kStart);
  for (int batch = 1; batch <= 20; ++batch) {
    const auto end = kStart + batch * milliseconds(4000);
    rate.set(end, static_cast<std::uint64_t>(batch) * 32);
    for (const int later : {0, 1000, 2000, 3999}) {
      EXPECT_DOUBLE_EQ(rate.per_second(end + milliseconds(later)), 8.0) << batch << ' ' << later;
    }
  }
}

TEST(Rate, IsTheMeanOfUnevenBatches) {
  Rate rate;
  rate.start(kStart);
  rate.set(kStart + milliseconds(1000), 10);
  rate.set(kStart + milliseconds(3000), 100);
  rate.set(kStart + milliseconds(4000), 120);
  EXPECT_DOUBLE_EQ(rate.per_second(kStart + milliseconds(4000)), 30.0);
}

TEST(Rate, FallsWhenNothingIsDone) {
  Rate rate;
  rate.start(kStart);
  rate.set(kStart + milliseconds(1000), 10);
  rate.set(kStart + milliseconds(2000), 20);
  EXPECT_DOUBLE_EQ(rate.per_second(kStart + milliseconds(4000)), 10.0);
  EXPECT_DOUBLE_EQ(rate.per_second(kStart + milliseconds(22000)), 1.0);
}

TEST(Rate, ForgetsWhatIsLongAgo) {
  Rate rate;
  rate.start(kStart);
  std::uint64_t done = 0;
  int time = 0;
  for (int i = 0; i < 3000; ++i) {
    rate.set(kStart + milliseconds(time += 10), done += 1);  // 100 per second
  }
  for (int i = 0; i < 3000; ++i) {
    rate.set(kStart + milliseconds(time += 10), done += 3);
  }
  EXPECT_NEAR(rate.per_second(kStart + milliseconds(time)), 300.0, 1e-6);
}

}  // namespace
}  // namespace fovea::testing
