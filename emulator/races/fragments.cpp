// Happens-before order among the accesses of one warp while its lanes have diverged.
#include "emulator/races/fragments.hpp"

#include <algorithm>
#include <utility>

namespace emu::races {

Fragments::Id Fragments::part(Id parent) {
  const auto id = static_cast<Id>(nodes_.size());
  nodes_.push_back({.parent = parent, .joined = id});
  return id;
}

void Fragments::join(Id fragment, Id into) {
  // Fragments between the two have diverged for good.
  while (fragment != into && fragment != 0) {
    nodes_[fragment].joined = into;
    nodes_[fragment].since = static_cast<Id>(nodes_.size());
    fragment = nodes_[fragment].parent;
  }
}

void Fragments::run(Id fragment, std::uint32_t epoch) {
  current_ = fragment;
  if (fragment == 0) {  // the warp is whole, so all its earlier operations come before
    nodes_.resize(1);
    turns_.clear();
  } else {
    turns_.push_back({.epoch = epoch, .fragment = fragment});
  }
}

bool Fragments::is_before(std::uint32_t epoch) const {
  const auto after = std::ranges::upper_bound(turns_, epoch, {}, &Turn::epoch);
  if (after == turns_.begin()) {
    return true;
  }
  // Climbs from the fragment of the epoch to those that it has joined, up to the current fragment
  // or one of its ancestors. What has joined an ancestor happens before fragments that diverged
  // from the ancestor later, whose numbers are greater than `since`, and not before earlier ones.
  Id then = std::prev(after)->fragment;
  Id since = 0;
  while (true) {
    Id now = current_;
    auto below = static_cast<Id>(nodes_.size());
    while (now != then && now != 0) {
      below = std::exchange(now, nodes_[now].parent);
    }
    if (now == then) {
      return below >= since;
    }
    if (nodes_[then].joined == then) {
      return false;
    }
    since = nodes_[then].since;
    then = nodes_[then].joined;
  }
}

}  // namespace emu::races
