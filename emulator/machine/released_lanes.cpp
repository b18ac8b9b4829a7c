// Lanes that wait where their warp reconverges, and are let go on when nothing else can.
//
// Lanes that have parted meet again behind a branch or a call, where those that come first wait.
// PTX promises progress to each of them (independent thread scheduling), so when others wait for
// what they do later they go on alone. At an instruction that all lanes must run together they wait
// for the others, and are one split with them again.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "emulator/machine/warp.hpp"

namespace emu {

bool Warp::release_waiting_lanes() {
  bool has_released = false;
  for (std::size_t i = 0; i < splits_.size(); ++i) {
    Split& waiting = splits_[i];
    if (waiting.lanes == 0 || waiting.awaited_splits == 0) {
      continue;
    }
    has_released = true;
    released_lanes_ |= waiting.lanes;
    Split alone{.operation = waiting.operation,
                .lanes = std::exchange(waiting.lanes, 0),
                .parent = waiting.parent,
                .join = waiting.join,
                .fragment = create_fragment(waiting.fragment),
                .frame = waiting.frame};
    if (alone.parent >= 0) {
      ++splits_[static_cast<std::size_t>(alone.parent)].awaited_splits;
    }
    current_ = add_split(std::move(alone));
    join_if_reconverged();  // it has waited for a call just before the next point of reconvergence
  }
  return has_released;
}

// A split that has arrived somewhere, for a barrier or for other lanes, does not join here.
bool Warp::gather_released_lanes() {
  const auto has_arrived = [&](const Split& split) {
    return split.is_blocked && (split.ticket >= 0 || (split.lanes & met_lanes) != 0 ||
                                std::ranges::any_of(meetings, [&](const LaneMeeting& meeting) {
                                  return (meeting.arrived & split.lanes) != 0;
                                }));
  };
  for (std::size_t i = 0; i < splits_.size(); ++i) {
    Split& other = splits_[i];
    Split& active_split = splits_[current_];
    if (i == current_ || other.lanes == 0 || other.awaited_splits != 0 ||
        other.operation != active_split.operation || other.parent != active_split.parent ||
        other.join != active_split.join || other.frame != active_split.frame ||
        has_arrived(other)) {
      continue;
    }
    if (races() != nullptr) {
      races()->join_fragment(actor(), other.fragment, active_split.fragment);
    }
    active_split.lanes |= std::exchange(other.lanes, 0);
    other.frame.reset();
    release_parent(other.parent);
  }
  if (splits_[current_].lanes != live_) {
    return false;
  }
  released_lanes_ = 0;
  run_fragment();
  return true;
}

void Warp::check_released_exit(const Op& op, Lanes lanes) const {
  for (const LaneMeeting& meeting : meetings) {
    if ((meeting.mask & lanes & released_lanes_) != 0) {
      stop(FindingKind::kDivergent, op, lanes,
           fmt::format("the lanes exit, but lanes {:#010x} wait for them at a mask of {:#010x}",
                       meeting.arrived, meeting.mask));
    }
  }
}

}  // namespace emu
