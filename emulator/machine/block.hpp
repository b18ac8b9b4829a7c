// A block of threads: its warps, its shared memory and its barriers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "emulator/machine/grid.hpp"
#include "emulator/machine/mbarrier.hpp"
#include "emulator/machine/tensor_memory.hpp"
#include "emulator/machine/warp.hpp"
#include "emulator/program/address_space.hpp"
#include "emulator/races/lane_shadow.hpp"
#include "emulator/races/shared_shadow.hpp"

namespace emu {

class Cluster;

/// Predicates of the threads at a barrier, for bar.red.
struct BarrierVotes {
  std::uint32_t count = 0;  // number of threads whose predicate holds
  bool all = true;

  void add(std::uint32_t holding, std::uint32_t threads) {
    count += holding;
    all = all && holding == threads;
  }
};

/// Barrier of a block, for bar.sync, bar.red and bar.arrive.
struct Barrier {
  std::uint32_t arrived_threads = 0;  // threads that have arrived
  std::uint32_t expected_threads =
      0;  // thread count that the first arrival gave; 0: all threads that have not exited
  std::int64_t generation = 0;
  races::SyncPoint sync_point{};
  std::vector<Lanes> arrived_lanes{};  // by warp, if lanes have arrived apart
  BarrierVotes votes{};
  bool has_votes = false;
  std::map<std::int64_t, BarrierVotes> results{};  // votes of completed generations with any

  /// Keeps the votes as the generation's result.
  void complete_votes();
};

class Block {
 public:
  Block(Cluster& cluster, std::uint32_t rank, std::array<std::uint32_t, 3> index);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  [[nodiscard]] Grid& grid() { return grid_; }
  [[nodiscard]] Cluster& cluster() { return cluster_; }
  /// Rank of the block in its cluster.
  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  /// Address of the beginning of the block's shared memory.
  [[nodiscard]] std::uint32_t shared_base() const { return rank_ << kRankShift; }
  [[nodiscard]] const std::array<std::uint32_t, 3>& index() const { return index_; }
  [[nodiscard]] std::deque<Warp>& warps() { return warps_; }
  [[nodiscard]] bool is_done() const;
  [[nodiscard]] std::uint32_t live_threads() const;

  /// Releases barriers at which all remaining threads have arrived.
  void release_barriers();

  /// Updates the block after the exit of a warp's last thread.
  void end_warp();

  std::vector<std::byte> shared{};
  std::vector<std::uint8_t> is_shared_written{};  // per byte: 0, 1 or kMbarrierMark
  std::array<Barrier, 16> barriers{};
  races::SharedShadow shadow{};
  races::LaneShadow lane_shadow{};
  races::LaneShadow byte_lane_shadow{0};  // of accesses to less than a word
  /// The warps of the block that have accessed its shared memory, for the race detector.
  [[nodiscard]] races::LaneLookup lane_lookup() const;
  races::Locations locations{};
  std::map<std::uint32_t, Mbarrier> mbarriers{};  // keyed by the offset in shared memory
  TensorMemory tensor{};
  std::uint32_t free_registers = 0;     // registers that warps have released with setmaxnreg
  bool has_released_next_grid = false;  // the block allows the next grid to start
  std::uint32_t start_delay = 0;        // turns until the block starts
  bool has_seen_refusal = false;        // of a request to cancel a cluster

 private:
  void meet_lanes(const Barrier& barrier);

  Cluster& cluster_;
  Grid& grid_;
  std::uint32_t rank_;
  std::array<std::uint32_t, 3> index_;
  std::deque<Warp> warps_;
};

}  // namespace emu
