// Releases by some of a warp's lanes: an arrival at an mbarrier covers the writes to shared memory
// of the lanes that arrive, and those of others that a bar.warp.sync orders before.
//
// Each set of lanes of a warp that arrives has a channel, whose component of a clock is the epoch
// of the warp up to which the accesses of these lanes happen before.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "emulator/program/lanes.hpp"
#include "emulator/races/access.hpp"
#include "emulator/races/clock.hpp"
#include "emulator/races/lane_shadow.hpp"

namespace emu::races {

/// Lanes of a block's warps that have written its shared memory.
struct LaneLookup {
  const LaneShadow* words = nullptr;  // null: unknown
  const LaneShadow* bytes = nullptr;  // accesses of less than a word
  Actor first_warp = 0;               // the block's first warp, and how many it has
  Actor warps = 0;

  /// Lanes that made a write; nothing if they are not known.
  [[nodiscard]] std::optional<Lanes> lanes_of(const Access& access, std::uint64_t offset) const {
    const Actor warp = actor_of(access.party) - first_warp;
    if (words == nullptr || actor_of(access.party) < first_warp || warp >= warps) {
      return std::nullopt;
    }
    const std::uint32_t operation = operation_number(access);
    const auto lanes = words->lanes_of(warp, operation, offset);
    return lanes.has_value() ? lanes : bytes->lanes_of(warp, operation, offset);
  }
};

class LaneReleases {
 public:
  [[nodiscard]] bool is_empty() const { return channels_.empty(); }

  /// Returns the channel of these lanes; add_channel() makes it at their first release.
  template <typename AddChannel>
  Actor channel(Actor warp, Lanes lanes, AddChannel&& add_channel) {
    const auto known = std::ranges::find_if(channels_, [&](const Channel& channel) {
      return channel.warp == warp && channel.lanes == lanes;
    });
    return known != channels_.end()
               ? known->actor
               : channels_.emplace_back(Channel{warp, lanes, add_channel()}).actor;
  }

  /// Whether some lanes of the access's warp have released its epoch, as the clock knows.
  [[nodiscard]] bool is_released(const Access& access, const Clock& clock) const {
    return released_lanes(access, clock) != 0;
  }
  /// Whether the lanes that made the access have released it.
  [[nodiscard]] bool cover(const Access& access, const Clock& clock,
                           const std::optional<Lanes>& lanes) const {
    const Lanes released = released_lanes(access, clock);
    return released != 0 && (lanes.value_or(0) & ~released) == 0;
  }

  /// Raises a clock's components of warps to what some of their lanes have released: in global
  /// memory order is that of the whole warp.
  void raise_warps(Clock& clock) const {
    for (const Channel& channel : channels_) {
      clock.raise(channel.warp, clock.at(channel.actor));
    }
  }

 private:
  struct Channel {
    Actor warp = 0;
    Lanes lanes = 0;
    Actor actor = 0;
  };

  [[nodiscard]] Lanes released_lanes(const Access& access, const Clock& clock) const {
    Lanes lanes = 0;
    for (const Channel& channel : channels_) {
      if (channel.warp == actor_of(access.party) && access.epoch <= clock.at(channel.actor)) {
        lanes |= channel.lanes;
      }
    }
    return lanes;
  }

  std::vector<Channel> channels_;
};

}  // namespace emu::races
