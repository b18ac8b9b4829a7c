// A cluster of blocks that can access each other's shared memory, and their asynchronous work.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "emulator/machine/async_work.hpp"
#include "emulator/machine/block.hpp"
#include "emulator/machine/grid.hpp"

namespace emu {

class Cluster {
 public:
  /// `index` is that of the cluster's first block.
  Cluster(Grid& grid, std::array<std::uint32_t, 3> index);
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  [[nodiscard]] Grid& grid() { return grid_; }
  [[nodiscard]] std::deque<Block>& blocks() { return blocks_; }
  [[nodiscard]] std::deque<std::unique_ptr<AsyncWork>>& async_works() { return async_works_; }
  [[nodiscard]] bool is_done() const;
  /// Null if the run does not detect races.
  [[nodiscard]] races::ClusterRaces* races() { return races_.get(); }

  /// Hands work to the scheduler.
  void start(std::unique_ptr<AsyncWork> work) {
    async_works_.push_back(std::move(work));
    ++grid_.async_work_count;
  }

  /// Ends a block whose last thread has exited. Reports a finding if asynchronous work still needs
  /// its shared memory.
  void end_block(Block& block);

  /// State of barrier.cluster: threads that have arrived, and the number of completed phases.
  std::uint32_t arrived_threads = 0;
  std::int64_t generation = 0;
  races::SyncPoint sync_point{};
  /// Completes the phase of barrier.cluster if all remaining threads have arrived.
  void release_barrier();

 private:
  void check_end(Block& block) const;
  static void check_mbarriers(const Block& block);
  static void check_tensor_memory(const Block& block);

  Grid& grid_;
  std::unique_ptr<races::ClusterRaces> races_;
  std::deque<Block> blocks_;
  std::deque<std::unique_ptr<AsyncWork>> async_works_;
};

}  // namespace emu
