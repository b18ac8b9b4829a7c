// A launched grid: state that its blocks share, and its progress.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "emulator/machine/global_memory.hpp"
#include "emulator/machine/printed.hpp"
#include "emulator/machine/tracer.hpp"
#include "emulator/program/program.hpp"
#include "emulator/races/races.hpp"

namespace emu {

class FindingLog;

struct Grid {
  const Program* program = nullptr;
  GlobalMemory& memory;
  std::mt19937_64& random;
  std::uint64_t number = 0;  // number since the device's creation, from 1
  std::array<std::uint32_t, 3> blocks{};
  std::array<std::uint32_t, 3> threads{};
  std::array<std::uint32_t, 3> cluster{};  // size in blocks
  std::size_t shared_bytes = 0;            // shared memory per block, with the reserved bytes
  std::size_t dynamic_shared_bytes = 0;    // those that the launch asks for
  std::uint32_t registers = 0;             // registers per thread
  std::vector<std::byte> parameters{};

  /// Previous grid of the run, which griddepcontrol.wait waits for.
  const Grid* previous = nullptr;
  bool is_cooperative = false;        // all blocks run concurrently
  std::uint64_t workspace = 0;        // address of memory for the grid's barrier; 0: none
  bool is_dependent = false;          // the grid may start before the previous one has ended
  std::uint64_t released_blocks = 0;  // blocks that have ended or allowed the next grid to start
  std::uint64_t started_blocks = 0;   // blocks that have started
  std::uint64_t ended_blocks = 0;     // blocks that have ended
  std::uint64_t async_work_count =
      0;  // asynchronous work in flight, which may still write for the grid

  std::size_t tensor_blocks = 0;  // cta_group that all tcgen05 instructions share; 0: not known yet
  std::uint64_t clock = 0;        // last value of the clock that warps read

  races::RunRaces* races = nullptr;  // null if the run does not detect races
  std::uint32_t number_in_run = 0;   // from 1, in the order in which grids begin

  bool checks_swizzle_starts = false;
  bool checks_last_stores = false;
  bool checks_late_commits = false;
  bool checks_stored_values = false;
  bool checks_zeroed_accumulators = false;
  bool checks_tensor_waits = false;
  bool checks_same_stores = false;

  FindingLog* findings = nullptr;

  Printed* printed = nullptr;  // text that kernels print
  Tracer* tracer = nullptr;    // null if the run is not traced

  [[nodiscard]] std::uint64_t block_count() const {
    return std::uint64_t{blocks[0]} * blocks[1] * blocks[2];
  }
  [[nodiscard]] std::uint32_t cluster_blocks() const {
    return cluster[0] * cluster[1] * cluster[2];
  }
  [[nodiscard]] bool has_ended() const {
    return ended_blocks == block_count() && async_work_count == 0;
  }
  /// Index of the first block of the cluster that starts next.
  [[nodiscard]] std::array<std::uint32_t, 3> next_cluster() const {
    const std::uint64_t next = started_blocks / cluster_blocks();
    const std::uint64_t clusters_x = blocks[0] / cluster[0];
    const std::uint64_t clusters_y = blocks[1] / cluster[1];
    return {static_cast<std::uint32_t>(next % clusters_x) * cluster[0],
            static_cast<std::uint32_t>(next / clusters_x % clusters_y) * cluster[1],
            static_cast<std::uint32_t>(next / clusters_x / clusters_y) * cluster[2]};
  }
  /// Counts the blocks of that cluster as ended, without starting them.
  void cancel_next_cluster() {
    started_blocks += cluster_blocks();
    released_blocks += cluster_blocks();
    ended_blocks += cluster_blocks();
  }
  /// Whether all blocks have ended or allowed the next grid to start.
  [[nodiscard]] bool allows_next_grid() const { return released_blocks == block_count(); }
};

}  // namespace emu
