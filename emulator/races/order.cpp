// Order of a warp: what happens before its next operations, and what its fences have covered.
#include "emulator/races/order.hpp"

namespace emu::races {
void Order::join(const Order& other) {
  generic.join(other.generic);
  async_shared.join(other.async_shared);
  async_global.join(other.async_global);
  join_relaxed(other);
  join_shared(others, other.others);
  join_shared(async_others, other.async_others);
  join_shared(fences, other.fences);
}

void Order::cover_async_global() {
  async_global.join(generic);
  join_shared(async_others, others);
}

Order Order::without_fences() const {
  Order order = *this;
  order.fences = nullptr;
  return order;
}

void Fences::join(const Fences& other) {
  for (std::size_t i = 0; i < kScopes; ++i) {
    join_shared(covered[i], other.covered[i]);
    observed[i].join(other.observed[i]);
  }
  observed_by_atomics.join(other.observed_by_atomics);
}

}  // namespace emu::races
