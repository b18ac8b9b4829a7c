// Best: the best rows of a search so far. is_better: the order of matches.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "fovea/search.hpp"

namespace fovea::search {

/// Orders matches: higher scores first, equal scores by row number.
[[nodiscard]] inline bool is_better(const Match& a, const Match& b) {
  return a.score > b.score || (a.score == b.score && a.row < b.row);
}

/// The best k rows so far: a heap whose front is the worst of them.
class Best {
 public:
  explicit Best(std::size_t k) : k_(k) {}

  /// Returns the score that a row must exceed, or equal with a smaller row number.
  [[nodiscard]] double floor() const { return heap_.size() < k_ ? -INFINITY : heap_.front().score; }
  void offer(const Match& match) {
    if (heap_.size() == k_) {
      if (!is_better(match, heap_.front())) {
        return;
      }
      std::pop_heap(heap_.begin(), heap_.end(), is_better);
      heap_.back() = match;
    } else {
      heap_.push_back(match);
    }
    std::push_heap(heap_.begin(), heap_.end(), is_better);
  }
  [[nodiscard]] const std::vector<Match>& matches() const { return heap_; }

 private:
  std::size_t k_;
  std::vector<Match> heap_;
};

}  // namespace fovea::search
