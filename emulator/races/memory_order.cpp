// Order that fences and strong accesses to memory make between threads.
#include <algorithm>
#include <memory>
#include <utility>

#include "emulator/races/races.hpp"

namespace emu::races {

// Joins a release into an order of this cluster. Clocks of shared and tensor memory mean nothing in
// another cluster.
void ClusterRaces::acquire_from(Order& order, const Release& release) const {
  if (release.cluster == number_) {
    order.join(*release.order);
    return;
  }
  const auto join = [&](const Clock& clock, const std::shared_ptr<const ClusterClocks>& others,
                        Clock& to, std::shared_ptr<const ClusterClocks>& to_others) {
    auto joined = to_others == nullptr ? std::make_shared<ClusterClocks>()
                                       : std::make_shared<ClusterClocks>(*to_others);
    joined->join(release.cluster, clock);
    if (others != nullptr) {
      for (const auto& [cluster, known] : others->clocks()) {
        if (cluster == number_) {
          to.join(known);
        } else {
          joined->join(cluster, known);
        }
      }
    }
    to_others = std::move(joined);
    if (release.grid == grid_ && clock.at(kGridWait) != 0) {
      to.raise(kGridWait, clock.at(kGridWait));
    }
  };
  join(release.order->generic, release.order->others, order.generic, order.others);
  join(release.order->async_global, release.order->async_others, order.async_global,
       order.async_others);
}

void ClusterRaces::release_at(Location& location, Actor warp, Scope scope,
                              const std::shared_ptr<const Order>& order) const {
  const std::uint32_t block = block_of(warp);
  const auto known = std::ranges::find_if(location, [&](const Release& release) {
    return release.cluster == number_ && release.block == block && release.scope == scope;
  });
  if (known != location.end()) {
    join_shared(known->order, order);
  } else {
    location.push_back(
        {.scope = scope, .grid = grid_, .cluster = number_, .block = block, .order = order});
  }
}

std::shared_ptr<const Order> ClusterRaces::released_order(Actor warp) const {
  auto released = std::make_shared<Order>(state(warp).order.without_fences());
  lane_releases_.raise_warps(released->generic);
  lane_releases_.raise_warps(released->async_global);
  return released;
}

void ClusterRaces::fence(Actor warp, Scope scope, bool acquires, bool releases) {
  Order& order = state(warp).order;
  if (acquires && order.fences != nullptr) {
    for (std::size_t i = 0; i <= index_of(scope); ++i) {
      order.join(Order(order.fences->observed.at(i)));
    }
  }
  if (releases) {
    fence_tensor_if_implied(warp);
    order.change_fences(
        [&](Fences& fences) { fences.covered.at(index_of(scope)) = released_order(warp); });
    advance(warp);
  }
}

// Takes the releases whose scope includes this thread, and that this access's scope includes.
void ClusterRaces::read_strong(Actor warp, const StrongAccess& access, const Location& location) {
  Order& order = state(warp).order;
  for (const Release& release : location) {
    const Scope needed = release.cluster != number_        ? Scope::kDevice
                         : release.block != block_of(warp) ? Scope::kCluster
                                                           : Scope::kBlock;
    if (std::min(release.scope, access.scope) < needed) {
      continue;
    }
    if (access.acquires) {
      acquire_from(order, release);
      continue;
    }
    order.change_fences([&](Fences& fences) {
      acquire_from(fences.observed.at(index_of(needed)), release);
      if (access.is_atomic) {
        acquire_from(fences.observed_by_atomics, release);
      }
    });
  }
}

void ClusterRaces::write_strong(Actor warp, const StrongAccess& access, Location& location) {
  Order& order = state(warp).order;
  if (!access.is_atomic) {
    location.clear();
  }
  if (access.releases) {
    fence_tensor_if_implied(warp);
    release_at(location, warp, access.scope, released_order(warp));
    advance(warp);
  }
  if (order.fences != nullptr) {
    for (const Scope scope : {Scope::kBlock, Scope::kCluster, Scope::kDevice}) {
      const auto& covered = order.fences->covered.at(index_of(scope));
      if (covered != nullptr) {
        release_at(location, warp, std::min(scope, access.scope), covered);
      }
    }
  }
}

}  // namespace emu::races
