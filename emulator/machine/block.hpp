// A block of threads: its warps, its shared memory and its barriers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "emulator/machine/global_memory.hpp"
#include "emulator/machine/warp.hpp"
#include "emulator/program/program.hpp"

namespace emu {

/// Where generic addresses mean shared, local and parameter memory.
constexpr std::uint64_t kSharedWindow = 0x1'0000'0000;
constexpr std::uint64_t kParameterWindow = 0x2'0000'0000;
constexpr std::uint64_t kLocalWindow = 0x3'0000'0000;
constexpr std::uint64_t kWindowBytes = 0x1'0000'0000;
/// Shared memory begins with what the system has for itself.
constexpr std::size_t kReservedSharedBytes = 1024;

/// What all blocks of a launch have in common.
struct Grid {
  const Program* program = nullptr;
  GlobalMemory* memory = nullptr;
  std::array<std::uint32_t, 3> blocks{};
  std::array<std::uint32_t, 3> threads{};
  std::size_t shared_bytes = 0;  // with those reserved
  std::vector<std::byte> parameters{};
  std::mt19937_64 random{};
};

/// bar.sync and its like.
struct Barrier {
  std::uint32_t arrived = 0;   // threads
  std::uint32_t expected = 0;  // as the first one said; 0: all that have not exited
  std::int64_t generation = 0;
};

class Block {
 public:
  Block(Grid& grid, std::array<std::uint32_t, 3> index);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  [[nodiscard]] Grid& grid() { return grid_; }
  [[nodiscard]] const std::array<std::uint32_t, 3>& index() const { return index_; }
  [[nodiscard]] std::deque<Warp>& warps() { return warps_; }
  [[nodiscard]] bool is_done() const;
  [[nodiscard]] std::uint32_t live_threads() const;

  /// Releases barriers for which the threads that are left have all arrived.
  void release_barriers();

  std::vector<std::byte> shared{};
  std::vector<bool> is_shared_written{};
  std::vector<std::byte> local{};  // of each thread, one after the other
  std::vector<bool> is_local_written{};
  std::array<Barrier, 16> barriers{};

 private:
  Grid& grid_;
  std::array<std::uint32_t, 3> index_;
  std::deque<Warp> warps_;
};

}  // namespace emu
