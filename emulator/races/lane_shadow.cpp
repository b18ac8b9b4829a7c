// Shadow of shared memory for the lanes of a warp.
#include "emulator/races/lane_shadow.hpp"

#include <algorithm>
#include <bit>

namespace emu::races {

std::optional<LaneShadow::Conflict> LaneShadow::find(const OpenIntervals& open, int lane,
                                                     bool is_write, std::uint64_t offset,
                                                     std::size_t bytes, bool is_strong,
                                                     bool repeats_value) const {
  const Lanes own_lanes = lane < 0 ? 0 : lane_bit(lane);
  const auto conflict_with_mark = [&](const Mark& mark, bool was_write,
                                      std::size_t cell) -> std::optional<Conflict> {
    const bool is_of_several = mark.is_whole_warp == 0 && !is_one_lane(mark.lanes);
    if (!open.contains(mark.interval) || mark.lanes == own_lanes || (was_write && is_of_several) ||
        (is_strong && mark.is_strong != 0) || (was_write && repeats_value && mark.is_strong == 0)) {
      return std::nullopt;
    }
    return Conflict{.lane = is_one_lane(mark.lanes) ? std::countr_zero(mark.lanes) : kWholeWarp,
                    .operation = mark.operation,
                    .is_write = was_write,
                    .offset = std::uint64_t{cell} << shift_};
  };
  const std::size_t end = std::min(((offset + bytes - 1) >> shift_) + 1, cells_.size());
  for (std::size_t cell = offset >> shift_; cell < end; ++cell) {
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
  const std::size_t end = ((offset + bytes - 1) >> shift_) + 1;
  if (cells_.size() < end) {
    cells_.resize(end);
  }
  const Lanes own_lanes = lane < 0 ? kAllLanes : lane_bit(lane);
  for (std::size_t cell = offset >> shift_; cell < end; ++cell) {
    Mark& mark = is_write ? cells_[cell].write : cells_[cell].read;
    const bool is_kept = open.contains(mark.interval) && (!is_write || mark.operation == operation);
    const Lanes others = is_kept ? mark.lanes : 0;
    mark = {.interval = open.now,
            .operation = operation,
            .is_whole_warp = lane < 0 ? 1U : 0U,
            .is_strong = is_strong ? 1U : 0U,
            .lanes = own_lanes | others};
  }
}

std::optional<Lanes> LaneShadow::lanes_of(Interval warp, std::uint32_t operation,
                                          std::uint64_t offset) const {
  const std::size_t number = offset >> shift_;
  if (number >= cells_.size()) {
    return std::nullopt;
  }
  const Mark& mark = cells_[number].write;
  const bool is_same =
      mark.lanes != 0 && mark.operation == operation && mark.interval >> kIntervalBits == warp;
  const bool is_of_any = mark.is_whole_warp == 0 && !is_one_lane(mark.lanes);
  return is_same && !is_of_any ? std::optional(mark.lanes) : std::nullopt;
}

}  // namespace emu::races
