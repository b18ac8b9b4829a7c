// Order of a warp: what happens before its next operations, and what its fences have covered.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "emulator/races/clock.hpp"

namespace emu::races {

/// Threads among which an operation on memory is strong: none (a weak operation), those of the
/// block, of the cluster, or all.
enum class Scope : std::uint8_t { kNone, kBlock, kCluster, kDevice };
constexpr std::size_t kScopes = 3;  // without kNone
constexpr std::size_t index_of(Scope scope) {
  return static_cast<std::size_t>(scope) - 1;
}

/// Joins two values that are shared and never changed in place; null stands for nothing.
template <typename T>
void join_shared(std::shared_ptr<const T>& value, const std::shared_ptr<const T>& other) {
  if (other == nullptr || other == value) {
    return;
  }
  if (value == nullptr) {
    value = other;
    return;
  }
  auto joined = std::make_shared<T>(*value);
  joined->join(*other);
  value = std::move(joined);
}

/// Clocks of other clusters, by the cluster's number: accesses to global memory that happen before.
class ClusterClocks {
 public:
  [[nodiscard]] bool covers(std::uint32_t cluster, Actor actor, std::uint32_t epoch) const {
    const auto clock = clocks_.find(cluster);
    return clock != clocks_.end() && epoch <= clock->second.at(actor);
  }
  void join(std::uint32_t cluster, const Clock& clock) { clocks_[cluster].join(clock); }
  void join(const ClusterClocks& others) {
    for (const auto& [cluster, clock] : others.clocks_) {
      join(cluster, clock);
    }
  }
  [[nodiscard]] const std::map<std::uint32_t, Clock>& clocks() const { return clocks_; }

 private:
  std::map<std::uint32_t, Clock> clocks_;
};

struct Fences;

/// Clocks of a warp: what happens before its own instructions, and before the asynchronous work
/// that it starts. Synchronisation of threads carries all of them. What few kernels have is shared
/// between orders and never changed in place; null if there is nothing.
struct Order {
  Clock generic{};
  Clock async_shared{};  // generic writes to shared memory that a proxy fence has covered
  Clock async_global{};
  Clock init{};  // initialisations of mbarriers that fence.mbarrier_init has covered
  /// Operations on tensor memory that have ended or been issued, up to each warp's last
  /// tcgen05.fence::before_thread_sync; other warps see them after a fence::after_thread_sync.
  Clock tensor_ended{};
  Clock tensor_issued{};
  Clock before_end{};  // accesses that happen before the block's end, if not before its accesses
  /// The same as `generic` and `async_global`, for other clusters.
  std::shared_ptr<const ClusterClocks> others{};
  std::shared_ptr<const ClusterClocks> async_others{};
  std::shared_ptr<const Fences> fences{};

  void join(const Order& other);
  /// Joins the components that relaxed operations carry.
  void join_relaxed(const Order& other) {
    init.join(other.init);
    tensor_ended.join(other.tensor_ended);
    tensor_issued.join(other.tensor_issued);
    before_end.join(other.before_end);
  }
  /// Makes what happens before visible to asynchronous accesses to global memory.
  void cover_async_global();
  void clear() { *this = {}; }
  /// Returns the order without its fences.
  [[nodiscard]] Order without_fences() const;
  /// Calls change(fences) with a copy of the fences that becomes the order's own.
  template <typename Change>
  void change_fences(Change&& change);
};

/// Fences of threads, and what awaits one. The orders have no fences themselves.
struct Fences {
  /// What fences of each scope have covered; the next strong write releases it.
  std::array<std::shared_ptr<const Order>, kScopes> covered{};
  /// What strong reads have observed of threads of the same block, the same cluster and other
  /// clusters; a fence of that scope acquires it.
  std::array<Order, kScopes> observed{};
  /// What atomic operations have observed; a barrier of the block acquires it, too.
  Order observed_by_atomics{};

  void join(const Fences& other);
};

template <typename Change>
void Order::change_fences(Change&& change) {
  auto changed = fences == nullptr ? std::make_shared<Fences>() : std::make_shared<Fences>(*fences);
  change(*changed);
  fences = std::move(changed);
}

}  // namespace emu::races
