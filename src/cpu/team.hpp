// Team: threads that run the network together on the same images.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "cpu/page_buffer.hpp"
#include "ops/backend.hpp"

namespace fovea::cpu {

/// A barrier for a fixed number of threads that spins before it sleeps, because operators take
/// microseconds. When a thread has failed, `abort` releases the others.
class TeamBarrier {
 public:
  explicit TeamBarrier(int size) : size_(size) {}

  /// Returns when all threads have arrived. Throws fovea::Error after `abort`.
  void arrive_and_wait();
  void abort();

 private:
  void throw_if_aborted() const;

  int size_;
  std::atomic<int> arrived_{0};
  std::atomic<std::uint32_t> generation_{0};
  std::atomic<bool> aborted_{false};
};

/// The state that the threads of a team share.
class Team {
 public:
  explicit Team(int size) : size_(size), barrier_(size) {}

  [[nodiscard]] int size() const { return size_; }

  /// Calls task(index) for [0, count), distributed over the threads of the team, all of which must
  /// call this. Returns when all tasks are done.
  template <typename Task>
  void for_each(int rank, unsigned& phase, std::int64_t count, const Task& task) {
    if (size_ == 1) {
      for (std::int64_t index = 0; index < count; ++index) {
        task(index);
      }
      return;
    }
    // Two counters alternate. All threads have passed the barrier that ended the use of the other
    // one, so it can be reset now; the barrier below ends the use of this one.
    std::atomic<std::int64_t>& next = next_[phase];
    phase ^= 1U;
    if (rank == 0) {
      next_[phase].store(0, std::memory_order_relaxed);
    }
    for (;;) {
      const std::int64_t index = next.fetch_add(1, std::memory_order_relaxed);
      if (index >= count) {
        break;
      }
      task(index);
    }
    barrier_.arrive_and_wait();
  }

  /// Resets the counters. Call this before the threads start, all with phase 0.
  void reset() {
    next_[0].store(0, std::memory_order_relaxed);
    next_[1].store(0, std::memory_order_relaxed);
  }

  TeamBarrier& barrier() { return barrier_; }

  // Written by rank 0, read by all after a barrier.
  ops::Slice slice;
  std::vector<std::int32_t> shapes;  // image shapes of the slice
  PageBuffer workspace;
  PageBuffer scratch;
  PageBuffer packed;  // packed A of the current product

 private:
  int size_;
  TeamBarrier barrier_;
  std::atomic<std::int64_t> next_[2]{};
};

}  // namespace fovea::cpu
