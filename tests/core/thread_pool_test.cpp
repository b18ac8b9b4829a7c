// ThreadPool: every index once, exceptions reach the caller, the pool survives them.
#include "core/thread_pool.hpp"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace fovea {
namespace {

TEST(ThreadPool, RunsEveryIndexOnce) {
  ThreadPool pool(4);
  for (const std::size_t count : {0, 1, 3, 1000}) {
    std::vector<std::atomic<int>> hits(count);
    std::atomic<bool> worker_in_range{true};
    pool.parallel_for(count, [&](std::size_t index, int worker) {
      hits[index]++;
      if (worker < 0 || worker >= pool.threads()) {
        worker_in_range = false;
      }
    });
    for (const std::atomic<int>& hit : hits) {
      EXPECT_EQ(hit, 1);
    }
    EXPECT_TRUE(worker_in_range);
  }
}

TEST(ThreadPool, RethrowsTheFirstErrorAndGoesOn) {
  ThreadPool pool(3);
  EXPECT_THROW(pool.parallel_for(100,
                                 [](std::size_t index, int) {
                                   if (index == 17) {
                                     throw std::runtime_error("seventeen");
                                   }
                                 }),
               std::runtime_error);
  std::atomic<int> sum{0};
  pool.parallel_for(10, [&](std::size_t index, int) { sum += static_cast<int>(index); });
  EXPECT_EQ(sum, 45);
}

TEST(ThreadPool, ConcurrentCallersTakeTurns) {
  ThreadPool pool(2);
  std::atomic<int> total{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        pool.parallel_for(8, [&](std::size_t, int) { total++; });
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  EXPECT_EQ(total, 4 * 50 * 8);
}

}  // namespace
}  // namespace fovea
