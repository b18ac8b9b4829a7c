// MemoryPool hands out no more than it has, in order.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/memory_pool.hpp"

namespace fovea {
namespace {

TEST(MemoryPool, NeverHandsOutMoreThanItHas) {
  constexpr std::size_t kSize = 100;
  MemoryPool pool(kSize);
  std::atomic<std::size_t> taken = 0;
  std::atomic<bool> exceeded = false;
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::size_t turn = 0; turn < 2000; ++turn) {
        const std::size_t bytes = (thread * 37 + turn * 13) % (kSize + 1);
        const MemoryPool::Lease lease = pool.take(bytes);
        exceeded = exceeded || (taken += bytes) > kSize;
        taken -= bytes;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_FALSE(exceeded);
  EXPECT_EQ(pool.take(kSize).bytes(), kSize);  // all has come back
}

TEST(MemoryPool, ALargeRequestIsNotPassedByByManySmallOnes) {
  MemoryPool pool(10);
  std::atomic<bool> served = false;
  MemoryPool::Lease small = pool.take(1);
  std::thread large([&] {
    const MemoryPool::Lease lease = pool.take(10);
    served = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it waits by now
  std::thread another([&] {
    const MemoryPool::Lease lease = pool.take(1);  // there is room, but it is not its turn
    EXPECT_TRUE(served);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  small.release();
  large.join();
  another.join();
}

// The order in which the two came does not matter.
TEST(MemoryPool, StopEndsTheWaitAndTheOtherGoesOn) {
  for (const bool stopped_first : {true, false}) {
    MemoryPool pool(10);
    MemoryPool::Lease all = pool.take(10);
    std::atomic<bool> stop = false;
    const auto is_stopped = [&] { EXPECT_THROW((void)pool.take(5, &stop), Interrupted); };
    const auto goes_on = [&] { EXPECT_EQ(pool.take(4).bytes(), 4U); };
    constexpr std::chrono::milliseconds kBegun{20};
    std::thread stopped;
    std::thread other;
    if (stopped_first) {
      stopped = std::thread(is_stopped);
      std::this_thread::sleep_for(kBegun);
      other = std::thread(goes_on);
    } else {
      other = std::thread(goes_on);
      std::this_thread::sleep_for(kBegun);
      stopped = std::thread(is_stopped);
    }
    std::this_thread::sleep_for(kBegun);
    stop = true;
    stopped.join();
    all.release();
    other.join();
    EXPECT_THROW((void)pool.take(11), ResourceError);
  }
}

}  // namespace
}  // namespace fovea
