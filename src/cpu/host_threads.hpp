// Threads for operators on tensors that somebody else holds: strides, 16-bit types, nothing packed
// ahead.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/thread_pool.hpp"
#include "cpu/worker.hpp"

namespace fovea::cpu {

/// A number of threads, which all operators of the process share.
class HostThreads {
 public:
  explicit HostThreads(int count) : count_(count) {}

  [[nodiscard]] int count() const { return count_; }

  /// Calls body(i) for [0, count), by any of the threads.
  template <typename Body>
  void share(std::int64_t count, const Body& body) const {
    if (std::min<std::int64_t>(count, count_) <= 1) {
      for (std::int64_t i = 0; i < count; ++i) {
        body(i);
      }
      return;
    }
    pool().parallel_for(static_cast<std::size_t>(count),
                        [&](std::size_t index, int) { body(static_cast<std::int64_t>(index)); });
  }

  /// The calling thread's worker.
  [[nodiscard]] static Worker& worker();

 private:
  [[nodiscard]] ThreadPool& pool() const;

  int count_;
};

}  // namespace fovea::cpu
