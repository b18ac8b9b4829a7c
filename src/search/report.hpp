// Report: tells a SearchProgress how far the threads of a search are together.
#pragma once

#include <cstdint>
#include <mutex>

#include "fovea/search.hpp"

namespace fovea::search {

class Report {
 public:
  Report(const SearchProgress& progress, std::int64_t total) : progress_(progress), total_(total) {}

  /// Any thread; the calls of the function take turns.
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
