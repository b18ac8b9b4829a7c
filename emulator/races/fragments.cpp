// Which accesses of a warp come before others of the same warp, while its lanes are apart.
#include "emulator/races/fragments.hpp"

#include <algorithm>

namespace emu::races {

Fragments::Id Fragments::part(Id parent) {
  const auto id = static_cast<Id>(nodes_.size());
  nodes_.push_back({.parent = parent, .joined = id});
  return id;
}

void Fragments::join(Id fragment, Id into) {
  // What lies between them has parted for good.
  while (fragment != into && fragment != 0) {
    nodes_[fragment].joined = into;
    fragment = nodes_[fragment].parent;
  }
}

void Fragments::run(Id fragment, std::uint32_t epoch) {
  current_ = fragment;
  if (fragment == 0) {  // all are together, and all there was comes before
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
  Id then = std::prev(after)->fragment;
  while (nodes_[then].joined != then) {
    then = nodes_[then].joined;
  }
  Id now = current_;
  while (now != then && now != 0) {
    now = nodes_[now].parent;
  }
  return now == then;
}

}  // namespace emu::races
