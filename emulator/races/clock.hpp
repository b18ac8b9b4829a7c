// Vector clocks: for each actor, the epoch up to which its accesses happen before.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace emu::races {

/// Number of an actor in its cluster: warps first, from 1, then the channels of asynchronous work.
/// Component 0 of a clock records whether the previous grid has been waited for.
using Actor = std::uint32_t;
constexpr Actor kGridWait = 0;

class Clock {
 public:
  [[nodiscard]] std::uint32_t at(Actor actor) const {
    return actor < epochs_.size() ? epochs_[actor] : 0;
  }
  /// Raises an actor's component to the epoch, unless it is later already.
  void raise(Actor actor, std::uint32_t epoch) {
    if (actor >= epochs_.size()) {
      epochs_.resize(actor + 1);
    }
    epochs_[actor] = std::max(epochs_[actor], epoch);
  }
  /// Lowers an actor's component to the epoch, unless it is earlier already.
  void lower(Actor actor, std::uint32_t epoch) {
    if (actor < epochs_.size()) {
      epochs_[actor] = std::min(epochs_[actor], epoch);
    }
  }
  void join(const Clock& other) { join_from(other, 0); }
  /// Joins the components of actors from `first` on.
  void join_from(const Clock& other, Actor first) {
    if (other.epochs_.size() > epochs_.size()) {
      epochs_.resize(other.epochs_.size());
    }
    for (std::size_t i = first; i < other.epochs_.size(); ++i) {
      epochs_[i] = std::max(epochs_[i], other.epochs_[i]);
    }
  }
  void clear() { epochs_.clear(); }

 private:
  std::vector<std::uint32_t> epochs_;
};

}  // namespace emu::races
