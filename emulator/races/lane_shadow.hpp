// Which lane of a warp has last written and read each cell of a block's shared memory since the
// warp was last brought together: what lanes tell each other through memory has to have a
// bar.warp.sync, or a barrier of more than a warp, between the two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace emu::races {

/// A stretch of one warp's operations without a barrier in it. No two warps have the same.
using Stretch = std::uint32_t;

class LaneShadow {
 public:
  /// Who accesses something together; who has read something one after the other. Several that have
  /// written the same by one instruction are in nobody's way.
  static constexpr int kTogether = -1;
  static constexpr int kSeveral = -2;

  /// An earlier access of another lane in the same stretch.
  struct Conflict {
    int lane = 0;                 // one, or kTogether or kSeveral
    std::uint32_t operation = 0;  // its number in the program
    bool is_write = false;
    std::uint64_t offset = 0;
  };

  /// Whether something is in the way of a lane's access; nothing is recorded.
  [[nodiscard]] std::optional<Conflict> find(Stretch stretch, int lane, bool is_write,
                                             std::uint64_t offset, std::size_t bytes) const;
  void record(Stretch stretch, int lane, std::uint32_t operation, bool is_write,
              std::uint64_t offset, std::size_t bytes);

 private:
  static constexpr unsigned kCellShift = 2;

  struct Mark {
    Stretch stretch = 0;  // 0: none
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
