// Rotation: so many copies of a workload's tensors that none of them remains in the L2 cache until
// it is used again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu/device/device.hpp"
#include "lab/cards/workload.hpp"
#include "lab/check/placement.hpp"
#include "lab/measure/timer.hpp"

namespace fovea::lab {

class Rotation {
 public:
  Rotation(gpu::Device& device, const Workload& workload, gpu::Stream& stream) {
    const std::size_t min_bytes = 2 * device.info().l2_bytes;
    const std::size_t bytes = std::max<std::size_t>(workload.bytes(), 1);
    const std::size_t sets = std::clamp(min_bytes / bytes + 1, std::size_t{1}, kMaxSets);
    misses_cache_ = sets * bytes >= min_bytes;
    placements_.reserve(sets);
    for (std::size_t set = 0; set < sets; ++set) {
      placements_.push_back(std::make_unique<Placement>(device, workload, stream));
    }
  }

  [[nodiscard]] std::size_t sets() const { return placements_.size(); }
  /// Returns whether the sets exceed the cache, so that times include accesses to device memory.
  [[nodiscard]] bool misses_cache() const { return misses_cache_; }
  [[nodiscard]] Placement& first() const { return *placements_.front(); }

  /// Returns a contender that calls `enqueue(operands, stream)` for one set after the other. The
  /// rotation must outlive it.
  template <typename Enqueue>
  [[nodiscard]] Contender contender(const std::string& name, Enqueue enqueue) const {
    return {.name = name,
            .sets = static_cast<int>(sets()),
            .enqueue = [this, enqueue = std::move(enqueue)](int set, gpu::Stream& stream) {
              enqueue(placements_[static_cast<std::size_t>(set)]->operands(), stream);
            }};
  }

 private:
  static constexpr std::size_t kMaxSets = 256;  // fewer than the runs in a sample

  std::vector<std::unique_ptr<Placement>> placements_;
  bool misses_cache_ = false;
};

}  // namespace fovea::lab
