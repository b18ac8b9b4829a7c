// Report: passes the total progress of all threads of a search to a SearchProgress.
#pragma once

#include <cstdint>
#include <mutex>

#include "fovea/search.hpp"

namespace fovea::search {

class Report {
 public:
  Report(const SearchProgress& progress, std::int64_t total) : progress_(progress), total_(total) {}

  /// Adds to the progress. Thread-safe; only one thread at a time runs the callback.
  void add(std::int64_t count) {
    if (progress_) {
      const std::lock_guard lock(mutex_);
      done_ += count;
      progress_(done_, total_);
    }
  }

 private:
  const SearchProgress& progress_;
  std::mutex mutex_;
  std::int64_t done_ = 0;
  std::int64_t total_;
};

}  // namespace fovea::search
