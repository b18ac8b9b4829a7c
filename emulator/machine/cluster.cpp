// A cluster of blocks, which reach each other's shared memory, and the work that goes on beside
// their warps.
#include "emulator/machine/cluster.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace emu {

Cluster::Cluster(Grid& grid, std::array<std::uint32_t, 3> index) : grid_(grid) {
  std::vector<std::array<std::uint32_t, 3>> places;
  for (std::uint32_t rank = 0; rank < grid.cluster_blocks(); ++rank) {
    const std::array<std::uint32_t, 3> within = {rank % grid.cluster[0],
                                                 rank / grid.cluster[0] % grid.cluster[1],
                                                 rank / grid.cluster[0] / grid.cluster[1]};
    places.push_back({index[0] + within[0], index[1] + within[1], index[2] + within[2]});
  }
  if (grid.races != nullptr) {
    const std::uint32_t threads = grid.threads[0] * grid.threads[1] * grid.threads[2];
    races_ = std::make_unique<races::ClusterRaces>(
        *grid.races,
        races::RunRaces::Record{
            .grid = &grid, .blocks = places, .warps = (threads + kLanes - 1) / kLanes},
        grid.number_in_run, grid.ended_before_it);
  }
  for (std::uint32_t rank = 0; rank < places.size(); ++rank) {
    blocks_.emplace_back(*this, rank, places[rank]);
  }
}

bool Cluster::is_done() const {
  return works_.empty() && std::ranges::all_of(blocks_, &Block::is_done);
}

void Cluster::end_block(Block& block) {
  for (const auto& work : works_) {
    if (work->needs(block)) {
      work->warp().stop(FindingKind::kLifetime, work->op(), work->lanes(),
                        fmt::format("block ({}) has ended, whose shared memory this still needs",
                                    fmt::join(block.index(), ",")));
    }
  }
  if (!block.has_released) {
    block.has_released = true;
    ++grid_.released;
  }
  ++grid_.ended;
  release_barrier();
}

void Cluster::release_barrier() {
  std::uint32_t live = 0;
  for (const Block& block : blocks_) {
    live += block.live_threads();
  }
  if (arrived > 0 && arrived >= live) {
    arrived = 0;
    ++generation;
    meeting.complete();
  }
}

}  // namespace emu
