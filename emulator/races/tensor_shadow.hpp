// Shadow of a block's tensor memory: each cell's last write and the reads since.
//
// All accesses to tensor memory are asynchronous. An access happens after an earlier one that has
// ended, if tcgen05.wait or tcgen05.commit and tcgen05.fence order the two; or after one that was
// merely issued before, if tensor cores execute the two in order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "emulator/program/tensor_address.hpp"
#include "emulator/races/access.hpp"

namespace emu::races {

/// Form of an operation, for the order among tensor cores: a copy (tcgen05.cp), or a product,
/// identified by its accumulator and shape. 0: any other operation.
constexpr std::uint64_t kCopyForm = 1;

/// View of the current access to tensor memory.
struct TensorView {
  Access access{};
  std::uint64_t form = 0;
  const Clock* ended = nullptr;
  const Clock* issued = nullptr;  // null if the order of issue is not sufficient
  /// Operations that have ended, with or without fences between; sufficient unless `needs_fences`.
  std::array<const Clock*, 2> unfenced{};
  bool needs_fences = true;
};

class TensorShadow {
 public:
  /// Number of lanes that a cell covers, in one column.
  static constexpr std::size_t kLanes = 16;

  // Record accesses to rectangles and return what they conflict with, if anything. Conflict::offset
  // is an address in tensor memory.
  std::optional<Conflict> read(const TensorView& view, const TensorRange& range);
  std::optional<Conflict> write(const TensorView& view, const TensorRange& range);
  /// Finds a conflict with a write of these columns, without recording the write.
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
    std::vector<Mark> reads{};  // one per party
  };

  static std::optional<Conflict> cell_conflict(const TensorView& view, const Cell& cell);
  template <typename Use>
  std::optional<Conflict> for_each_cell(const TensorRange& range, Use&& use);

  std::vector<Cell> cells_;
};

}  // namespace emu::races
