// A launched grid: what all its blocks have in common, and how far it has come.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "emulator/machine/global_memory.hpp"
#include "emulator/machine/tracer.hpp"
#include "emulator/program/program.hpp"
#include "emulator/races/races.hpp"

namespace emu {

struct Grid {
  const Program* program = nullptr;
  GlobalMemory& memory;
  std::mt19937_64& random;
  std::uint64_t number = 0;  // among all grids of the device, from 1
  std::array<std::uint32_t, 3> blocks{};
  std::array<std::uint32_t, 3> threads{};
  std::array<std::uint32_t, 3> cluster{};  // blocks
  std::size_t shared_bytes = 0;            // of a block, with those reserved
  std::uint32_t registers = 0;             // of a thread
  std::vector<std::byte> parameters{};

  /// Previous grid of the same run, whose end griddepcontrol.wait awaits.
  const Grid* before = nullptr;
  bool is_dependent = false;   // may start before that one has ended
  std::uint64_t released = 0;  // blocks that have let the next grid start, or ended
  std::uint64_t started = 0;   // blocks
  std::uint64_t ended = 0;     // blocks
  std::uint64_t works = 0;     // asynchronous, in flight; what they write is the grid's

  std::size_t tensor_blocks = 0;  // its cta_group, which all tcgen05 have; 0: not known yet
  std::uint64_t clock = 0;        // that warps have read last

  races::RunRaces* races = nullptr;  // null: the run does not detect races
  std::uint32_t number_in_run = 0;   // from 1, in the order in which they begin

  bool checks_swizzle_starts = false;
  bool checks_last_stores = false;
  bool checks_late_commits = false;
  bool checks_stored_values = false;

  Tracer* tracer = nullptr;  // null: the run is not traced

  [[nodiscard]] std::uint64_t block_count() const {
    return std::uint64_t{blocks[0]} * blocks[1] * blocks[2];
  }
  [[nodiscard]] std::uint32_t cluster_blocks() const {
    return cluster[0] * cluster[1] * cluster[2];
  }
  [[nodiscard]] bool has_ended() const { return ended == block_count() && works == 0; }
  /// Whether its own work no longer keeps the next grid from starting.
  [[nodiscard]] bool lets_next_start() const { return released == block_count(); }
};

}  // namespace emu
