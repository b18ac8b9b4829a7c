// Shadow of shared memory for the lanes of a warp.
#include "emulator/races/lane_shadow.hpp"

#include <algorithm>

namespace emu::races {

std::optional<LaneShadow::Conflict> LaneShadow::find(const OpenIntervals& open, int lane,
                                                     bool is_write, std::uint64_t offset,
                                                     std::size_t bytes, bool is_strong) const {
  const auto conflict_with_mark = [&](const Mark& mark, bool was_write,
                                      std::size_t cell) -> std::optional<Conflict> {
    const bool is_own = mark.lane == lane && lane != kWholeWarp;
    if (!open.contains(mark.interval) || is_own || (was_write && mark.lane == kSeveralLanes) ||
        (is_strong && mark.is_strong)) {
      return std::nullopt;
    }
    return Conflict{.lane = mark.lane,
                    .operation = mark.operation,
                    .is_write = was_write,
                    .offset = std::uint64_t{cell} << kCellShift};
  };
  const std::size_t end = std::min(((offset + bytes - 1) >> kCellShift) + 1, cells_.size());
  for (std::size_t cell = offset >> kCellShift; cell < end; ++cell) {
    if (auto conflict = conflict_with_mark(cells_[cell].write, true, cell)) {
      return conflict;
    }
    if (is_write) {
      if (auto conflict = conflict_with_mark(cells_[cell].read, false, cell)) {
        return conflict;
      }
    }
  }
  return std::nullopt;
}

void LaneShadow::record(const OpenIntervals& open, int lane, std::uint32_t operation, bool is_write,
                        std::uint64_t offset, std::size_t bytes, bool is_strong) {
  const std::size_t end = ((offset + bytes - 1) >> kCellShift) + 1;
  if (cells_.size() < end) {
    cells_.resize(end);
  }
  for (std::size_t cell = offset >> kCellShift; cell < end; ++cell) {
    Mark& mark = is_write ? cells_[cell].write : cells_[cell].read;
    const bool is_other_lane = open.contains(mark.interval) && mark.lane != lane;
    mark = {.interval = open.now,
            .operation = operation,
            .lane = static_cast<std::int8_t>(is_other_lane ? kSeveralLanes : lane),
            .is_strong = is_strong};
  }
}

}  // namespace emu::races
