// Shadow of shared memory for the lanes of a warp: which lanes have last written and read each cell
// since the warp last synchronised. Lanes that communicate through memory need a bar.warp.sync, a
// barrier of the block, or an arrival and a wait between the two accesses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "emulator/program/lanes.hpp"

namespace emu::races {

/// Number of an interval of a warp's operations, between two synchronisations of its lanes. Unique
/// among all warps, and ascending within a warp: the bits above kIntervalBits hold the warp's
/// number.
using Interval = std::uint32_t;
constexpr unsigned kIntervalBits = 27;

/// Intervals of a warp, from `first` to now, in which memory operations of different lanes are
/// unordered.
struct OpenIntervals {
  Interval first = 0;
  Interval now = 0;
  [[nodiscard]] bool contains(Interval interval) const {
    return first <= interval && interval <= now;
  }
};

class LaneShadow {
 public:
  /// Value in place of a lane's number: all lanes by one instruction.
  static constexpr int kWholeWarp = -1;

  /// Cells of four bytes, or of 1 << `shift`.
  explicit LaneShadow(unsigned shift = 2) : shift_(shift) {}

  /// Earlier access by another lane in these intervals.
  struct Conflict {
    int lane = 0;                 // lane's number, or kWholeWarp for several lanes
    std::uint32_t operation = 0;  // number of the operation in its program
    bool is_write = false;
    std::uint64_t offset = 0;
  };

  /// Finds a conflict with a lane's access, without recording the access. Lanes that write the same
  /// values by one instruction do not conflict, nor do strong accesses with each other, nor a weak
  /// write that `repeats_value` with the write that it repeats.
  [[nodiscard]] std::optional<Conflict> find(const OpenIntervals& open, int lane, bool is_write,
                                             std::uint64_t offset, std::size_t bytes,
                                             bool is_strong = false,
                                             bool repeats_value = false) const;
  void record(const OpenIntervals& open, int lane, std::uint32_t operation, bool is_write,
              std::uint64_t offset, std::size_t bytes, bool is_strong = false);

  /// Lanes of a warp of the block that have made the cell's last write, if the operation did;
  /// nothing if it did not, or if several lanes have written the same value.
  [[nodiscard]] std::optional<Lanes> lanes_of(Interval warp, std::uint32_t operation,
                                              std::uint64_t offset) const;

 private:
  struct Mark {
    Interval interval = 0;  // 0: none
    std::uint32_t operation : 30 = 0;
    std::uint32_t is_whole_warp : 1 = 0;
    std::uint32_t is_strong : 1 = 0;
    Lanes lanes = 0;
  };
  struct Cell {
    Mark write{};
    Mark read{};
  };

  unsigned shift_;
  std::vector<Cell> cells_;
};

}  // namespace emu::races
