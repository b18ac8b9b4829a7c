// Shadow of shared memory for the lanes of a warp: which lane has last written and read each cell
// since the warp last synchronised. Lanes that communicate through memory need a bar.warp.sync, a
// barrier of the block, or an arrival and a wait between the two accesses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace emu::races {

/// Number of an interval of a warp's operations, between two synchronisations of its lanes. Unique
/// among all warps, and ascending within a warp.
using Interval = std::uint32_t;

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
  /// Values in place of a lane's number: all lanes by one instruction; several lanes, one after the
  /// other. Lanes that write the same values by one instruction do not conflict.
  static constexpr int kWholeWarp = -1;
  static constexpr int kSeveralLanes = -2;

  /// Earlier access by another lane in these intervals.
  struct Conflict {
    int lane = 0;                 // lane's number, kWholeWarp or kSeveralLanes
    std::uint32_t operation = 0;  // number of the operation in its program
    bool is_write = false;
    std::uint64_t offset = 0;
  };

  /// Finds a conflict with a lane's access, without recording the access. Strong accesses do not
  /// conflict with each other.
  [[nodiscard]] std::optional<Conflict> find(const OpenIntervals& open, int lane, bool is_write,
                                             std::uint64_t offset, std::size_t bytes,
                                             bool is_strong = false) const;
  void record(const OpenIntervals& open, int lane, std::uint32_t operation, bool is_write,
              std::uint64_t offset, std::size_t bytes, bool is_strong = false);

 private:
  static constexpr unsigned kCellShift = 2;

  struct Mark {
    Interval interval = 0;  // 0: none
    std::uint32_t operation = 0;
    std::int8_t lane = 0;
    bool is_strong = false;
  };
  struct Cell {
    Mark write{};
    Mark read{};
  };

  std::vector<Cell> cells_;
};

}  // namespace emu::races
