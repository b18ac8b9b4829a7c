// Threads for operators on tensors of the caller, which may have strides and 16-bit types and are
// not packed in advance.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/thread_pool.hpp"
#include "cpu/worker.hpp"

namespace fovea::cpu {

/// Runs tasks on up to `count` threads of a pool that all operators of the process share.
class HostThreads {
 public:
  explicit HostThreads(int count) : count_(count) {}

  [[nodiscard]] int count() const { return count_; }

  /// Calls body(i) for i in [0, count), on any of the threads.
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

  /// Returns the worker of the calling thread.
  [[nodiscard]] static Worker& worker();

 private:
  [[nodiscard]] ThreadPool& pool() const;

  int count_;
};

}  // namespace fovea::cpu
