// A cluster of blocks, which access each other's shared memory, and their asynchronous work.
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
  /// `index`: of its first block.
  Cluster(Grid& grid, std::array<std::uint32_t, 3> index);
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  [[nodiscard]] Grid& grid() { return grid_; }
  [[nodiscard]] std::deque<Block>& blocks() { return blocks_; }
  [[nodiscard]] std::deque<std::unique_ptr<AsyncWork>>& works() { return works_; }
  [[nodiscard]] bool is_done() const;
  /// Null: the run does not detect races.
  [[nodiscard]] races::ClusterRaces* races() { return races_.get(); }

  /// Hands work to the scheduler.
  void start(std::unique_ptr<AsyncWork> work) {
    works_.push_back(std::move(work));
    ++grid_.works;
  }

  /// Ends a block whose last thread has exited. A finding: work still needs its shared memory.
  void end_block(Block& block);

  /// barrier.cluster: threads that have arrived, and how often all of them had.
  std::uint32_t arrived = 0;
  std::int64_t generation = 0;
  races::Meeting meeting{};
  /// Begins the next generation if the threads that are left have all arrived.
  void release_barrier();

 private:
  void check_end(Block& block) const;
  static void check_tensor_memory(const Block& block);

  Grid& grid_;
  std::unique_ptr<races::ClusterRaces> races_;
  std::deque<Block> blocks_;
  std::deque<std::unique_ptr<AsyncWork>> works_;
};

}  // namespace emu
