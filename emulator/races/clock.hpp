// Vector clocks: up to which epoch each actor's accesses happen before.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace emu::races {

/// Actor of a cluster: its warps come first, from 1 on, then the channels of its asynchronous work.
/// Component 0 of a clock says whether the previous grid has been waited for.
using Actor = std::uint32_t;
constexpr Actor kGridWait = 0;

class Clock {
 public:
  [[nodiscard]] std::uint32_t at(Actor actor) const {
    return actor < epochs_.size() ? epochs_[actor] : 0;
  }
  /// Sets an actor's epoch, unless it is later already.
  void raise(Actor actor, std::uint32_t epoch) {
    if (actor >= epochs_.size()) {
      epochs_.resize(actor + 1);
    }
    epochs_[actor] = std::max(epochs_[actor], epoch);
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

/// Clocks of a warp: what happens before its own instructions, and before what it starts in the
/// asynchronous proxy. Whatever synchronises threads carries all of them.
struct Order {
  Clock generic{};
  Clock async_shared{};  // generic writes to shared memory that a proxy fence has covered
  Clock async_global{};
  Clock init{};  // mbarriers that fence.mbarrier_init has covered
  /// What has ended and what has been issued in tensor memory, up to the last
  /// tcgen05.fence::before_thread_sync of each warp; others see it after a
  /// fence::after_thread_sync.
  Clock tensor_ended{};
  Clock tensor_issued{};

  void join(const Order& other) {
    generic.join(other.generic);
    async_shared.join(other.async_shared);
    async_global.join(other.async_global);
    join_relaxed(other);
  }
  /// Joins what relaxed operations carry, too.
  void join_relaxed(const Order& other) {
    init.join(other.init);
    tensor_ended.join(other.tensor_ended);
    tensor_issued.join(other.tensor_issued);
  }
  void clear() { *this = {}; }
};

}  // namespace emu::races
