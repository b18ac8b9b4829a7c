// Shadow of a block's tensor memory: the last write of each cell, and the reads since.
//
// What goes on there is all asynchronous. An access comes after an earlier one that has ended, if
// tcgen05.wait or tcgen05.commit and tcgen05.fence say so; or after one that has merely been issued
// before, if tensor cores do the two one after the other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "emulator/program/tensor_address.hpp"
#include "emulator/races/access.hpp"

namespace emu::races {

/// What tensor cores do in the order in which it is issued: a copy (tcgen05.cp), or a product, by
/// its accumulator and shape. 0: anything else.
constexpr std::uint64_t kCopyForm = 1;

/// Access to tensor memory that is made now, and what happens before it.
struct TensorView {
  Access access{};
  std::uint64_t form = 0;
  const Clock* ended = nullptr;
  const Clock* issued = nullptr;  // null: it is not enough
  /// What has ended with no fence on the way, and whether that is enough.
  std::array<const Clock*, 2> unfenced{};
  bool needs_fences = true;
};

class TensorShadow {
 public:
  /// Lanes of a cell, which has one column.
  static constexpr std::size_t kLanes = 16;

  // Record accesses to rectangles and return what they conflict with, if anything.
  // Conflict::offset is an address in tensor memory.
  std::optional<Conflict> read(const TensorView& view, const TensorRange& range);
  std::optional<Conflict> write(const TensorView& view, const TensorRange& range);
  /// Finds what a write of these columns would conflict with; nothing is recorded.
  std::optional<Conflict> find(const TensorView& view, std::size_t column, std::size_t columns);
  /// Forgets all accesses to these columns.
  void clear(std::size_t column, std::size_t columns);

 private:
  struct Mark {
    Access access{};
    std::uint64_t form = 0;
  };
  struct Cell {
    Mark write{};
    std::vector<Mark> reads{};  // one of each party
  };

  static std::optional<Conflict> against_all(const TensorView& view, const Cell& cell);
  template <typename Use>
  std::optional<Conflict> for_each_cell(const TensorRange& range, Use&& use);

  std::vector<Cell> cells_;
};

}  // namespace emu::races
