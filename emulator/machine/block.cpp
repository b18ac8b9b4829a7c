// A block of threads: its warps, its shared memory and its barriers.
#include "emulator/machine/block.hpp"

#include <algorithm>
#include <bit>

#include "emulator/machine/cluster.hpp"

namespace emu {

Block::Block(Cluster& cluster, std::uint32_t rank, std::array<std::uint32_t, 3> index)
    : shared(cluster.grid().shared_bytes, std::byte{0xCB}),
      is_shared_written(shared.size()),
      cluster_(cluster),
      grid_(cluster.grid()),
      rank_(rank),
      index_(index) {
  const Grid& grid = grid_;
  if (grid.program->has_group_scratch) {
    std::fill(shared.begin() + kGroupScratch, shared.begin() + kReservedSharedBytes, std::byte{0});
    std::fill(is_shared_written.begin() + kGroupScratch,
              is_shared_written.begin() + kReservedSharedBytes, std::uint8_t{1});
  }
  const std::uint32_t threads = grid.threads[0] * grid.threads[1] * grid.threads[2];
  for (std::uint32_t first = 0; first < threads; first += kLanes) {
    const std::uint32_t count = std::min<std::uint32_t>(kLanes, threads - first);
    const Lanes lanes = count == kLanes ? kAllLanes : (Lanes{1} << count) - 1;
    warps_.emplace_back(*this, static_cast<int>(first / kLanes), lanes);
  }
}

bool Block::is_done() const {
  return std::ranges::all_of(warps_, [](const Warp& warp) { return warp.is_done(); });
}

std::uint32_t Block::live_threads() const {
  std::uint32_t count = 0;
  for (const Warp& warp : warps_) {
    count += static_cast<std::uint32_t>(std::popcount(warp.live_lanes()));
  }
  return count;
}

races::LaneLookup Block::lane_lookup() const {
  return {.words = &lane_shadow,
          .bytes = &byte_lane_shadow,
          .first_warp = warps_.front().actor(),
          .warps = static_cast<races::Actor>(warps_.size())};
}

void Block::end_warp() {
  if (is_done()) {
    cluster_.end_block(*this);
  } else {
    cluster_.release_barrier();
  }
}

void Barrier::complete_votes() {
  if (has_votes) {
    constexpr std::int64_t kKept = 64;  // a warp is late by one generation at most, or two
    results[generation] = votes;
    results.erase(results.begin(), results.lower_bound(generation - kKept));
    votes = {};
    has_votes = false;
  }
}

// Tells the race detector of warps all of whose lanes have come to the barrier, but apart.
void Block::meet_lanes(const Barrier& barrier) {
  for (std::size_t i = 0; i < barrier.arrived_lanes.size(); ++i) {
    const Warp& warp = warps_[i];
    if (barrier.arrived_lanes[i] != 0 && (warp.live_lanes() & ~barrier.arrived_lanes[i]) == 0) {
      cluster_.races()->meet_lanes(warp.actor());
    }
  }
}

void Block::release_barriers() {
  for (Barrier& barrier : barriers) {
    const std::uint32_t expected =
        barrier.expected_threads != 0 ? barrier.expected_threads : live_threads();
    if (barrier.arrived_threads > 0 && barrier.arrived_threads >= expected) {
      barrier.arrived_threads = 0;
      barrier.expected_threads = 0;
      barrier.complete_votes();
      ++barrier.generation;
      if (cluster_.races() != nullptr) {
        cluster_.races()->release(barrier.sync_point);
        meet_lanes(barrier);
      }
      barrier.arrived_lanes.clear();
    }
  }
  cluster_.release_barrier();
}

}  // namespace emu
