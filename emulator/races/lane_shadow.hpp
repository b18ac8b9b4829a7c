// Shadow of shared memory by lanes of a warp: which lane has last written and read each cell since
// the warp last synchronised. What lanes tell each other through memory needs a bar.warp.sync, a
// barrier of more than a warp, or an arrival and a wait between the two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace emu::races {

/// Interval of one warp's operations, in which no lane tells others of what it has done. No two
/// warps have the same, and those of a warp are in their order.
using Interval = std::uint32_t;

/// Intervals of a warp, from `first` until now, whose operations on memory have no order between
/// lanes.
struct OpenIntervals {
  Interval first = 0;
  Interval now = 0;
  [[nodiscard]] bool have(Interval interval) const { return first <= interval && interval <= now; }
};

class LaneShadow {
 public:
  /// Stand for a lane's number: all lanes by one instruction; several lanes, one after the other.
  /// Where several have written the same values by one instruction, nothing conflicts.
  static constexpr int kTogether = -1;
  static constexpr int kSeveral = -2;

  /// Earlier access of another lane in these intervals.
  struct Conflict {
    int lane = 0;                 // one, or kTogether or kSeveral
    std::uint32_t operation = 0;  // its number in the program
    bool is_write = false;
    std::uint64_t offset = 0;
  };

  /// Finds what a lane's access would conflict with; nothing is recorded.
  [[nodiscard]] std::optional<Conflict> find(const OpenIntervals& open, int lane, bool is_write,
                                             std::uint64_t offset, std::size_t bytes) const;
  void record(const OpenIntervals& open, int lane, std::uint32_t operation, bool is_write,
              std::uint64_t offset, std::size_t bytes);

 private:
  static constexpr unsigned kCellShift = 2;

  struct Mark {
    Interval interval = 0;  // 0: none
    std::uint32_t operation = 0;
    std::int8_t lane = 0;
  };
  struct Cell {
    Mark write{};
    Mark read{};
  };

  std::vector<Cell> cells_;
};

}  // namespace emu::races
