// A cluster of blocks that can access each other's shared memory, and their asynchronous work.
#include "emulator/machine/cluster.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "emulator/machine/finding_log.hpp"

namespace emu {

Cluster::Cluster(Grid& grid, std::array<std::uint32_t, 3> index) : grid_(grid) {
  std::vector<std::array<std::uint32_t, 3>> places;
  for (std::uint32_t rank = 0; rank < grid.cluster_blocks(); ++rank) {
    const std::array<std::uint32_t, 3> offset = {rank % grid.cluster[0],
                                                 rank / grid.cluster[0] % grid.cluster[1],
                                                 rank / grid.cluster[0] / grid.cluster[1]};
    places.push_back({index[0] + offset[0], index[1] + offset[1], index[2] + offset[2]});
  }
  if (grid.races != nullptr) {
    const std::uint32_t threads = grid.threads[0] * grid.threads[1] * grid.threads[2];
    races_ = std::make_unique<races::ClusterRaces>(
        *grid.races,
        races::RunRaces::Record{
            .grid = &grid, .blocks = places, .warps = (threads + kLanes - 1) / kLanes},
        grid.number_in_run);
  }
  for (std::uint32_t rank = 0; rank < places.size(); ++rank) {
    blocks_.emplace_back(*this, rank, places[rank]);
  }
}

bool Cluster::is_done() const {
  return async_works_.empty() && std::ranges::all_of(blocks_, &Block::is_done);
}

void Cluster::end_block(Block& block) {
  for (const auto& work : async_works_) {
    if (work->needs(block)) {
      work->warp().report(
          FindingKind::kLifetime, work->op(), work->lanes(),
          fmt::format("it still accesses the shared memory of block ({}), which has ended",
                      fmt::join(block.index(), ",")));
    }
  }
  if (races_ != nullptr) {
    check_end(block);
  }
  check_mbarriers(block);
  check_tensor_memory(block);
  if (!block.has_released_next_grid) {
    block.has_released_next_grid = true;
    ++grid_.released_blocks;
    if (races_ != nullptr) {
      races_->release_grid_at_end(block.rank());
    }
  }
  ++grid_.ended_blocks;
  release_barrier();
}

// Checks that all accesses to the block's shared memory, by other blocks and by the block's
// asynchronous work, happen before the block's end in every schedule.
void Cluster::check_end(Block& block) const {
  const auto end = races_->end_of_block(block.rank(), grid_.checks_last_stores);
  const auto report = [&](const races::Access& access) {
    EarlierAccess earlier = earlier_access(*grid_.races, access);
    grid_.findings->add(
        {.kind = FindingKind::kLifetime,
         .message = fmt::format("block ({}) ends, and no synchronisation orders this access to its "
                                "shared memory before that",
                                fmt::join(block.index(), ",")),
         .kernel = std::move(earlier.kernel),
         .instruction = std::move(earlier.instruction),
         .line = earlier.line,
         .source = std::move(earlier.source),
         .block = earlier.block,
         .warp = earlier.warp});
  };
  const races::LaneLookup lanes = block.lane_lookup();
  races::View view = end.view();
  view.lanes = &lanes;
  if (const auto conflict = block.shadow.write(view, 0, block.shared.size())) {
    report(conflict->other);
  }
  for (const auto& [offset, mbarrier] : block.mbarriers) {
    for (const races::Access& access : mbarrier.remote_arrivals) {
      if (!races_->comes_before(access, end.prior_accesses)) {
        report(access);
      }
    }
    // Commits of other blocks may arrive late: the block must have waited for them before it ends.
    if (mbarrier.remote_commit.phase > mbarrier.awaited_phases) {
      report(mbarrier.remote_commit.access);
    }
  }
}

// Copies on the way are found as such.
void Cluster::check_mbarriers(const Block& block) {
  for (const auto& [offset, mbarrier] : block.mbarriers) {
    const Mbarrier::Counter& counter = mbarrier.counter;
    if (counter.warp == nullptr || mbarrier.has_copies()) {
      continue;
    }
    if (const CheckResult result = mbarrier.check_end(); !result) {
      counter.warp->report(
          FindingKind::kBarrierMisuse, *counter.op, counter.lanes,
          fmt::format("block ({}) ends, and at its mbarrier {:#x} {}",
                      fmt::join(block.index(), ","), block.shared_base() + offset, result.reason));
    }
  }
}

void Cluster::check_tensor_memory(const Block& block) {
  if (!block.tensor.allocations().empty()) {
    const TensorAllocation& left = block.tensor.allocations().front();
    left.warp->report(FindingKind::kLifetime, *left.op, kAllLanes,
                      fmt::format("block ({}) has ended without deallocating columns {} of tensor "
                                  "memory",
                                  fmt::join(block.index(), ","), block.tensor.text()));
  }
}

void Cluster::release_barrier() {
  if (arrived_threads == 0) {
    return;
  }
  std::uint32_t live = 0;
  for (const Block& block : blocks_) {
    live += block.live_threads();
  }
  if (arrived_threads >= live) {
    arrived_threads = 0;
    ++generation;
    sync_point.complete();
  }
}

}  // namespace emu
