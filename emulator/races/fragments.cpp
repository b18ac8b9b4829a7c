// Happens-before order among the accesses of one warp while its lanes have diverged.
#include "emulator/races/fragments.hpp"

#include <algorithm>
#include <utility>

namespace emu::races {

Fragments::Id Fragments::create(Id parent) {
  const auto id = static_cast<Id>(nodes_.size());
  nodes_.push_back({.parent = parent, .joined_fragment = id});
  return id;
}

void Fragments::join(Id fragment, Id into) {
  // Fragments between the two have diverged for good.
  while (fragment != into && fragment != 0) {
    nodes_[fragment].joined_fragment = into;
    nodes_[fragment].first_later = static_cast<Id>(nodes_.size());
    fragment = nodes_[fragment].parent;
  }
}

void Fragments::run(Id fragment, std::uint32_t epoch) {
  current_ = fragment;
  if (fragment == 0) {  // all lanes run together, after all earlier operations
    nodes_.resize(1);
    turns_.clear();
  } else {
    turns_.push_back({.epoch = epoch, .fragment = fragment});
  }
}

void Fragments::meet(std::uint32_t epoch) {
  turns_.clear();
  if (current_ != 0) {
    turns_.push_back({.epoch = epoch, .fragment = current_});
  }
}

bool Fragments::is_before(std::uint32_t epoch) const {
  const auto next_turn = std::ranges::upper_bound(turns_, epoch, {}, &Turn::epoch);
  if (next_turn == turns_.begin()) {
    return true;
  }
  // Climbs from the fragment of the epoch to those that it has joined, up to the current fragment
  // or one of its ancestors. A fragment that has joined an ancestor happens before the
  // fragments that diverged from the ancestor later, whose numbers are at least `first_later`, but
  // not before earlier ones.
  Id earlier = std::prev(next_turn)->fragment;
  Id first_later = 0;
  while (true) {
    Id ancestor = current_;
    auto child = static_cast<Id>(nodes_.size());
    while (ancestor != earlier && ancestor != 0) {
      child = std::exchange(ancestor, nodes_[ancestor].parent);
    }
    if (ancestor == earlier) {
      return child >= first_later;
    }
    if (nodes_[earlier].joined_fragment == earlier) {
      return false;
    }
    first_later = nodes_[earlier].first_later;
    earlier = nodes_[earlier].joined_fragment;
  }
}

}  // namespace emu::races
