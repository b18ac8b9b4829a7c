// The 32 lanes of a warp, and vectors with a value per lane.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace emu {

constexpr int kLanes = 32;

/// A set of lanes: bit i is lane i.
using Lanes = std::uint32_t;
constexpr Lanes kAllLanes = ~Lanes{0};
constexpr Lanes lane_bit(int lane) {
  return Lanes{1} << static_cast<unsigned>(lane);
}

/// Whether the set has one lane. (std::has_single_bit counts bits, by a call without popcnt.)
constexpr bool is_one_lane(Lanes lanes) {
  return lanes != 0 && (lanes & (lanes - 1)) == 0;
}

/// A value for each lane.
template <typename T>
struct Vec {
  T lanes[kLanes];  // NOLINT(modernize-avoid-c-arrays): it is copied as memory
};

/// Calls use(lane) for each lane of the set, in ascending order.
template <typename Use>
void for_each_lane(Lanes lanes, Use&& use) {
  for (; lanes != 0; lanes &= lanes - 1) {
    use(std::countr_zero(lanes));
  }
}

}  // namespace emu
